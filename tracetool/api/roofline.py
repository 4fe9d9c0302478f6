"""Roofline: what the operators of a run achieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.paths import PathLike, paths_of
from tracetool.replay.roofline import Roofline
from tracetool.replay.roofline import roofline as achieved
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class AchievedRates(Result):
    """Achieved rates of a run's operators.

    Attributes
    ----------
    operators : DataFrame
        One row per operator, format and shape, highest energy first: energy [J], time [ms], TFLOP/s, TB/s,
        FLOP/byte, share of the roofline [1], GFLOP/J.
    products : DataFrame
        Of them, the matrix products: batch, M, N, K, layout, format.
    notes : tuple of str
        What the figures rest on.
    """

    source: Roofline = field(repr=False)
    gemm: bool = False

    @property
    def operators(self) -> pl.DataFrame:
        """One row per operator, format and shape."""
        return self.source.frame

    @property
    def products(self) -> pl.DataFrame:
        """The matrix products."""
        return self.source.products()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.source.notes

    def _shown(self) -> pl.DataFrame:
        return self.products if self.gemm else self.operators

    def _document(self) -> dict[str, Any]:
        return {
            "gpu": self.source.gpu,
            "clock_mhz": self.source.clock_mhz,
            "operators": self._shown().to_dicts(),
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Achieved rates", self._shown(), load_schema("roofline"))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the operators with most energy, and what the figures rest on."""
        from tracetool.report.terminal.roofline import print_achieved

        print_achieved(self.source, self._shown(), written, gemm=self.gemm)


@public
def roofline(
    run: PathLike,
    *,
    gpu: str | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    gemm: bool = False,
) -> AchievedRates:
    """Return what every operator and shape of a run achieved, as ``tracetool roofline``.

    Parameters
    ----------
    run : run or path
        The run.
    gpu : str, optional
        The GPU, where the trace does not name it.
    power : path or sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs, e.g. ``+02:00``.
    gemm : bool
        Show matrix products alone.

    Raises
    ------
    BadInput
        If the run holds no kernels, its GPU is not known, or a log cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.roofline(run).operators["energy_j"].is_sorted(descending=True)
    True
    """
    from tracetool.api.run import open_run

    return AchievedRates(achieved(open_run(run), gpu=gpu, power=paths_of(power), tz=tz), gemm)
