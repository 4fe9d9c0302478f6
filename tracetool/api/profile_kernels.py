"""Profile several kernels: their power side by side, by component and by what ran before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import several
from tracetool.api.profile import Profile, check_sources
from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike
from tracetool.measure.fingrav.side_by_side import SideBySide, compare_runs, compare_tables
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View


@dataclass(frozen=True)
class KernelProfiles(Charted):
    """Fine-grain power of several kernels side by side.

    Attributes
    ----------
    profiles : tuple of Profile
        The profile of each kernel.
    comparison : DataFrame
        One row per kernel, kind and component: mean power [W] with its 90 % interval, share of the kernel's
        total, energy [mJ].
    contexts : DataFrame or None
        Mean power [W] of each kernel by what ran before, over that of the isolated kernel; None where none
        ran among others.
    findings : tuple of str
        Which kernel draws most and least of each component.
    """

    compared: SideBySide = field(repr=False)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profile of each kernel."""
        return tuple(Profile(one) for one in self.compared.profiles)

    @property
    def comparison(self) -> pl.DataFrame:
        """One row per kernel, kind and component."""
        return self.compared.frame

    @property
    def contexts(self) -> pl.DataFrame | None:
        """One row per kernel and context."""
        return self.compared.contexts

    @property
    def findings(self) -> tuple[str, ...]:
        """Which kernel draws most and least of each component."""
        return self.compared.sentences

    def _document(self) -> dict[str, Any]:
        return self.compared.document()

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Power of kernels side by side", self.comparison, load_schema("kernel_power"))

    def _chart(self) -> Chart:
        from tracetool.report.pictures.kernel_power import kernel_power

        return kernel_power(self.compared)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print each kernel's profile in a line, the components side by side and what sets kernels apart."""
        from tracetool.report.terminal.power_profile import print_side_by_side

        print_side_by_side(self.compared, written)


@public
def profile_kernels(
    sources: PathLike | Sequence[PathLike],
    *,
    kernels: str | Sequence[str] = (),
    top: int | None = None,
    gpu: str | None = None,
    power: PathLike | None = None,
    sync: PathLike | None = None,
    window: float | None = None,
    margin: float | None = None,
) -> KernelProfiles:
    """Set the power profiles of several kernels side by side, as ``tracetool profile --kernel A --kernel B``.

    Parameters
    ----------
    sources : run, path or sequence of them
        Runs with power logs, each kernel in any of them, or one table of executions with a column ``kernel``.
    kernels : sequence of str
        Parts of the kernels' names.
    top : int, optional
        How many kernels: after those named the others with most time.
    gpu, power, sync, window, margin : optional
        As for :func:`tracetool.profile`.

    Raises
    ------
    BadInput
        As for :func:`tracetool.profile`; if two names mean one kernel, or fewer than two are asked for.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.profile_kernels(run, top=1)
    Traceback (most recent call last):
    ...
    tracetool.core.errors.BadInput: one kernel is nothing to compare
    """
    named = several("kernels", kernels)
    if max(len(named), top or 0) < 2:
        raise BadInput("one kernel is nothing to compare", "name several, or more than one: --top 4")
    paths = check_sources(sources, power, sync, window)
    if power is None:
        return KernelProfiles(compare_runs(paths, kernels=named, top=top, gpu=gpu, margin=margin))
    window_s = 0.0 if window is None else window * 1e-3
    return KernelProfiles(
        compare_tables(paths[0], power, kernels=named, top=top, sync=sync, window_s=window_s, margin=margin)
    )
