"""The joules of a run by cause: rows of kernels and of idle time that sum to the run exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.causes import CAUSES
from tracetool.replay.diagnosis.clock import ClockChoice, clock_choice
from tracetool.replay.diagnosis.gpu_pieces import CutRun, Side, cut_run
from tracetool.replay.diagnosis.shares import Measured, kernel_shares, shaped
from tracetool.replay.energy_source import joules_by_source
from tracetool.replay.group_energy import GroupEnergy, RunEnergies
from tracetool.replay.predict_run import PredictedRun
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.serialized import serialized_notes


@dataclass(frozen=True)
class Ledger:
    """A run's energy by cause.

    Parameters
    ----------
    rows : DataFrame
        The ``diagnosis`` table: one row per GPU, cause and signature (null for idle time), highest first.
    totals : DataFrame
        One row per cause with energy, then ``run``: energy [J] with its 90 % interval, time, share.
    recorded : PredictedRun
        The run predicted as it was recorded.
    clock : ClockChoice
        Its clock against the one of least energy.
    energies : RunEnergies
        What it was measured and predicted to use.
    span_ms : float
        Its window. [ms]
    notes : tuple of str
        What the figures rest on.
    cut : CutRun
        The run cut into pieces.
    shares : array, shape (signatures, causes)
        Share of each cause in the energy of each signature's activities that run by themselves. [1]
    withheld : tuple of str
        Causes that are no findings: gaps and overlaps that they rest on are the profiler's.
    """

    rows: pl.DataFrame
    totals: pl.DataFrame
    recorded: PredictedRun = field(repr=False)
    clock: ClockChoice = field(repr=False)
    energies: RunEnergies = field(repr=False)
    span_ms: float
    notes: tuple[str, ...]
    cut: CutRun = field(repr=False)
    shares: Floats = field(repr=False)
    withheld: tuple[str, ...] = ()

    @property
    def energy_j(self) -> float:
        """Energy of the run. [J]"""
        return float(self.totals["energy_j"][-1])

    @property
    def energy_words(self) -> str:
        """Energy of the run and how it is known."""
        return joules_by_source(self.energy_j, self.cut.source, self.cut.measured_j)

    @property
    def gap_notes(self) -> tuple[str, ...]:
        """Notes on gaps that the profiler made; empty for other runs."""
        return (*serialized_notes(self.energies.run), *_withheld_notes(self.withheld))

    def half_widths(self) -> tuple[Floats, float]:
        """Return half the 90 % interval of each signature's energy, shape (s,), and of idle time's. [J]

        Those of GPUs add up: what separates kernels of a step is the same on each.
        """
        of_signature, of_idle = np.zeros(len(self.shares)), 0.0
        for side in self.cut.sides:
            half = (side.energy.high_j - side.energy.low_j)[:-1] / 2.0
            p = len(side.pairs)
            np.add.at(of_signature, side.pairs[:, 0], half[:p])
            of_idle += float(half[p:].sum())
        return of_signature, of_idle

    def of_signatures(self, column: str = "energy_j", cause: str | None = None) -> Floats:
        """Return the sum of a column of :attr:`rows` for each signature, of one cause or all. Shape (s,)."""
        rows = self.rows.filter(pl.col("signature").is_not_null())
        if cause is not None:
            rows = rows.filter(pl.col("cause") == cause)
        total = np.zeros(len(self.shares))
        np.add.at(total, rows["signature"].to_numpy(), rows[column].to_numpy())
        return total

    @property
    def idle_w(self) -> float:
        """Mean power of idle time: measured where it is. [W]"""
        idle = self.rows.filter(pl.col("signature").is_null())
        time_s, energy_j = float(idle["time_ms"].sum()) * 1e-3, float(idle["energy_j"].sum())
        if time_s > 0 and energy_j > 0:
            return energy_j / time_s
        assert self.recorded.replays is not None
        return float(self.recorded.replays.predicted.idle_w[0])


def _withheld_notes(names: Sequence[str]) -> tuple[str, ...]:
    listed = ", ".join(names)
    return (f"no finding on {listed}: they rest on the profiler's gaps and overlaps",) if names else ()


def ledger(
    run: Run,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
) -> Ledger:
    """Cut a run's energy into causes.

    Parameters
    ----------
    run : Run
        The run.
    gpu, power, tz
        As for :func:`tracetool.replay.diagnosis.gpu_pieces.cut_run`.

    Raises
    ------
    BadInput
        If the run holds no activity, its GPU is not known or a log cannot be used.

    Notes
    -----
    Energies of sets of activities are linear in them (:mod:`tracetool.replay.group_energy`), and every moment
    and activity goes to causes whose shares sum to one: so do the joules.
    """
    cut = cut_run(run, gpu=gpu, power=power, tz=tz)
    energies, recorded, sides = cut.energies, cut.recorded, cut.sides
    assert recorded.replays is not None
    choice = clock_choice(run, recorded, gpu)
    at = shaped(recorded.signatures.sort("signature")["predicted_from"])
    saves = choice.energy_j[0] > choice.energy_j[1]
    shares = kernel_shares(
        cut.kernels,
        recorded.replays.rows,
        load_gpu(recorded.gpu),
        choice.recorded_mhz,
        recorded.replays.predicted,
        at,
        _measured(sides, recorded),
        {choice.name: choice.shares} if saves else {},
    )
    frames, summed = [], []
    for side in sides:
        frame, totals = side.booked(energies, shares)
        frames.append(frame)
        summed.append(totals)
    named = recorded.signatures.select(pl.col("signature").cast(pl.Int64), "name", "family")
    rows = (
        pl.concat(frames)
        .join(named, on="signature", how="left")
        .filter((pl.col("energy_j") != 0.0) | (pl.col("time_ms") > 0))
    )
    cause_totals = _together(summed, rows, len(sides) * sides[0].parts.span_ns * 1e-6)
    run_j = cause_totals["energy_j"][-1]
    rows = rows.with_columns((pl.col("energy_j") / run_j).alias("share"))
    measured = () if energies.measured is None else energies.measured.notes
    serialized = bool(serialized_notes(run))
    withheld = tuple(name for name in cause_totals["cause"] if serialized and name in causes.BY_TIMING)
    return Ledger(
        load_schema("diagnosis").conform(
            rows.sort("energy_j", descending=True, nulls_last=True, maintain_order=True)
        ),
        cause_totals,
        recorded,
        choice,
        energies,
        sides[0].parts.span_ns * 1e-6,
        (*energies.notes, *measured, *_withheld_notes(withheld)),
        cut,
        shares,
        withheld,
    )


def _measured(sides: Sequence[Side], recorded: PredictedRun) -> Measured:
    """Return time and energy of each signature over all GPUs."""
    rows = recorded.signatures.sort("signature")
    time_s, energy_j, idle_s, idle_j = np.zeros(len(rows)), np.zeros(len(rows)), 0.0, 0.0
    for side in sides:
        place, p = side.pairs[:, 0], len(side.pairs)
        np.add.at(time_s, place, np.asarray(side.of_pair @ side.parts.shared_s.sum(axis=0)))
        np.add.at(energy_j, place, side.of_pairs_j)
        idle_s += float((side.parts.gap_s + side.parts.idle_s).sum())
        idle_j += float(side.energy.energy_j[p:-1].sum())
    launches = rows["launches"].to_numpy().astype(np.float64)
    assert recorded.replays is not None
    idle_w = idle_j / idle_s if idle_j > 0 and idle_s > 0 else float(recorded.replays.predicted.idle_w[0])
    duration_s = rows["measured_duration_us"].to_numpy() * 1e-6
    return Measured(time_s, energy_j, launches, duration_s, idle_w)


def _together(each: Sequence[GroupEnergy], rows: pl.DataFrame, span_ms: float) -> pl.DataFrame:
    """Return causes of all GPUs together; errors of GPUs are independent, the model's are added to each."""
    total = np.sum([one.energy_j for one in each], axis=0)
    down, up = (
        np.sqrt(np.sum([(one.energy_j - getattr(one, end)) ** 2 for one in each], axis=0))
        for end in ("low_j", "high_j")
    )
    model = np.append([abs(c.model_error) for c in CAUSES], 0.0) * np.abs(total)
    time = dict(rows.group_by("cause", maintain_order=True).agg(pl.col("time_ms").sum()).iter_rows())
    run_j = float(total[-1])
    order = sorted(range(len(CAUSES)), key=lambda i: -total[i])
    order = [i for i in order if total[i] != 0.0]
    present: Bools = np.array([*order, len(CAUSES)])
    return pl.DataFrame(
        {
            "cause": [*(causes.NAMES[i] for i in order), "run"],
            "energy_j": total[present],
            "energy_low_j": (total - np.hypot(down, model))[present],
            "energy_high_j": (total + np.hypot(up, model))[present],
            "share": total[present] / run_j if run_j > 0 else np.zeros(len(present)),
            "time_ms": [*(time.get(causes.NAMES[i], 0.0) for i in order), span_ms],
        }
    )
