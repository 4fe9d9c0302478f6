"""Diagnose: where a run's joules go, by cause, and the findings that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.result import Result
from tracetool.core.paths import PathLike, paths_of
from tracetool.replay.diagnosis.findings import Finding, findings
from tracetool.replay.diagnosis.ledger import Ledger, ledger
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Diagnosis(Result):
    """Where a run's joules went.

    Attributes
    ----------
    causes : DataFrame
        One row per cause, highest energy first, ``run`` last: energy [J] with its 90 % interval, share, time.
    rows : DataFrame
        One row per GPU, cause and kernel signature; energies sum to the run's. [J]
    findings : tuple of Finding
        The causes that cost most, each with evidence and the run replayed without it.
    notes : tuple of str
        What the figures rest on.
    """

    source: Ledger = field(repr=False)
    findings: tuple[Finding, ...] = ()

    @property
    def causes(self) -> pl.DataFrame:
        """Energy by cause."""
        return self.source.totals

    @property
    def rows(self) -> pl.DataFrame:
        """Energy by GPU, cause and signature."""
        return self.source.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        return self.source.notes

    def _document(self) -> dict[str, Any]:
        clock = self.source.clock
        return {
            "energy_j": self.source.energy_j,
            "span_ms": self.source.span_ms,
            "clock_mhz": clock.recorded_mhz,
            "least_energy_clock_mhz": clock.best_mhz,
            "causes": self.causes.to_dicts(),
            "findings": [one.record() for one in self.findings],
            "rows": self.rows.to_dicts(),
            "notes": list(self.notes),
        }

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Diagnosis", self.rows, load_schema("diagnosis"))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the causes, the findings and what they rest on."""
        from tracetool.report.terminal.diagnosed import print_diagnosis

        print_diagnosis(self.source, self.findings, written)


def diagnose(
    run: PathLike,
    *,
    gpu: str | None = None,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
) -> Diagnosis:
    """Return where a run's joules went and what would save some, as ``tracetool diagnose``.

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

    Raises
    ------
    BadInput
        If the run holds no activity, its GPU is not known or a log cannot be used.

    Examples
    --------
    >>> import tracetool as tt
    >>> diagnosis = tt.diagnose(run)
    >>> abs(diagnosis.causes["energy_j"][:-1].sum() / diagnosis.causes["energy_j"][-1] - 1.0) < 1e-9
    True
    """
    from tracetool.api.run import open_run

    opened = open_run(run)
    booked = ledger(opened, gpu=gpu, power=paths_of(power), tz=tz)
    return Diagnosis(booked, tuple(findings(opened, booked, gpu)))
