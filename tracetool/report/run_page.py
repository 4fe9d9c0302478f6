"""Content of a run's page, independent of its layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.compare.outcome import RunDiff
from tracetool.replay.diagnosis.findings import Finding
from tracetool.replay.energy_by import EnergyBy
from tracetool.replay.operating_points import Clocks
from tracetool.replay.power_over_time import PowerOverTime
from tracetool.replay.time_budget import TimeBudget
from tracetool.report.page_tables import Gaps
from tracetool.report.pictures.timeline import Timeline


@dataclass(frozen=True)
class Fact:
    """One figure at the top of the page: its label, its value with unit, and the line below it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Ceilings:
    """Peak rates of the GPU at the run's clock."""

    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    bytes_per_s: float = 0.0


@dataclass(frozen=True)
class Diagnosed:
    """Causes of a run's joules."""

    causes: pl.DataFrame  # cause, energy_j with its ends, share, time_ms; the run last
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...] = ()  # what is to be said beside gaps that the profiler made
    energy_words: str = ""  # energy of the run and how it is known


@dataclass(frozen=True)
class RunPage:
    """A run, ready to be drawn.

    Parameters
    ----------
    title : str
        Name of the run.
    facts : tuple of Fact
        The figures at the top, most important first.
    accuracy : Accuracy
        Predicted against measured.
    rows : DataFrame
        As :func:`tracetool.report.page_tables.signature_rows` returns.
    parts : mapping of str to DataFrame
        Energies by ``family``, ``operator`` and ``range``; those the run has.
    gaps : Gaps
        Where the device waits.
    idle_w : float
        Power in the gaps. [W]
    timeline : Timeline or None
        Launches and power over time; its signatures number the rows of ``rows``.
    clocks : Clocks or None
        The whole run at other clocks.
    recorded_mhz : float
        Core clock of the run. [MHz]
    ceilings : Ceilings
        For the roofline.
    info : mapping
        ``run.json``.
    against : RunDiff or None
        This run against a base.
    power : DataFrame
        As :func:`tracetool.report.pictures.timeline.power_steps` returns.
    total : mapping
        Every scope's time, energy and power, anchored, at the run's clock; as ``predict`` gives it.
    best : mapping
        The clock of least energy and what it saves; as ``sweep`` gives it.
    budget : TimeBudget or None
        What time and energy were spent on; as ``summary`` gives it.
    over_time : PowerOverTime or None
        Predicted power over time at the run's clock; as ``predict --power-over-time`` gives it.
    groups : EnergyBy or None
        Energy by module, or by what was asked for; as ``attribute`` gives it.
    diagnosis : Diagnosed or None
        The causes of the run's joules, and the findings; as ``diagnose`` gives them.
    """

    title: str
    facts: tuple[Fact, ...]
    accuracy: Accuracy
    rows: pl.DataFrame
    parts: Mapping[str, pl.DataFrame]
    gaps: Gaps
    idle_w: float
    timeline: Timeline | None
    clocks: Clocks | None
    recorded_mhz: float
    ceilings: Ceilings
    info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    against: RunDiff | None = None
    power: pl.DataFrame = field(default_factory=pl.DataFrame)
    total: Mapping[str, Any] = field(default_factory=dict)
    best: Mapping[str, Any] = field(default_factory=dict)
    budget: TimeBudget | None = None
    over_time: PowerOverTime | None = None
    groups: EnergyBy | None = None
    diagnosis: Diagnosed | None = None

    def energy_j(self, which: pl.Expr | None = None) -> float:
        """Return the energy of all kernels and copies, or of the rows chosen. [J]"""
        rows = self.rows if which is None else self.rows.filter(which)
        return float(rows["energy_j"].sum())

    def run_energy_j(self) -> float:
        """Return the energy of the run, gaps included: what all shares are of. [J]"""
        spent = None if self.budget is None else self.budget.together().row(-1, named=True)["energy_j"]
        return float(spent or self.total.get("energy_j") or self.energy_j())

    @property
    def families(self) -> list[str]:
        """Families in order of energy: the order of colors in every picture."""
        sums = (
            self.rows.group_by("family", maintain_order=True)
            .agg(pl.col("energy_j").sum())
            .sort("energy_j", "family", descending=[True, False])
        )
        return [str(f) for f in sums["family"]]
