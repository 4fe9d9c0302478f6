"""An altered run: its timeline replayed, and recorded joules scaled by the model's ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.families import names
from tracetool.model.anchor import kernel_power_sd
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.altered_kernels import Altered
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.without_cause import Closed
from tracetool.replay.predict_run import PredictedRun
from tracetool.replay.prepared_replay import RunReplay


@dataclass(frozen=True)
class AlteredRun:
    """An altered run: its makespan, its energy for the recorded work, and half-widths of it. [ms], [J]"""

    makespan_ms: float
    energy_j: float
    idle_s: float  # of all GPUs
    waiting_ns: float  # of collectives for other ranks
    model: PredictedRun = field(repr=False)  # what the model says of it, kernels unaltered
    work: float = 1.0
    open_j: float = 0.0  # of kernels that the model cannot price, and of the voltage at another clock
    split_j: float = 0.0  # of which kernels the recorded joules are


def as_recorded(booked: Ledger, closed: Closed) -> AlteredRun:
    """Return the run replayed as it was recorded."""
    recorded = booked.recorded
    assert recorded.replays is not None
    span = recorded.replays.at(0)
    return AlteredRun(
        span.makespan_ns * 1e-6 + closed.pauses_s * 1e3,
        booked.energy_j,
        closed.idle_s(span.gap_ns),
        span.waiting_ns,
        recorded,
    )


def replayed(
    booked: Ledger, predicted: PredictedRun, altered: Altered, plain: AlteredRun, closed: Closed
) -> AlteredRun:
    """Replay a prediction with its kernels altered and idle time closed.

    Parameters
    ----------
    booked : Ledger
        The recorded run.
    predicted : PredictedRun
        The prediction, its timeline edited.
    altered : Altered
        Its kernels.
    plain : AlteredRun
        The run replayed as recorded.
    closed : Closed
        Idle time that is not there any more.
    """
    assert predicted.replays is not None
    replays = predicted.replays
    if (altered.time != 1.0).any() or (altered.energy != 1.0).any():
        replays = rescaled(replays, altered.time, altered.energy)
    span = replays.at(0)
    idle_s = closed.idle_s(span.gap_ns)
    recorded_j = booked.of_signatures()
    then_j, clock_half_j = _priced(booked, predicted, recorded_j)
    waits_j = booked.of_signatures("energy_j", causes.RANKS)
    waits = np.divide(waits_j, recorded_j, out=np.zeros_like(waits_j), where=recorded_j > 0)
    waited = span.waiting_ns / plain.waiting_ns if plain.waiting_ns > 0 else 1.0
    then_j = then_j * altered.energy * (1.0 - waits * (1.0 - waited))
    idle_recorded_j = float(booked.rows.filter(pl.col("signature").is_null())["energy_j"].sum())
    idle_j = _idle_j(plain, predicted, idle_s, idle_recorded_j, closed)
    work = altered.work
    now_j = (float(then_j.sum()) + idle_j) / work
    open_j = float((then_j * altered.open_share).sum()) / work
    half_j, idle_half_j = booked.half_widths()
    mean = now_j / booked.energy_j if booked.energy_j > 0 else 1.0
    ratio = np.divide(then_j, recorded_j, out=np.ones_like(then_j), where=recorded_j > 0)
    idle_ratio = idle_j / idle_recorded_j if idle_recorded_j > 0 else work * mean
    split_j = math.hypot(
        float(np.linalg.norm((ratio / work - mean) * half_j)), (idle_ratio / work - mean) * idle_half_j
    )
    return AlteredRun(
        span.makespan_ns * 1e-6 + closed.pauses_s * 1e3,
        now_j,
        idle_s,
        span.waiting_ns,
        predicted,
        work,
        math.hypot(open_j, clock_half_j / work),
        split_j,
    )


def _priced(booked: Ledger, predicted: PredictedRun, recorded_j: Floats) -> tuple[Floats, float]:
    """Return the energy of each signature at the model's ratio, shape (s,), and a half-width. [J]

    What a collective takes above its model is traffic over links: it is of the data moved, not of the clock.
    The half-width at 90 % is that of powers at another clock: nobody has read the voltage of this very chip.
    """
    plain, then = booked.recorded.replays, predicted.replays
    assert plain is not None
    assert then is not None
    plain_j, model_j = (one.launches * one.predicted.energy_j[:, 0] for one in (plain, then))
    above_j = np.where(then.rows.family == names.COLLECTIVE, np.maximum(recorded_j - plain_j, 0.0), 0.0)
    launched = np.divide(then.launches, plain.launches, out=np.ones_like(plain_j), where=plain.launches > 0)
    ratio = np.divide(model_j, plain_j, out=np.ones_like(model_j), where=plain_j > 0)
    then_j = (recorded_j - above_j) * ratio + above_j * launched
    clocks = then.predicted.clock_mhz[:, 0] / plain.predicted.clock_mhz[:, 0]
    sd = kernel_power_sd(np.abs(np.log2(clocks)), voltage_read=False)
    return then_j, Z90 * float((then_j * sd).sum())


def _idle_j(
    plain: AlteredRun, predicted: PredictedRun, idle_s: float, recorded_j: float, closed: Closed
) -> float:
    """Return the energy of idle time: what is closed had its own power, the rest the mean of the rest. [J]"""
    plain_replays, replays = plain.model.replays, predicted.replays
    assert plain_replays is not None
    assert replays is not None
    idle_w = float(plain_replays.predicted.idle_w[0])
    kept_s, kept_j = max(plain.idle_s - closed.time_s, 0.0), max(recorded_j - closed.energy_j, 0.0)
    if recorded_j <= 0 or plain.idle_s <= 0:
        kept_s, kept_w = np.inf, idle_w
    elif kept_s > 0 and kept_j > 0:
        kept_w = kept_j / kept_s
    else:
        kept_w = recorded_j / plain.idle_s
    if closed.time_s <= 0:
        kept_s = np.inf
    above_w = closed.energy_j / closed.time_s if closed.time_s > 0 else kept_w
    joules = min(idle_s, kept_s) * kept_w + max(idle_s - kept_s, 0.0) * above_w
    return joules * float(replays.predicted.idle_w[0]) / idle_w


def rescaled(replays: RunReplay, time: Floats, energy: Floats) -> RunReplay:
    """Return a replay whose signatures take other times and energies, by factors. Shape (s,) each.

    Where a governor let bursts pass a cap, it lets the altered ones pass: their recorded times at the factor.
    """
    pred, shorter, cheaper = replays.predicted, time[:, None], energy[:, None]
    changed = replace(
        pred,
        timing=replace(pred.timing, duration_s=pred.timing.duration_s * shorter),
        energy_j=pred.energy_j * cheaper,
        parts_j={name: part_j * cheaper for name, part_j in pred.parts_j.items()},
    )
    if replays.governed is None or 0 not in replays.governed.at:
        return replace(replays, predicted=changed, governed=None)
    pace = time[replays.work.signature]
    return replace(replays, predicted=changed, pace=pace if replays.pace is None else pace * replays.pace)
