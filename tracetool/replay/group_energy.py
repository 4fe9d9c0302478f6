"""Energy of sets of activities of a recorded run: measured where its log shows it, predicted beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS, Z90
from tracetool.core.number_text import counted
from tracetool.hardware.load import load_gpu
from tracetool.kernels.collective_matching import arrivals_ns
from tracetool.measure.activity_energy import SummedEnergy, summed_energy
from tracetool.measure.attribution import Attribution
from tracetool.measure.logged_work import Covered
from tracetool.replay.energy_source import EXTRAPOLATED, PREDICTED, ROUNDING, source_of
from tracetool.replay.measured_energy import attribute_or_note, without_prediction
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.recording_conditions import recorded_gpu
from tracetool.replay.scope_totals import IDLE_ERROR
from tracetool.replay.time_parts import activity_kinds, busy_parts, pieces_of
from tracetool.replay.unnamed_gpu import check_named, taken_as_recorded
from tracetool.tables.run import Run
from tracetool.tables.serialized import serialized_notes
from tracetool.tables.windows import PARTS, activities_of, is_large


@dataclass(frozen=True)
class GroupTimes:
    """Time and activities of g sets of one GPU.

    Parameters
    ----------
    rows : array of int, shape (n,)
        Rows of its activities in the kernels table.
    share : array or sparse matrix, shape (g, n)
        Part of each activity that belongs to each set. [1]
    shared_s : array, shape (n,)
        Time of each activity, moments shared by several divided equally. [s]
    gap_s, idle_s : array, shape (g,)
        Idle time of each set up to a second after an activity, and later. [s]
    part : array, shape (n,), optional
        Share of its activity that each row is, where activities are cut; by default the whole. [1]
    waits : array of bool, shape (n,), optional
        Rows in which a collective waited for other ranks; by default the rows are whole activities, and
        what they waited is taken from the run.
    outside_s : tuple of two arrays, shape (g,), optional
        Of ``gap_s`` and ``idle_s`` the time that the log does not cover; by default none. [s]
    """

    rows: Ints
    share: Floats | sparse.csr_matrix
    shared_s: Floats
    gap_s: Floats
    idle_s: Floats
    part: Floats | None = None
    waits: Bools | None = None
    outside_s: tuple[Floats, Floats] | None = None


@dataclass(frozen=True)
class GroupEnergy:
    """Energies of g sets, each of shape (g,); NaN where undetermined. [J]"""

    energy_j: Floats
    low_j: Floats
    high_j: Floats
    identified: Ints  # 1 where the log separates the set from the others
    summed: SummedEnergy | None = field(default=None, repr=False)  # what was measured, with its covariance
    measured_j: Floats | None = None  # what of each the log measured; None where nothing was
    beyond: str = PREDICTED  # how the rest is known

    def sources(self) -> list[str]:
        """Return how each set's energy is known: measured, predicted, or partly each."""
        if self.measured_j is None:
            return [self.beyond] * len(self.energy_j)
        return [source_of(*pair, self.beyond) for pair in zip(self.energy_j, self.measured_j, strict=True)]


def _placed(values: Floats, column: Ints, columns: int | None = None) -> sparse.csr_matrix:
    """Return a sparse matrix with one value in each row, in the column given."""
    n = len(values)
    width = int(column.max(initial=-1)) + 1 if columns is None else columns
    return sparse.csr_matrix((values, (np.arange(n), column)), shape=(n, width))


@dataclass(frozen=True)
class PredictedCosts:
    """Predicted energies of a run as it was recorded."""

    gpu: str
    energy_j: Floats  # (n,) of each activity, base power shared among those that ran at once
    low: Floats  # (n,) interval as factors
    high: Floats
    family: Texts  # (n,)
    idle_w: float
    throttled: Mapping[str, float] = field(default_factory=dict)  # share of kernel time and its interval

    def of(self, sets: GroupTimes) -> GroupEnergy:
        """Return the predicted energy of sets; errors within a family add up, families err independently."""
        energy, share = self.energy_j[sets.rows], sparse.csr_matrix(sets.share)
        if sets.part is not None:
            energy = energy * sets.part
        idle_j = self.idle_w * (sets.gap_s + sets.idle_s)
        low, high = self.low[sets.rows], self.high[sets.rows]
        _, family = np.unique(self.family[sets.rows], return_inverse=True)
        sides = []
        for half in (energy * (1.0 - low), energy * (high - 1.0)):
            by_family = np.asarray((share @ _placed(half, family)).todense())
            sides.append(np.hypot(np.sqrt((by_family**2).sum(axis=1)), IDLE_ERROR * idle_j))
        total = np.asarray(share @ energy) + idle_j
        no_sets = np.zeros(len(total), np.int64)
        return GroupEnergy(total, np.maximum(total - sides[0], 0.0), total + sides[1], no_sets)


@dataclass(frozen=True)
class RunEnergies:
    """Energies of a run: the attribution of its log, the model's costs, or one of them."""

    run: Run = field(repr=False)
    measured: Attribution | None
    predicted: PredictedCosts | None
    notes: tuple[str, ...] = ()

    def covered(self, device: int) -> Covered | None:
        """Return what the log covers of a GPU's work where that is a part of it; None elsewhere."""
        return None if self.measured is None else self.measured.covered.get(device)

    def measured_of(self, device: int, sets: GroupTimes) -> GroupEnergy | None:
        """Return the energy of sets as measured; None where the log has no readings of this GPU.

        The energy of time that the log does not cover is the predicted one; of a GPU that cannot be
        predicted it is extrapolated: each class at its measured power.
        """
        if self.measured is None or device not in self.measured.classes:
            return None
        part = self.covered(device)
        if part is None:
            whole = self._measured_of(device, sets)
            return replace(whole, measured_j=whole.energy_j)
        kernels = self.run.kernels
        start = kernels["start_ns"].to_numpy()[sets.rows]
        outside = part.outside(start, start + kernels["duration_ns"].to_numpy()[sets.rows])
        gap_s, idle_s = sets.outside_s or (np.zeros_like(sets.gap_s), np.zeros_like(sets.idle_s))
        share = sparse.csr_matrix(sets.share)
        inside = self._measured_of(
            device,
            replace(
                sets,
                share=share @ sparse.diags(1.0 - outside),
                gap_s=sets.gap_s - gap_s,
                idle_s=sets.idle_s - idle_s,
            ),
        )
        beyond = replace(sets, share=share @ sparse.diags(outside), gap_s=gap_s, idle_s=idle_s)
        if self.predicted is not None:
            return _joined(inside, self.predicted.of(beyond), PREDICTED)
        spread = self.measured.classes[device].launch_spread
        return _joined(inside, _widened(self._measured_of(device, beyond), spread), EXTRAPOLATED)

    def _measured_of(self, device: int, sets: GroupTimes) -> GroupEnergy:
        assert self.measured is not None
        classes = self.measured.classes[device]
        table = self.measured.energy.filter(pl.col("device") == device)
        ids = table["signature"].drop_nulls().to_numpy()
        signature = self.run.kernels["signature"].to_numpy()[sets.rows]
        label = np.searchsorted(ids, signature)
        share = sparse.csr_matrix(sets.share)
        k = len(classes.seconds) - 2  # one more than signatures where waits have a class of their own
        waiting = np.zeros(len(sets.rows))
        if k > len(ids):
            waiting = self._waiting(sets) if sets.waits is None else sets.waits.astype(np.float64)
        seconds = np.zeros((share.shape[0], k + 2))
        seconds[:, :k] = (share @ _placed(sets.shared_s * (1.0 - waiting), label, k)).todense()
        if k > len(ids):
            seconds[:, k - 1] = share @ (sets.shared_s * waiting)
        seconds[:, k], seconds[:, k + 1] = sets.gap_s, sets.idle_s
        if not np.isfinite(classes.power_w[k + 1]):  # a log that never idles: as soon after work
            seconds[:, k] += seconds[:, k + 1]
            seconds[:, k + 1] = 0.0
        summed = summed_energy(classes, seconds)
        return GroupEnergy(summed.energy_j, summed.low_j, summed.high_j, summed.identified, summed)

    def _waiting(self, sets: GroupTimes) -> Floats:
        """Return which share of each activity's time its collective waited for other ranks. Shape (n,)."""
        kernels = self.run.kernels
        start = kernels["start_ns"].to_numpy()[sets.rows]
        end = start + kernels["duration_ns"].to_numpy()[sets.rows]
        pieces = pieces_of(sets.rows, start, end, self.arrived_ns[sets.rows])
        _, each_s = busy_parts(pieces.start_ns, pieces.end_ns, np.zeros(len(pieces.rows), np.int64))
        order = np.argsort(sets.rows, kind="stable")
        place = order[np.searchsorted(sets.rows, pieces.rows[pieces.waits], sorter=order)]
        waited_s = np.bincount(place, each_s.sum(axis=0)[pieces.waits], minlength=len(sets.rows))
        waiting = np.divide(waited_s, sets.shared_s, out=np.zeros(len(waited_s)), where=sets.shared_s > 0)
        return np.minimum(waiting, 1.0)

    @cached_property
    def kinds(self) -> Ints:
        """Kind of each activity, as :func:`tracetool.replay.time_parts.activity_kinds`. Shape (n,)."""
        return activity_kinds(self.run, self.run.kernels)

    @cached_property
    def arrived_ns(self) -> Ints:
        """When the last rank arrived at each activity's collective. Shape (all activities,). [ns]"""
        return arrivals_ns(self.run)


def _widened(energy: GroupEnergy, share: float) -> GroupEnergy:
    """Return energies whose intervals reach so much farther: other launches may draw other power. [1]"""
    half = [np.hypot(side, Z90 * share * energy.energy_j)
            for side in (energy.energy_j - energy.low_j, energy.high_j - energy.energy_j)]  # fmt: skip
    return replace(energy, low_j=np.maximum(energy.energy_j - half[0], 0.0), high_j=energy.energy_j + half[1])


def _joined(inside: GroupEnergy, outside: GroupEnergy, beyond: str) -> GroupEnergy:
    """Return what was measured of sets, and the rest of them, together; their errors are independent."""
    total = inside.energy_j + outside.energy_j
    down = np.hypot(inside.energy_j - inside.low_j, outside.energy_j - outside.low_j)
    up = np.hypot(inside.high_j - inside.energy_j, outside.high_j - outside.energy_j)
    whole = np.abs(outside.energy_j) <= ROUNDING * np.abs(total)
    return GroupEnergy(
        total,
        np.maximum(total - down, 0.0),
        total + up,
        np.where(whole, inside.identified, 0),
        measured_j=inside.energy_j,
        beyond=beyond,
    )


def _beyond_notes(run: Run, measured: Attribution | None, *, predicted: bool) -> list[str]:
    """Return how the energy is known of GPUs and of time that a log does not cover."""
    if measured is None or not measured.classes:
        return []
    missing = sorted(set(run.kernels["device"].unique().to_list()) - set(measured.classes))
    if missing and not measured.verdict:
        gpus = ", ".join(f"GPU {d}" for d in missing)
        return [f"{gpus}: no power readings" + (": energies there are predicted" if predicted else "")]
    if not measured.covered:
        return []
    how = "predicted" if predicted else "extrapolated: each kind of work at its measured power"
    return [f"energies of the time that the log does not cover are {how}"]


def run_energies(
    run: Run,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
    recorded: PredictedRun | None = None,
) -> RunEnergies:
    """Attribute a run's log and predict the run as recorded, as far as each is possible.

    ``recorded`` is that prediction, where it is there already.

    Raises
    ------
    BadInput
        If the run holds no activity, a log that was given cannot be used, or the GPU given is not known or of
        another maker than the run's.
    """
    if is_large(run):
        if gpu:
            check_named(run, gpu)
        many = counted(activities_of(run), "activity", "activities")
        return RunEnergies(run, None, None, (f"no energies of parts of a run of {many}: {PARTS}",))
    measured, notes = attribute_or_note(run, gpu=gpu, power=power, tz=tz, sensor_file=sensor_file)
    predicted = None
    try:
        predicted = predicted_costs(run, gpu, recorded)
        if recorded_gpu(run) is None:
            notes.append(taken_as_recorded(run, load_gpu(predicted.gpu)))
    except BadInput as error:
        if gpu:
            check_named(run, gpu)
        notes = without_prediction(notes, error)
    notes += _beyond_notes(run, measured, predicted=predicted is not None)
    return RunEnergies(run, measured, predicted, (*notes, *serialized_notes(run)))


def predicted_costs(run: Run, gpu: str | None = None, recorded: PredictedRun | None = None) -> PredictedCosts:
    """Return the predicted energy of each activity of a run as it was recorded, anchored on its times.

    Raises
    ------
    BadInput
        If the GPU is not known.
    """
    predicted = recorded or predict_run(run, gpu)
    assert predicted.replays is not None
    replays = predicted.replays
    costs = replays.costs(0)
    rows = predicted.signatures
    energy = rows["energy_mj"].to_numpy()
    ends: Mapping[str, Floats] = {
        end: np.divide(
            rows[f"energy_{end}_mj"].to_numpy(), energy, out=np.ones_like(energy), where=energy > 0
        )
        for end in ("low", "high")
    }
    of = replays.work.signature.astype(np.int64)
    return PredictedCosts(
        predicted.gpu,
        costs.energy_j,
        ends["low"][of],
        ends["high"][of],
        replays.rows.family.astype(str)[of],
        float(replays.predicted.idle_w[0]),
        {f"throttled_share{end}": predicted.totals[0][f"throttled_share{end}"] for end in ENDS},
    )
