"""Diff: predicted against measured, or two sides of runs against each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.arguments import number, several, text
from tracetool.api.public import public
from tracetool.api.result import Charted
from tracetool.compare.accuracy import Accuracy
from tracetool.compare.check import compare_with
from tracetool.compare.diff_run import diff_run
from tracetool.compare.outcome import RunDiff
from tracetool.compare.run_options import RunOptions, basis_named, compared_by
from tracetool.compare.thresholds import parse_thresholds
from tracetool.core.errors import BadInput, CheckFailed
from tracetool.core.paths import PathLike, paths_of

if TYPE_CHECKING:
    from tracetool.report.view import View


class Comparison(Charted):
    """A comparison with limits that it may break."""

    @property
    @abstractmethod
    def failed(self) -> bool:
        """Whether a limit that was asked for is broken."""

    @property
    def undecided(self) -> bool:
        """Whether a limit that was asked for could not be judged."""
        return False

    @property
    @abstractmethod
    def reasons(self) -> Sequence[str]:
        """One sentence per figure that decided it."""

    @abstractmethod
    def _view(self) -> View:
        """Return the report."""

    def raise_if_failed(self, *, strict: bool = False) -> None:
        """Raise where a limit is broken; with ``strict`` also where one could not be judged.

        Raises
        ------
        CheckFailed
            With the first reason.
        """
        if self.failed or (strict and self.undecided):
            reasons = self.reasons
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            raise CheckFailed((reasons[0] if reasons else "a limit could not be judged") + more)

    def annotations(self) -> list[str]:
        """Return workflow commands that a CI runner shows beside the change, worst first."""
        from tracetool.report.console import annotation_lines

        return annotation_lines(self._view())

    def _document(self) -> Any:
        return self._view().document

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the report."""
        from tracetool.report.console import show_view

        show_view(self._view())


if TYPE_CHECKING:
    from tracetool.report.pictures.charts import Chart
    from tracetool.report.view import View


@dataclass(frozen=True)
class AccuracyDiff(Comparison):
    """Predicted against measured in one run.

    Attributes
    ----------
    table : DataFrame
        One row per kernel, family and scope: measured and predicted time [ms], energy [J] and power [W] with
        90 % intervals, and errors [%].
    """

    accuracy: Accuracy = field(repr=False)

    @property
    def table(self) -> pl.DataFrame:
        """One row per kernel, family and scope."""
        return self.accuracy.table

    @property
    def failed(self) -> bool:
        """Whether a limit is broken."""
        return bool(self.accuracy.breaches)

    @property
    def reasons(self) -> Sequence[str]:
        """One sentence per broken limit."""
        return self.accuracy.breaches

    @cached_property
    def _report(self) -> View:
        from tracetool.report.accuracy import accuracy_view

        return accuracy_view(self.accuracy)

    def _view(self) -> View:
        return self._report

    def _chart(self) -> Chart:
        from tracetool.report.sections.agreement import accuracy_scatter

        return accuracy_scatter(self.accuracy)


@dataclass(frozen=True)
class RunsDiff(Comparison):
    """Two sides of runs against each other.

    Attributes
    ----------
    table : DataFrame
        One row per kernel, family and the whole: base and head time [s] and energy [J], the change with its
        90 % interval, and why.
    verdict : str
        ``regressed``, ``improved``, ``unchanged`` or ``inconclusive``.
    causes : mapping of str to float
        The energy change by cause; sums to it. [J]
    strict : bool
        Whether the project's settings fail a limit that could not be judged.
    outputs : tuple of Path
        Files that the project's settings ask for.
    """

    compared: RunDiff = field(repr=False)
    strict: bool = False
    outputs: tuple[Path, ...] = ()
    place: str = ""  # the file that states the limits

    @property
    def table(self) -> pl.DataFrame:
        """One row per kernel, family and the whole."""
        return self.compared.table

    @property
    def verdict(self) -> str:
        """Verdict of the figures that have a limit; that of the energy where none has one."""
        return self.compared.verdict

    @property
    def causes(self) -> Mapping[str, float]:
        """The energy change by cause. [J]"""
        return self.compared.factors

    @property
    def failed(self) -> bool:
        """Whether a limit is broken."""
        return self.compared.failed

    @property
    def undecided(self) -> bool:
        """Whether a limit could not be judged."""
        return self.compared.undecided

    @property
    def reasons(self) -> Sequence[str]:
        """One sentence per figure that decided it."""
        return self.compared.reasons

    @cached_property
    def _report(self) -> View:
        from tracetool.report.changes import changes_view

        return changes_view(self.compared, self.place)

    def _view(self) -> View:
        return self._report

    def _chart(self) -> Chart:
        from tracetool.report.sections.comparison import waterfall

        energy = self.compared.metrics[0]
        return waterfall(energy.base, self.causes, energy.head, unit=energy.unit)


@public
def diff(
    base: PathLike | Sequence[PathLike],
    head: PathLike | Sequence[PathLike] | None = None,
    *,
    baseline: str | None = None,
    branch: str = "main",
    energy: str = "auto",
    gpu: str | None = None,
    clock: float | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    fail_on: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    by: str | None = None,
    depth: int | None = None,
) -> AccuracyDiff | RunsDiff:
    """Show what changed between runs and why; of one run, where the model is off; as ``tracetool diff``.

    Parameters
    ----------
    base : run, path or sequence of them
        The base side. Without ``head`` and ``baseline`` one run, whose prediction is compared with what it
        measured; with ``baseline`` the head side.
    head : run, path or sequence of them, optional
        The head side.
    baseline : str, optional
        Folder or bucket of baselines to compare with.
    branch : str
        Branch of the baselines.
    energy : {"auto", "measured", "anchored", "predicted"}
        Which energies to compare.
    gpu : str, optional
        The GPU, where a run does not say.
    clock : float, optional
        Core clock of the run or the prediction. [MHz]
    power : path or sequence of path
        Power logs beside those of the run (one run only).
    tz : str, optional
        Zone of those logs.
    fail_on : str or sequence of str
        Limits, e.g. ``energy=2%``; ``failed`` says whether one is broken.
    ignore : str or sequence of str
        Families and name patterns to leave out.
    by : str, optional
        Groups to compare beside families: signature, family, operator, module, range, iteration, gpu or
        several (``gpu,module``); scopes of limits name them first.
    depth : int, optional
        Levels of nested modules kept apart.

    Raises
    ------
    BadInput
        If a run or a limit cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> same = tt.diff(run, run)
    >>> same.verdict, round(sum(same.causes.values()), 6)
    ('unchanged', 0.0)
    """
    thresholds, keys = parse_thresholds(several("fail_on", fail_on)), compared_by(by, depth)
    runs, logs = paths_of(base), paths_of(power)
    gpu, clock = text("gpu", gpu), number("clock", clock)
    if head is None and baseline is None:
        if len(runs) != 1:
            raise BadInput("several runs on one side only", "give both sides: diff(base, head)")
        return AccuracyDiff(
            diff_run(
                runs[0],
                gpu=gpu,
                clock_mhz=clock,
                power=logs,
                tz=tz,
                thresholds=thresholds,
                by=keys,
                depth=depth,
            )
        )
    if logs or tz:
        raise BadInput("--power and --tz go with one run", "ingest each run with its log: tracetool ingest")
    if head is not None and baseline is not None:
        raise BadInput("a baseline takes the place of the base runs", "give only the head")
    return RunsDiff(
        compare_with(
            ([], runs) if head is None else (runs, paths_of(head)),
            baseline=baseline,
            branch=branch,
            options=RunOptions(basis_named(energy), gpu, clock, by=keys, depth=depth),
            thresholds=thresholds,
            ignore=several("ignore", ignore),
        )
    )
