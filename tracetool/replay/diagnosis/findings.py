"""Findings: the causes that cost most, what shows each, and the replay of the run without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import polars as pl

from tracetool.core.number_text import counted, number
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.causes import cause
from tracetool.replay.diagnosis.effects import saved
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.proofs import Proof, proof_of
from tracetool.replay.diagnosis.without_cause import CLOCKS
from tracetool.replay.energy_source import MEASURED
from tracetool.tables.run import Run

#: Findings shown at most, and the share of the run's energy from which a cause is one. [1]
MOST: Final = 5
LEAST_SHARE: Final = 0.01
#: Kernels named as evidence of a finding.
EVIDENCE_ROWS: Final = 3
#: Half-width of a run's interval from which its log is a finding. [1] A prior.
_WIDE: Final = 0.15
TELEMETRY: Final = "telemetry"


@dataclass(frozen=True)
class Finding:
    """One finding.

    Parameters
    ----------
    cause : str
        Its cause, ``telemetry`` where the measurement itself is at fault.
    energy_j, energy_low_j, energy_high_j : float
        Joules of the cause with their 90 % interval. [J]
    share : float
        Of the run's energy. [1]
    remedy, effort : str
        What takes it away, and what has to be changed for it.
    evidence : list of dict
        Its rows with most energy: kernel, launches, joules, time.
    proof : Proof, optional
        The run without it.
    sentences : tuple of str
        What is shown, each with figures.
    """

    cause: str
    energy_j: float
    energy_low_j: float
    energy_high_j: float
    share: float
    remedy: str
    effort: str
    evidence: list[dict[str, Any]]
    proof: Proof | None
    sentences: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self)


def findings(
    run: Run, booked: Ledger, gpu: str | None = None, *, least: float = LEAST_SHARE
) -> list[Finding]:
    """Return the causes that cost most, highest first, and what is wrong with the measurement.

    Causes that rest on the profiler's own gaps are left out; a note of ``booked`` names them.

    Parameters
    ----------
    run, booked : Run, Ledger
        The run and its joules by cause.
    gpu : str, optional
        The GPU, where the trace does not name it.
    least : float
        Share of the run's energy from which a cause is a finding. [1]
    """
    ranked = booked.totals.filter(
        ~pl.col("cause").is_in([causes.USEFUL, "run", *booked.withheld]) & (pl.col("share") >= least)
    ).sort("energy_j", descending=True)
    chosen = [_finding(run, booked, row, gpu) for row in ranked.head(MOST).iter_rows(named=True)]
    return [*chosen, *_telemetry(booked)]


def _finding(run: Run, booked: Ledger, row: dict[str, Any], gpu: str | None) -> Finding:
    one = cause(row["cause"])
    rows = booked.rows.filter(pl.col("cause") == one.name)
    evidence = (
        rows.filter(pl.col("signature").is_not_null())
        .group_by("signature", "name", "family", maintain_order=True)
        .agg(pl.col("energy_j", "time_ms", "launches").sum())
        .sort("energy_j", descending=True)
        .head(EVIDENCE_ROWS)
        .to_dicts()
    )
    proof = proof_of(run, booked, one.name, gpu)
    return Finding(
        one.name,
        row["energy_j"],
        row["energy_low_j"],
        row["energy_high_j"],
        row["share"],
        one.remedy,
        one.effort,
        evidence,
        proof,
        (
            _claim(row),
            *_shown_by(booked, row, evidence),
            _proved(one.remedy, one.effort, proof),
        ),
    )


def _claim(row: dict[str, Any]) -> str:
    ends = f"{number(row['energy_low_j'])} to {number(row['energy_high_j'])}"
    return (
        f"{row['cause']}: {number(row['energy_j'])} J (90 %: {ends}), {100 * row['share']:.1f} % of the run"
    )


def _shown_by(booked: Ledger, row: dict[str, Any], evidence: Sequence[dict[str, Any]]) -> list[str]:
    if row["cause"] in CLOCKS:
        choice = booked.clock
        why = f" ({choice.why})" if choice.why else ""
        return [f"shown by: {choice.recorded_mhz:,.0f} MHz{why}; least energy at {choice.best_mhz:,.0f} MHz"]
    if not evidence:
        return [f"shown by: {number(row['time_ms'])} ms without activity"]
    top = evidence[0]
    launched = counted(round(top["launches"]), "launch", "launches")
    return [f"shown by: {number(top['energy_j'])} J of it in {launched} of {top['name']}"]


def _proved(remedy: str, effort: str, proof: Proof) -> str:
    span = f"{number(proof.without_ms)} ms in place of {number(proof.makespan_ms)}"
    change = saved(proof.saving_j, proof.saving_low_j, proof.saving_high_j)
    text = f"{remedy} ({effort}): {proof.how}, {span}, {change}"
    if proof.as_graphs_j is None:
        return text
    return f"{text}; graphs alone save {number(proof.as_graphs_j)} J"


def _telemetry(booked: Ledger) -> list[Finding]:
    """Return a finding where the joules are not measured, or hardly."""
    run_totals = booked.totals.row(-1, named=True)
    half = (run_totals["energy_high_j"] - run_totals["energy_low_j"]) / 2.0
    sentences = []
    open_j = booked.energy_j - booked.cut.measured_j
    if booked.cut.source != MEASURED:
        part = (
            ""
            if open_j >= booked.energy_j
            else f" for {100.0 * open_j / booked.energy_j:.0f} % of the joules"
        )
        *_, how = booked.cut.source.split(", ")
        sentences.append(f"{TELEMETRY}: no usable power log{part}, {number(open_j)} J are {how}")
    elif half > _WIDE * run_totals["energy_j"]:
        width_pct = 100.0 * half / run_totals["energy_j"]
        sentences.append(f"{TELEMETRY}: the log gives the energy of the run to ±{width_pct:.0f} % (90 %)")
    if not booked.clock.stated:
        sentences.append(f"{TELEMETRY}: no clock logged, taken as {booked.clock.recorded_mhz:,.0f} MHz")
    if not sentences:
        return []
    remedy = "log power and clocks beside the trace (tracetool record)"
    ends = (run_totals["energy_j"], run_totals["energy_low_j"], run_totals["energy_high_j"])
    return [Finding(TELEMETRY, *ends, 1.0, remedy, "setting", [], None, tuple(sentences))]
