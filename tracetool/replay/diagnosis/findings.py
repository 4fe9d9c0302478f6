"""Findings: the causes that cost most, what shows each, and the replay of the run without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.figures import counted, number
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.causes import cause
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.predict_run import predict_run
from tracetool.tables.run import Run

#: Findings shown at most, and the share of the run's energy from which a cause is one. [1]
MOST: Final = 5
LEAST_SHARE: Final = 0.01
#: Kernels named as evidence of a finding.
_ROWS: Final = 3
#: Half-width of a run's interval from which its log is a finding. [1] A prior.
_WIDE: Final = 0.15
#: Causes that are clocks, those whose kernels take less time at the power of idle SMs, and idle time.
_CLOCKS: Final = (causes.FAST_CLOCK, causes.CAP, causes.THERMAL, causes.LOW_CLOCK)
_WAITING: Final = (causes.TAIL, causes.SLOW)
_IN_KERNELS: Final = (
    *(causes.COPIES, causes.HOST_COPIES, causes.CHAIN, causes.PRECISION, causes.MISALIGNED),
    *(causes.BATCH, causes.PADDING, *_WAITING),
)
TELEMETRY: Final = "telemetry"


@dataclass(frozen=True)
class Proof:
    """The run without a cause.

    Parameters
    ----------
    how : str
        ``replay`` or, where taking time off is all there is to it, ``sum``.
    makespan_ms, without_ms : float
        The replayed run with and without. [ms]
    saving_j, saving_low_j, saving_high_j : float
        Energy saved, with its 90 % interval. [J]
    """

    how: str
    makespan_ms: float
    without_ms: float
    saving_j: float
    saving_low_j: float
    saving_high_j: float


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

    Parameters
    ----------
    run : Run
        The run.
    booked : Ledger
        Its joules by cause.
    gpu : str, optional
        The GPU, where the trace does not name it.
    least : float
        Share of the run's energy from which a cause is a finding. [1]
    """
    ranked = booked.totals.filter(
        ~pl.col("cause").is_in([causes.USEFUL, "run"]) & (pl.col("share") >= least)
    ).sort("energy_j", descending=True)
    chosen = [_finding(run, booked, row, gpu) for row in ranked.head(MOST).iter_rows(named=True)]
    return [*chosen, *_telemetry(booked)]


def _finding(run: Run, booked: Ledger, row: dict[str, Any], gpu: str | None) -> Finding:
    one = cause(row["cause"])
    rows = booked.rows.filter(pl.col("cause") == one.name)
    evidence = (
        rows.filter(pl.col("signature").is_not_null())
        .group_by("signature", "name", "family")
        .agg(pl.col("energy_j", "time_ms", "launches").sum())
        .sort("energy_j", descending=True)
        .head(_ROWS)
        .to_dicts()
    )
    proof = _proof(run, booked, row, gpu)
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
    if row["cause"] in _CLOCKS:
        choice = booked.clock
        why = f" ({choice.why})" if choice.why else ""
        return [f"shown by: {choice.recorded_mhz:,.0f} MHz{why}; least energy at {choice.best_mhz:,.0f} MHz"]
    if not evidence:
        return [f"shown by: {number(row['time_ms'])} ms without activity"]
    top = evidence[0]
    launched = counted(round(top["launches"]), "launch", "launches")
    return [f"shown by: {number(top['energy_j'])} J of it in {launched} of {top['name']}"]


def _proved(remedy: str, effort: str, proof: Proof) -> str:
    how = "replayed without" if proof.how == "replay" else "without that time"
    ends = f"{number(proof.saving_low_j)} to {number(proof.saving_high_j)}"
    span = f"{number(proof.without_ms)} ms in place of {number(proof.makespan_ms)}"
    return f"{remedy} ({effort}): {how}, {span}, saves {number(proof.saving_j)} J (90 %: {ends})"


def _proof(run: Run, booked: Ledger, row: dict[str, Any], gpu: str | None) -> Proof:
    """Replay the run without a cause; its interval is that of the cause's joules, relative to them."""
    name, energy_j = row["cause"], row["energy_j"]
    how = "replay"
    if name in _CLOCKS:
        (span, without), (with_j, without_j) = booked.clock.makespan_ms, booked.clock.energy_j
        saving = booked.energy_j * (1.0 - without_j / with_j)
    elif name in _IN_KERNELS:
        span, without, more_gap_s = _replayed(booked, name)
        saving = energy_j - booked.idle_w * more_gap_s
    elif name == causes.HOST:
        span, saving, without = _as_graphs(run, booked, gpu)
    else:
        how, span = "sum", booked.span_ms
        devices = booked.rows["device"].n_unique()
        without = span - row["time_ms"] / devices
        saving = energy_j
        if name == causes.EXPOSED:  # the transfer stays, its time runs beside other work
            saving = min(energy_j, booked.idle_w * row["time_ms"] * 1e-3)
    low, high = (saving * row[f"energy_{end}_j"] / energy_j for end in ("low", "high"))
    return Proof(how, span, without, saving, min(low, high), max(low, high))


def _replayed(booked: Ledger, name: str) -> tuple[float, float, float]:
    """Replay the run without the time of a cause: makespans [ms], and idle time it has more [s]."""
    replays = booked.recorded.replays
    assert replays is not None
    rows = booked.rows.filter(pl.col("signature").is_not_null())
    taken = np.zeros(len(replays.rows))
    whole, part = taken.copy(), taken.copy()
    for total, frame in ((whole, rows), (part, rows.filter(pl.col("cause") == name))):
        np.add.at(total, frame["signature"].to_numpy(), frame["time_ms"].to_numpy())
    taken = np.divide(part, whole, out=taken, where=whole > 0)
    if name in _WAITING:  # its joules are those of idle SMs: more of the time than of the energy
        energy = np.zeros(len(taken))
        np.add.at(energy, rows["signature"].to_numpy(), rows["energy_j"].to_numpy())
        watts = np.divide(energy * 1e3, whole, out=np.zeros_like(whole), where=whole > 0)
        taken = np.minimum(taken * watts / booked.idle_w, 1.0)
    with_s, without_s = (_spans(booked, factor) for factor in (np.ones(len(taken)), 1.0 - taken))
    return with_s[0] * 1e3, without_s[0] * 1e3, without_s[1] - with_s[1]


def _spans(booked: Ledger, factor: Floats) -> tuple[float, float]:
    """Return makespan and idle time of the recorded timeline with durations times ``factor``. [s]"""
    replays = booked.recorded.replays
    assert replays is not None
    timing = replays.predicted.timing
    each = factor[:, None]
    # at the power they had: less time at the same joules would meet the power limit
    predicted = replace(
        replays.predicted,
        timing=replace(timing, duration_s=timing.duration_s * each),
        energy_j=replays.predicted.energy_j * each,
        parts_j={name: part * each for name, part in replays.predicted.parts_j.items()},
    )
    changed = replace(replays, predicted=predicted, governed=None)
    replayed = changed.at(0)
    return replayed.makespan_ns * 1e-9, float(np.sum(replayed.gap_ns)) * 1e-9


def _as_graphs(run: Run, booked: Ledger, gpu: str | None) -> tuple[float, float, float]:
    """Replay the run launched as graphs: makespan [ms], saving [J] and makespan without [ms]."""
    recorded, graphs = booked.recorded.totals[0], predict_run(run, gpu, launch="graph").totals[0]
    saving = booked.energy_j * (1.0 - graphs["energy_j"] / recorded["energy_j"])
    return recorded["makespan_ms"], saving, graphs["makespan_ms"]


def _telemetry(booked: Ledger) -> list[Finding]:
    """Return a finding where the joules are not measured, or hardly."""
    whole = booked.totals.row(-1, named=True)
    half = (whole["energy_high_j"] - whole["energy_low_j"]) / 2.0
    sentences = []
    if booked.energies.measured is None:
        sentences.append(f"{TELEMETRY}: no usable power log, {number(whole['energy_j'])} J are predicted")
    elif half > _WIDE * whole["energy_j"]:
        sentences.append(
            f"{TELEMETRY}: the log leaves {100 * half / whole['energy_j']:.0f} % of the joules open"
        )
    if not booked.clock.stated:
        sentences.append(f"{TELEMETRY}: no clock logged, taken as {booked.clock.recorded_mhz:,.0f} MHz")
    if not sentences:
        return []
    remedy = "log power and clocks beside the trace (tracetool record)"
    ends = (whole["energy_j"], whole["energy_low_j"], whole["energy_high_j"])
    return [Finding(TELEMETRY, *ends, 1.0, remedy, "setting", [], None, tuple(sentences))]
