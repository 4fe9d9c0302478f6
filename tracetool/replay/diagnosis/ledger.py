"""The joules of a run by cause: rows of kernels and of idle time that sum to the run exactly."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.measure.timeline import GAP_HOLD_S
from tracetool.replay.activities import KERNEL_COLUMNS
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.causes import CAUSES, PLACE
from tracetool.replay.diagnosis.clock import ClockChoice, clock_choice
from tracetool.replay.diagnosis.shares import Measured, kernel_shares, shaped
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.set_energy import RunEnergies, SetEnergy, SetTimes, run_energies
from tracetool.replay.time_parts import BUSY, TimeParts, time_parts
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Cause of each part of idle time, as :data:`tracetool.replay.time_parts.IDLE` orders them.
_OF_IDLE: Final = (causes.HOST, causes.SYNC, causes.DEPENDENCY, causes.IDLE, causes.UNEXPLAINED)
#: Idle times this long are a GPU that nobody uses: after them clocks fall. [s]
LONG_IDLE_S: Final = GAP_HOLD_S
_EXPOSED, _WAITS, _COPIED = (BUSY.index(p) for p in ("exposed communication", "waiting for ranks", "copies"))


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
    """

    rows: pl.DataFrame
    totals: pl.DataFrame
    recorded: PredictedRun = field(repr=False)
    clock: ClockChoice = field(repr=False)
    energies: RunEnergies = field(repr=False)
    span_ms: float
    notes: tuple[str, ...]

    @property
    def energy_j(self) -> float:
        """Energy of the run. [J]"""
        return float(self.totals["energy_j"][-1])


def ledger(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
) -> Ledger:
    """Cut a run's energy into causes.

    Parameters
    ----------
    run : Run or path
        The run.
    gpu : str, optional
        The GPU, where the trace does not name it.
    power : sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs.

    Raises
    ------
    BadInput
        If the run holds no activity, its GPU is not known or a log cannot be used.

    Notes
    -----
    Energies of sets of activities are linear in them (:mod:`tracetool.replay.set_energy`), and every moment
    and activity goes to causes whose shares sum to one: so do the joules.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    energies = run_energies(opened, gpu=gpu, power=power, tz=tz)
    recorded = predict_run(opened, gpu)
    assert recorded.replays is not None
    kernels = opened.table("kernels", (*KERNEL_COLUMNS, "stream"))
    parts = time_parts(opened)
    sides = [_Side.of(energies, kernels, one) for one in parts]
    choice = clock_choice(opened, recorded, gpu)
    at = shaped(recorded.signatures.sort("signature")["predicted_from"])
    saves = choice.energy_j[0] > choice.energy_j[1]
    shares = kernel_shares(
        kernels,
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
    whole = _together(summed, rows, len(parts) * parts[0].span_ns * 1e-6)
    run_j = whole["energy_j"][-1]
    rows = rows.with_columns((pl.col("energy_j") / run_j).alias("share"))
    measured = () if energies.measured is None else energies.measured.notes
    return Ledger(
        load_schema("diagnosis").conform(
            rows.sort("energy_j", descending=True, nulls_last=True, maintain_order=True)
        ),
        whole,
        recorded,
        choice,
        energies,
        parts[0].span_ns * 1e-6,
        (*energies.notes, *measured),
    )


@dataclass(frozen=True)
class _Side:
    """One GPU: its pieces, and which signature, part and idle cause each is."""

    device: int
    parts: TimeParts
    signature: Ints  # (n,) of each piece
    idle_cause: Ints  # (g,) place in CAUSES
    energy: SetEnergy  # of (signature, part) pairs, then idle causes, then all
    pairs: Ints  # (p, 2) signature and part of those pairs
    of_pair: sparse.csr_matrix  # (p, n) share of each piece
    idle_places: Ints

    @classmethod
    def of(cls, energies: RunEnergies, kernels: pl.DataFrame, parts: TimeParts) -> _Side:
        pieces = parts.pieces
        signature = kernels["signature"].to_numpy()[pieces.rows].astype(np.int64)
        n, whole_s = len(signature), parts.shared_s.sum(axis=0)
        share = np.divide(parts.shared_s, whole_s, out=np.zeros_like(parts.shared_s), where=whole_s > 0)
        share[0, whole_s <= 0] = 1.0  # what lasts no time has its energy all the same
        part, piece = np.nonzero(share)
        keys = signature[piece] * len(BUSY) + part
        present, place = np.unique(keys, return_inverse=True)
        of_pair = sparse.csr_matrix((share[part, piece], (place, piece)), shape=(len(present), n))
        length_s = (parts.idle.end_ns - parts.idle.start_ns) * 1e-9
        cause = np.array([PLACE[c] for c in _OF_IDLE], dtype=np.int64)[parts.idle_cause]
        cause[length_s > LONG_IDLE_S] = PLACE[causes.IDLE]
        idle_places = np.unique(cause)
        sets = _sets(parts, of_pair, cause, idle_places)
        energy = _energy_of(energies, parts.device, sets)
        pairs = np.column_stack([present // len(BUSY), present % len(BUSY)])
        return cls(parts.device, parts, signature, cause, energy, pairs, of_pair, idle_places)

    @property
    def of_pairs_j(self) -> Floats:
        """Energy of each (signature, part). Shape (p,)."""
        return self.energy.energy_j[: len(self.pairs)]

    def booked(self, energies: RunEnergies, shares: Floats) -> tuple[pl.DataFrame, SetEnergy]:
        """Return this GPU's rows, and the energy of each cause with its interval, the whole last."""
        of = self._pair_shares(shares)
        place, cause = np.nonzero(of)
        value = of[place, cause]
        time_s = np.asarray(self.of_pair @ self.parts.shared_s.sum(axis=0))
        idle_s = np.bincount(
            self.idle_cause, (self.parts.idle.end_ns - self.parts.idle.start_ns) * 1e-9, len(CAUSES)
        )
        p = len(self.pairs)
        idle_j = self.energy.energy_j[p:-1]
        launches = np.asarray(self.of_pair @ self.parts.pieces.part)
        named = np.array(causes.NAMES)
        frame = (
            pl.DataFrame(
                {
                    "device": np.full(len(cause) + len(idle_j), self.device),
                    "cause": np.concatenate([named[cause], named[self.idle_places]]),
                    "signature": pl.Series(
                        [*self.pairs[place, 0].tolist(), *[None] * len(idle_j)], dtype=pl.Int64
                    ),
                    "launches": np.concatenate([launches[place], np.zeros(len(idle_j))]),
                    "time_ms": np.concatenate([time_s[place] * value, idle_s[self.idle_places]]) * 1e3,
                    "energy_j": np.concatenate([self.of_pairs_j[place] * value, idle_j]),
                }
            )
            .group_by("device", "cause", "signature", maintain_order=True)
            .agg(pl.col("launches", "time_ms", "energy_j").sum())
        )
        by_cause = sparse.csr_matrix(of.T) @ self.of_pair
        sets = _sets(self.parts, by_cause, self.idle_cause, np.arange(len(CAUSES)), joined=True)
        return frame, _energy_of(energies, self.device, sets)

    def _pair_shares(self, shares: Floats) -> Floats:
        """Return the share of each cause in each (signature, part). Shape (p, causes)."""
        of = shares[self.pairs[:, 0]].copy()
        part = self.pairs[:, 1]
        for at, name in ((_EXPOSED, causes.EXPOSED), (_WAITS, causes.RANKS)):
            of[part == at] = _only(name)
        moved = of[:, PLACE[causes.COPIES]] > 0
        of[(part == _COPIED) & ~moved] = _only(causes.HOST_COPIES)
        return of


def _only(name: str) -> Floats:
    one = np.zeros(len(CAUSES))
    one[PLACE[name]] = 1.0
    return one


def _sets(
    parts: TimeParts,
    busy: sparse.csr_matrix,
    cause: Ints,
    idle_places: Ints,
    *,
    joined: bool = False,
) -> SetTimes:
    """Return busy sets, then one per idle cause, then all; ``joined``: idle of a cause in its busy set."""
    pieces, n = parts.pieces, busy.shape[1]
    held_s, rest_s = parts.idle.held_s()
    of_cause = [np.bincount(cause, s, len(CAUSES))[idle_places] for s in (held_s, rest_s)]
    empty = np.zeros(busy.shape[0])
    gap_s, idle_s = (np.append(s if joined else np.concatenate([empty, s]), s.sum()) for s in of_cause)
    blocks = [busy, np.ones((1, n))]
    if not joined:
        blocks.insert(1, sparse.csr_matrix((len(idle_places), n)))
    share = sparse.csr_matrix(sparse.vstack(blocks))
    return SetTimes(pieces.rows, share, parts.shared_s.sum(axis=0), gap_s, idle_s, pieces.part, pieces.waits)


def _energy_of(energies: RunEnergies, device: int, sets: SetTimes) -> SetEnergy:
    measured = energies.measured_of(device, sets)
    if measured is not None and np.isfinite(measured.energy_j[-1]):
        return measured
    if energies.predicted is None:
        raise BadInput.in_file(
            energies.run.path, "has neither a power log nor a GPU to predict", "name it: --gpu h100-sxm"
        )
    return energies.predicted.of(sets)


def _measured(sides: Sequence[_Side], recorded: PredictedRun) -> Measured:
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


def _together(each: Sequence[SetEnergy], rows: pl.DataFrame, span_ms: float) -> pl.DataFrame:
    """Return causes of all GPUs together; errors of GPUs are independent, the model's are added to each."""
    total = np.sum([one.energy_j for one in each], axis=0)
    down, up = (
        np.sqrt(np.sum([(one.energy_j - getattr(one, end)) ** 2 for one in each], axis=0))
        for end in ("low_j", "high_j")
    )
    model = np.append([abs(c.model_error) for c in CAUSES], 0.0) * np.abs(total)
    time = dict(rows.group_by("cause").agg(pl.col("time_ms").sum()).iter_rows())
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
