"""Totals of a replayed timeline: energies that add up, parts, gaps by reason, per clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetool.replay.gaps import NAMES
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Replayed
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import Prediction
from tracetool.workflows.totals import IDLE_ERROR, PARTS, TIME_COMMON, family_spread, ratio

#: Parts that are counts of operations and bytes times an energy each: they do not depend on the time.
COUNTED = ("compute", "onchip", "dram", "link")


@dataclass(frozen=True)
class Asked:
    """What is the same at every clock."""

    rows: OperatorColumns
    predicted: Prediction
    launches: Floats  # (s,)
    counted: Floats  # (s,) launches, less what a cap on those that ran at once took off their power


def _part_j(predicted: Prediction, name: str, j: int) -> Floats:
    """Energy of one part per launch, scaled so that the parts add up to the launch's energy. (s,) [J]"""
    whole = sum(predicted.parts_j[p][:, j] for p in PARTS)
    return np.asarray(predicted.parts_j[name][:, j] * ratio(predicted.energy_j[:, j], np.asarray(whole)))


def rates_at(predicted: Prediction, j: int) -> Rates:
    """Return the power of each signature while it runs, at clock j."""
    duration = predicted.timing.duration_s[:, j]
    counts = np.sum([_part_j(predicted, p, j) for p in COUNTED], axis=0)

    def watts(name: str) -> Floats:
        energy = _part_j(predicted, name, j)
        return np.divide(energy, duration, out=np.zeros_like(duration), where=duration > 0)

    drawn = np.divide(counts, duration, out=np.zeros_like(duration), where=duration > 0)
    return Rates(predicted.timing.sm_active[:, j], watts("base"), watts("clock"), counts, drawn)


def replay_record(asked: Asked, made: Replayed, j: int, devices: int) -> dict[str, Any]:
    """Return the totals of one clock; kernels, gaps and parts add up to the same energy."""
    predicted, launches = asked.predicted, asked.launches
    rates = rates_at(predicted, j)
    idle_w = float(predicted.idle_w[j])
    parts = {
        "base": float(rates.base_w @ made.base_ns) * 1e-9,
        "clock": float(rates.clock_w @ made.clock_ns) * 1e-9,
        **{p: float(asked.counted @ _part_j(predicted, p, j)) for p in COUNTED},
    }
    gaps = idle_w * made.gap_ns * 1e-9
    kernels, idle = sum(parts.values()), float(gaps.sum())
    total = kernels + idle
    below, above = (float(np.hypot(side, IDLE_ERROR * idle)) for side in _spread(asked, j))
    time_below, time_above = _time_spread(asked, j)
    span = made.makespan_ns * 1e-9
    busy = made.kernel_ns * 1e-9
    throttled = float(
        launches @ (predicted.timing.duration_s[:, j] * predicted.throttled[:, j].astype(np.float64))
    )
    # Errors of kernels reach the makespan only as far as kernels, not the host, set it.
    reach = min(1.0, made.busy_ns / max(1, devices) / made.makespan_ns) if made.makespan_ns else 0.0
    return {
        "clock_mhz": float(predicted.asked_mhz[j]),
        "kernel_time_ms": busy * 1e3,
        "kernel_time_low_ms": (busy - time_below) * 1e3,
        "kernel_time_high_ms": (busy + time_above) * 1e3,
        "makespan_ms": span * 1e3,
        "makespan_low_ms": (span - time_below * reach) * 1e3,
        "makespan_high_ms": (span + time_above * reach) * 1e3,
        "collective_wait_ms": made.waiting_ns * 1e-6,
        "collective_transfer_ms": made.moving_ns * 1e-6,
        "slowed_together_ms": made.slowed_ns * 1e-6,
        "busy_ms": made.busy_ns * 1e-6,
        "gap_ms": made.idle_ns * 1e-6,
        "gaps_ms": {name: float(made.gap_ns[i]) * 1e-6 for i, name in enumerate(NAMES)},
        "gaps_j": {name: float(gaps[i]) for i, name in enumerate(NAMES)},
        "gap_counts": {name: int(made.gap_count[i]) for i, name in enumerate(NAMES)},
        "energy_j": total,
        "energy_low_j": max(total - below, 0.0),
        "energy_high_j": total + above,
        "kernel_energy_j": kernels,
        "gap_energy_j": idle,
        "energy_parts_j": {**parts, "gaps": idle},
        "idle_power_w": idle_w,
        "mean_power_w": total / span if span > 0 else 0.0,
        "peak_power_w": max(made.peak_w, idle_w if made.idle_ns > 0 else 0.0),
        "throttled_share": throttled / busy if busy > 0 else 0.0,
    }


def _spread(asked: Asked, j: int) -> tuple[float, float]:
    predicted = asked.predicted
    energy = predicted.energy_j[:, [j]]
    low = ratio(predicted.energy_low_j[:, [j]], energy)
    high = ratio(predicted.energy_high_j[:, [j]], energy)
    below, above = family_spread(asked.rows, asked.launches, energy, low, high)
    return float(below[0]), float(above[0])


def _time_spread(asked: Asked, j: int) -> tuple[float, float]:
    timing = asked.predicted.timing
    duration, low, high = timing.duration_s[:, [j]], timing.low, timing.high[:, None]
    shared = 0.0
    if timing.clock_low is not None:
        # one clock for all rows: its error adds up, whatever their families
        shared = float((asked.launches * duration[:, 0] * (1.0 - timing.clock_low)).sum())
        low = np.exp(-np.sqrt(np.maximum(np.log(low) ** 2 - np.log(timing.clock_low) ** 2, 0.0)))
    below, above = family_spread(asked.rows, asked.launches, duration, low[:, None], high, common=TIME_COMMON)
    return float(np.hypot(below[0], shared)), float(above[0])
