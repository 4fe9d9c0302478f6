"""One GPU of a run cut into pieces whose joules are known: activities by part of the time, and idle time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.families.transfers.problem import over_host_link
from tracetool.hardware.makers import example_gpu
from tracetool.measure.logged_work import Covered
from tracetool.measure.timeline import GAP_HOLD_S
from tracetool.replay.activities import KERNEL_COLUMNS
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.causes import CAUSES, PLACE
from tracetool.replay.energy_source import joined_sources
from tracetool.replay.group_energy import GroupEnergy, GroupTimes, RunEnergies, run_energies
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.time_parts import BUSY, TimeParts, time_parts
from tracetool.replay.unnamed_gpu import trace_vendor
from tracetool.tables.run import Run
from tracetool.tables.windows import refuse_large

#: Cause of each part of idle time, as :data:`tracetool.replay.time_parts.IDLE` orders them.
_OF_IDLE: Final = (causes.HOST, causes.SYNC, causes.DEPENDENCY, causes.IDLE, causes.UNEXPLAINED)
#: Idle times this long are an unused GPU: after them clocks fall. [s]
LONG_IDLE_S: Final = GAP_HOLD_S
EXPOSED, WAITS, COPIED = (BUSY.index(p) for p in ("exposed communication", "waiting for ranks", "copies"))


@dataclass(frozen=True)
class Side:
    """One GPU: its pieces, and which signature, part and idle cause each is."""

    device: int
    parts: TimeParts
    signature: Ints  # (n,) of each piece
    idle_cause: Ints  # (g,) place in CAUSES
    energy: GroupEnergy  # of (signature, part) pairs, then idle causes, then all
    pairs: Ints  # (p, 2) signature and part of those pairs
    of_pair: sparse.csr_matrix  # (p, n) share of each piece
    idle_places: Ints
    weight: Floats  # (n,) what pieces of one signature and part share its energy by
    measured: bool  # whether the log determines this GPU's energy
    host_copy: Bools  # (p,) pairs of copies between the host's memory and the GPU's

    @classmethod
    def of(cls, energies: RunEnergies, kernels: pl.DataFrame, parts: TimeParts, host_copies: Bools) -> Side:
        """Cut one GPU's activities by signature and part of the time, and its idle times by cause.

        ``host_copies``, shape (signatures,), are copies between the host's memory and the GPU's.
        """
        pieces = parts.pieces
        signature = kernels["signature"].to_numpy()[pieces.rows].astype(np.int64)
        n, whole_s = len(signature), parts.shared_s.sum(axis=0)
        share = np.divide(parts.shared_s, whole_s, out=np.zeros_like(parts.shared_s), where=whole_s > 0)
        share[0, whole_s <= 0] = 1.0  # what lasts no time has its energy all the same
        busy_part, piece = np.nonzero(share)
        keys = signature[piece] * len(BUSY) + busy_part
        present, place = np.unique(keys, return_inverse=True)
        of_pair = sparse.csr_matrix((share[busy_part, piece], (place, piece)), shape=(len(present), n))
        cause = np.array([PLACE[c] for c in _OF_IDLE], dtype=np.int64)[parts.idle_cause]
        cause[parts.idle.whole_s > LONG_IDLE_S] = PLACE[causes.IDLE]
        idle_places = np.unique(cause)
        sets = _sets(parts, of_pair, cause, idle_places, covered=energies.covered(parts.device))
        energy, measured = _energy_of(energies, parts.device, sets)
        pairs = np.column_stack([present // len(BUSY), present % len(BUSY)])
        weight = whole_s
        if not measured and energies.predicted is not None:
            weight = energies.predicted.energy_j[pieces.rows] * pieces.part
        return cls(
            parts.device,
            parts,
            signature,
            cause,
            energy,
            pairs,
            of_pair,
            idle_places,
            weight,
            measured,
            host_copies[pairs[:, 0]],
        )

    @property
    def of_pairs_j(self) -> Floats:
        """Energy of each (signature, part). Shape (p,)."""
        return self.energy.energy_j[: len(self.pairs)]

    def booked(self, energies: RunEnergies, shares: Floats) -> tuple[pl.DataFrame, GroupEnergy]:
        """Return this GPU's rows, and the energy of each cause with its interval, the whole last."""
        of = self.pair_shares(shares)
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
        every = np.arange(len(CAUSES))
        covered = energies.covered(self.device)
        sets = _sets(self.parts, by_cause, self.idle_cause, every, joined=True, covered=covered)
        return frame, _energy_of(energies, self.device, sets)[0]

    def activities(self) -> pl.DataFrame:
        """Return time and energy of each activity: one row per part of the time; joules sum to the pairs'.

        Columns: ``row`` of the kernels table, ``pair``, ``signature``, ``part``, ``launches`` (share of the
        launch), ``time_s``, ``energy_j``.
        """
        cells = self.of_pair.tocoo()
        pair, piece = cells.row.astype(np.int64), cells.col.astype(np.int64)
        weight = cells.data * self.weight[piece]
        pair_weight = np.bincount(pair, weight, len(self.pairs))
        count = np.bincount(pair, minlength=len(self.pairs))
        share = np.where(
            pair_weight[pair] > 0,
            weight / np.where(pair_weight > 0, pair_weight, 1.0)[pair],
            1.0 / count[pair],
        )
        return pl.DataFrame(
            {
                "row": self.parts.pieces.rows[piece].astype(np.int64),
                "pair": pair,
                "signature": self.pairs[pair, 0],
                "part": self.pairs[pair, 1],
                "launches": cells.data * self.parts.pieces.part[piece],
                "time_s": cells.data * self.parts.shared_s.sum(axis=0)[piece],
                "energy_j": self.of_pairs_j[pair] * share,
            }
        )

    def idle(self) -> pl.DataFrame:
        """Return idle times: ``cause`` (place in :data:`CAUSES`), ``time_s``, ``energy_j`` (by length)."""
        length_s = (self.parts.idle.end_ns - self.parts.idle.start_ns) * 1e-9
        of_cause = np.zeros(len(CAUSES))
        of_cause[self.idle_places] = self.energy.energy_j[len(self.pairs) : -1]
        whole_s = np.bincount(self.idle_cause, length_s, len(CAUSES))
        watts = np.divide(of_cause, whole_s, out=np.zeros_like(of_cause), where=whole_s > 0)
        return pl.DataFrame(
            {"cause": self.idle_cause, "time_s": length_s, "energy_j": watts[self.idle_cause] * length_s}
        )

    def half_widths(self, energies: RunEnergies, of_piece: Ints, of_idle: Ints, count: int) -> Floats:
        """Return half the 90 % interval of groups of activities and idle times. Shape (count,). [J]

        Parameters
        ----------
        energies : RunEnergies
            What the run was measured and predicted to use.
        of_piece, of_idle : array of int, shape (n,) and (idle times,)
            Group of each piece and of each idle time.
        count : int
            Groups.
        """
        pieces, n = self.parts.pieces, len(of_piece)
        group_shares = sparse.csr_matrix((np.ones(n), (of_piece, np.arange(n))), shape=(count, n))
        gap_s, idle_s = (np.append(np.bincount(of_idle, s, count), s.sum()) for s in self.parts.idle.held_s())
        shares_and_total = sparse.csr_matrix(sparse.vstack([group_shares, np.ones((1, n))]))
        times = self.parts.shared_s.sum(axis=0)
        sets = GroupTimes(pieces.rows, shares_and_total, times, gap_s, idle_s, pieces.part, pieces.waits)
        if (outside := self.parts.idle.outside_s(energies.covered(self.device))) is not None:
            each = [np.append(np.bincount(of_idle, s, count), s.sum()) for s in outside]
            sets = replace(sets, outside_s=(each[0], each[1]))
        energy, _ = _energy_of(energies, self.device, sets)
        return np.asarray((energy.high_j - energy.low_j)[:-1] / 2.0)

    def pair_shares(self, shares: Floats) -> Floats:
        """Return the share of each cause in each (signature, part). Shape (p, causes), rows sum to 1."""
        of = shares[self.pairs[:, 0]].copy()
        busy_part = self.pairs[:, 1]
        for at, name in ((EXPOSED, causes.EXPOSED), (WAITS, causes.RANKS)):
            of[busy_part == at] = _only(name)
        of[(busy_part == COPIED) & self.host_copy] = _only(causes.HOST_COPIES)
        return of


@dataclass(frozen=True)
class CutRun:
    """A run cut into pieces whose joules are known.

    Parameters
    ----------
    run : Run
        The run.
    energies : RunEnergies
        What it was measured and predicted to use.
    recorded : PredictedRun
        Predicted as it was recorded.
    kernels : DataFrame
        Its activities.
    sides : tuple of Side
        Its GPUs.
    """

    run: Run = field(repr=False)
    energies: RunEnergies = field(repr=False)
    recorded: PredictedRun = field(repr=False)
    kernels: pl.DataFrame = field(repr=False)
    sides: tuple[Side, ...] = field(repr=False)

    @property
    def measured(self) -> bool:
        """Whether the energy of every GPU is measured."""
        return all(side.measured for side in self.sides)

    @property
    def measured_j(self) -> float:
        """Part of the run's energy that logs measured. [J]"""
        each = [side.energy.measured_j for side in self.sides]
        return float(sum(joules[-1] for joules in each if joules is not None))

    @property
    def source(self) -> str:
        """How the run's energy is known: measured, predicted, or partly each."""
        return joined_sources([side.energy.sources()[-1] for side in self.sides]) or ""

    @property
    def energy_j(self) -> float:
        """Energy of the run. [J]"""
        return float(sum(side.energy.energy_j[-1] for side in self.sides))


def cut_run(run: Run, *, gpu: str | None = None, power: Sequence[Path] = (), tz: str | None = None) -> CutRun:
    """Cut a run into activities by part of the time and idle time by cause, each with its joules.

    Parameters
    ----------
    run : Run
        The run.
    gpu : str, optional
        Its GPU, where the trace does not name it.
    power : sequence of path
        Power logs in place of its own.
    tz : str, optional
        Zone they are in.

    Raises
    ------
    BadInput
        If the run holds no activity or more than fit, its GPU is not known or a log cannot be used.
    """
    refuse_large(run, "a diagnosis", "ingest a part of the trace, or see: tracetool summary")
    recorded = predict_run(run, gpu)
    energies = run_energies(run, gpu=gpu, power=power, tz=tz, recorded=recorded)
    kernels = run.table("kernels", (*KERNEL_COLUMNS, "stream"))
    assert recorded.replays is not None
    host_copies = over_host_link(recorded.replays.rows)
    sides = tuple(Side.of(energies, kernels, one, host_copies) for one in time_parts(run))
    return CutRun(run, energies, recorded, kernels, sides)


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
    covered: Covered | None = None,
) -> GroupTimes:
    """Return busy sets, then one per idle cause, then all; ``joined``: idle of a cause in its busy set."""
    pieces, n = parts.pieces, busy.shape[1]
    empty = np.zeros(busy.shape[0])

    def placed(idle_s: Floats) -> Floats:
        of_cause = np.bincount(cause, idle_s, len(CAUSES))[idle_places]
        return np.append(of_cause if joined else np.concatenate([empty, of_cause]), of_cause.sum())

    gap_s, idle_s = (placed(s) for s in parts.idle.held_s())
    outside_s = parts.idle.outside_s(covered)
    blocks = [busy, np.ones((1, n))]
    if not joined:
        blocks.insert(1, sparse.csr_matrix((len(idle_places), n)))
    share = sparse.csr_matrix(sparse.vstack(blocks))
    return GroupTimes(
        pieces.rows,
        share,
        parts.shared_s.sum(axis=0),
        gap_s,
        idle_s,
        pieces.part,
        pieces.waits,
        None if outside_s is None else (placed(outside_s[0]), placed(outside_s[1])),
    )


def _energy_of(energies: RunEnergies, device: int, sets: GroupTimes) -> tuple[GroupEnergy, bool]:
    """Return the energy of sets, and whether it is measured."""
    measured = energies.measured_of(device, sets)
    if measured is not None and np.isfinite(measured.energy_j[-1]):
        return measured, True
    if energies.predicted is None:
        raise BadInput.in_file(
            energies.run.path,
            "has neither a power log nor a GPU to predict",
            f"name it: --gpu {example_gpu(trace_vendor(energies.run))}",
        )
    return energies.predicted.of(sets), False
