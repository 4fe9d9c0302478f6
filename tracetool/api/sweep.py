"""Sweep: the clock or power cap of least energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tracetool.api.arguments import given_assumptions, positive, table_or_path, text
from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.paths import PathLike
from tracetool.core.stated_share import stated_share
from tracetool.replay.clocks import given_values
from tracetool.replay.sweep import Swept
from tracetool.replay.sweep import sweep as sweep_source

if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View

#: Points that a notebook shows. [1] By definition.
_POINTS_IN_NOTEBOOKS: Final = 10


@dataclass(frozen=True)
class Sweep(Charted):
    """Operating points, and the best of them.

    Attributes
    ----------
    points : DataFrame, shape (points, columns)
        One row per clock and cap: makespan [ms], energy [J] with its 90 % interval, whether it is
        Pareto-optimal.
    best : DataFrame, shape (goals, columns)
        The best point of each goal, with the share of energy saved and its interval.
    families : DataFrame, shape (families, columns)
        The best clock of each family by itself.
    """

    swept: Swept = field(repr=False)

    @property
    def points(self) -> pl.DataFrame:
        """One row per clock and cap."""
        return self.swept.points

    @property
    def best(self) -> pl.DataFrame:
        """One row per goal."""
        return self.swept.best

    @property
    def families(self) -> pl.DataFrame:
        """One row per family."""
        return self.swept.families

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.swept.gpu

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.swept.notes

    @property
    def conditions(self) -> Mapping[str, Any]:
        """The reference clock [MHz], the allowed slowdown, anchor and coverage."""
        return self.swept.info

    def _document(self) -> dict[str, Any]:
        tables = {"points": self.points, "best": self.best, "families": self.families}
        rows = {name: table.to_dicts() for name, table in tables.items()}
        return {"gpu": self.gpu, **self.conditions, **rows, "notes": list(self.notes)}

    def _view(self) -> View:
        return self._page()

    def _notebook(self) -> View:
        return self._page(_POINTS_IN_NOTEBOOKS)

    def _page(self, most: int | None = None) -> View:
        from tracetool.report.sweep_page import sweep_blocks
        from tracetool.report.view import View

        title = f"Operating points on {self.gpu}"
        return View(title, self.points, blocks=sweep_blocks(self.swept, most))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.pareto import swept_chart

        return swept_chart(self.swept)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the points as bars, the best of them and the families."""
        from tracetool.report.terminal.sweep import print_swept

        print_swept(self.swept, written)


@public
def sweep(
    source: PathLike | pl.DataFrame,
    *,
    gpu: str | None = None,
    clock: str | float | Sequence[float] | None = None,
    power_cap: str | float | Sequence[float] | None = None,
    mem_clock: float | None = None,
    launch: str | None = None,
    anchor: str | None = None,
    stack: str | None = None,
    operands: str | None = None,
    calibration: PathLike | Sequence[PathLike] = (),
    temperature: float | None = None,
    ambient: float | None = None,
    slowdown: float | str = 0.05,
    against: float | None = None,
) -> Sweep:
    """Find the clock or power cap of least energy, as ``tracetool sweep``.

    Parameters
    ----------
    source, gpu, mem_clock, launch, anchor, stack, operands, calibration, temperature, ambient
        As :func:`tracetool.predict`.
    clock : float, sequence of float or str, optional
        Clocks; by default 41 of the GPU's from 35 % of its highest up. [MHz]
    power_cap : float, sequence of float or str, optional
        Power caps to try at the highest clock. [W]
    slowdown : float or str
        Slowdown allowed for the goal within it, a fraction or a text in per cent: 0.03 is ``"3%"``. [1]
    against : float, optional
        Clock that savings are stated against; by default the recorded one, else the boost clock. [MHz]

    Raises
    ------
    BadInput
        If the source, a clock or a cap cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> best = run.sweep(clock="900:2100:300").best
    >>> best["goal"][0], best["energy_saved"][0] >= 0
    ('least energy', True)
    """
    return Sweep(
        sweep_source(
            table_or_path(source),
            text("gpu", gpu),
            given_values(clock),
            given_values(power_cap, option="--power-cap", unit="W") or (),
            mem_clock_mhz=positive("mem_clock", mem_clock),
            launch=launch,
            anchor=anchor,
            slowdown=stated_share(slowdown, "--slowdown"),
            against_mhz=positive("against", against),
            assumed=given_assumptions(calibration, temperature, ambient, stack, operands),
        )
    )
