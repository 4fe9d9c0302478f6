"""Energy of every activity of a run: what its log measured of it, and what the model predicts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import ENDS
from tracetool.replay.group_energy import RunEnergies, predicted_costs
from tracetool.replay.measured_energy import attribute_or_note, without_prediction
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.time_parts import activity_kinds, busy_parts
from tracetool.replay.unnamed_gpu import check_named
from tracetool.tables.run import Run
from tracetool.tables.windows import PARTS, refuse_large

if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution

#: Columns of a prediction that every slice states.
_STATED = ("util_tensor", "util_dram", "util_sm_active", "bound")


@dataclass(frozen=True)
class Energies:
    """Measured and predicted energy of a run, as recorded."""

    measured: Attribution | None
    predicted: PredictedRun | None
    notes: tuple[str, ...]

    def of_sets(self, run: Run) -> RunEnergies:
        """Return the same for sets of the run's activities, as ``attribute --by`` sums them."""
        costs = None if self.predicted is None else predicted_costs(run, recorded=self.predicted)
        return RunEnergies(run, self.measured, costs)


def energies_of(
    run: Run,
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
) -> Energies:
    """Attribute a run's log and predict the run as recorded, as far as each can be done.

    Raises
    ------
    BadInput
        If the run holds no activity, a log that was given cannot be used, or the GPU given is not known or of
        another maker than the run's.
    """
    refuse_large(run, "a timeline", PARTS)
    measured, notes = attribute_or_note(run, gpu=gpu, power=power, tz=tz, sensor_file=sensor_file)
    notes += measured.notes if measured else ()
    predicted = None
    try:
        predicted = predict_run(run, gpu)
        notes += predicted.notes
    except BadInput as error:
        if gpu:
            check_named(run, gpu)
        notes = without_prediction(notes, error)
    return Energies(measured, predicted, tuple(notes))


def measured_columns(run: Run, measured: Attribution) -> pl.DataFrame:
    """Return the measured figures of each activity. Shape (n, 4).

    Returns
    -------
    DataFrame
        ``energy_j``, ``energy_low_j``, ``energy_high_j`` and ``identified`` in the order of the run's
        ``kernels``, null where the log determines nothing.

    Notes
    -----
    A signature's energy is divided among its launches by their time, moments in which several activities
    ran divided equally: the launches of a signature add up to its row of ``tracetool attribute``. The ends
    of the interval are divided likewise, so they add up as one error common to all launches. A launch that
    the log does not cover has none.
    """
    kernels = run.kernels
    start = kernels["start_ns"].to_numpy()
    end = start + kernels["duration_ns"].to_numpy()
    kinds, device = activity_kinds(run, kernels), kernels["device"].to_numpy()
    shared_s = np.zeros(len(start))
    for one in np.unique(device):
        rows = np.flatnonzero(device == one)
        shared_s[rows] = busy_parts(start[rows], end[rows], kinds[rows])[1].sum(axis=0)
        if (part := measured.covered.get(int(one))) is not None:
            shared_s[rows] *= 1.0 - part.outside(start[rows], end[rows])
    by_signature = measured.energy.filter(pl.col("signature").is_not_null())
    frame = kernels.select("device", "signature").with_columns(shared_s=pl.Series(shared_s))
    launch_sum_s = pl.col("shared_s").sum().over("device", "signature")
    launches = pl.len().over("device", "signature")
    share = pl.when(launch_sum_s > 0).then(pl.col("shared_s") / launch_sum_s).otherwise(1.0 / launches)
    columns = [f"energy{end}_j" for end in ENDS]
    joined = frame.with_columns(share=share).join(
        by_signature.select("device", "signature", *columns, "identified"),
        on=["device", "signature"],
        how="left",
        maintain_order="left",
    )
    return joined.select(*(pl.col(c) * pl.col("share") for c in columns), "identified")


def predicted_columns(predicted: PredictedRun) -> pl.DataFrame:
    """Return the model's figures of each activity at a prediction's first clock. Shape (n, 7).

    Returns
    -------
    DataFrame
        ``predicted_energy_j`` with its 90 % interval, busy shares and what bounds it; base power is shared
        among those that run at once.
    """
    assert predicted.replays is not None, "a run's prediction has its timeline"
    energy = predicted.replays.costs(0).energy_j
    of = predicted.replays.work.signature.astype(np.int64)
    rows = predicted.signatures
    mean = rows["energy_mj"].to_numpy()
    columns: dict[str, Floats | pl.Series] = {"predicted_energy_j": energy}
    for end in ("low", "high"):
        ratio = np.divide(rows[f"energy_{end}_mj"].to_numpy(), mean, out=np.ones_like(mean), where=mean > 0)
        columns[f"predicted_energy_{end}_j"] = energy * ratio[of]
    for name in _STATED:
        columns[name] = rows[name].gather(of)
    return pl.DataFrame(columns)
