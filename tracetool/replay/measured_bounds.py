"""Bounds of physics on measured rows and what is scaled from them: each breach named in a sentence."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.families.formats import multiplied_format
from tracetool.hardware.gpu import Gpu
from tracetool.model.anchor import Anchor
from tracetool.model.dynamic import tensor_energy_pj
from tracetool.model.idle import core_voltage_v, idle_power_w
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import prior_calibration
from tracetool.model.power_transfer import with_base_under
from tracetool.replay.prediction_bounds import LEAST_ENERGY, SLACK


def plausibility_notes(
    rows: OperatorColumns, gpu: Gpu, predicted: Prediction, power: PowerCalibration, limit_w: float | None
) -> list[str]:
    """Return a sentence for each bound of physics that rows break.

    Checked are: measured powers above the base (else the base is lowered, and by how much) and within the
    power limit; active SMs within what the grid occupies; predicted powers within the limit; energy per
    operation of the pipes that counters show at work above what the process needs.

    Parameters
    ----------
    rows : OperatorColumns
        n rows, measured or not.
    predicted : Prediction
        At c clocks.
    power : PowerCalibration
        Coefficients before any correction.
    limit_w : float, optional
        The power cap asked for; by default the GPU's. [W]
    """
    anchor = Anchor.of(rows, gpu)
    read = anchor.measured & (anchor.power_w > 0)
    notes = [*_base(anchor, read, gpu, power), *_limits(anchor, read, gpu, predicted, limit_w)]
    occupied = rows.number("blocks") / gpu.sm_count
    beyond = rows.number("act_sm") > SLACK * np.minimum(occupied, 1.0) + 1.0 / gpu.sm_count
    if int(beyond.sum()):
        notes.append(
            f"{_rows(beyond)} more active SMs than the grid has blocks for: their act_sm is doubtful"
        )
    return [*notes, *_energy(rows, anchor, read, gpu, predicted, power)]


def _rows(which: Bools) -> str:
    """Return how many rows state something, shape (n,)."""
    count = int(which.sum())
    return f"{count} row{'s' if count > 1 else ''} state{'' if count > 1 else 's'}"


def _base(anchor: Anchor, read: Bools, gpu: Gpu, power: PowerCalibration) -> list[str]:
    if not read.any():
        return []
    share = anchor.mem_clock_mhz[read] / gpu.memory_clock_mhz
    clock_mhz, power_w = anchor.clock_mhz[read], anchor.power_w[read]
    base = idle_power_w(gpu, clock_mhz, power, memory_share=share)
    under = power_w < base
    lowered = with_base_under(power, gpu, power_w, clock_mhz, share)
    if lowered is power:
        refuted = (
            f"{int(under.sum())} measured powers are below the calibrated base power, which is lowered there"
        )
        return [refuted] if under.any() else []
    least = int(np.argmin(power_w / base))
    to = float(idle_power_w(gpu, clock_mhz[least : least + 1], lowered, memory_share=share[least])[0])
    refuted = (
        f"base power of {gpu.name} lowered from {base[least]:.3g} to {to:.3g} W, which was not measured: "
    )
    return [f"{refuted}a measured power is {power_w[least]:.3g} W"]


def _limits(anchor: Anchor, read: Bools, gpu: Gpu, predicted: Prediction, limit_w: float | None) -> list[str]:
    notes = []
    highest = max(gpu.power_limit_w, float(np.nan_to_num(gpu.power_limit_max_w)))
    over = read & (anchor.power_w > SLACK * highest)
    if over.any():
        most = float(anchor.power_w[over].max())
        notes.append(
            f"{_rows(over)} up to {most:.4g} W, above the highest limit of {gpu.name} ({highest:.4g} W)"
        )
    cap = limit_w or (max(highest, float(anchor.power_w[read].max(initial=0.0))))
    if (predicted.power_w > SLACK * cap).any():
        notes.append(f"power of {predicted.power_w.max():.4g} W is above the cap of {cap:.4g} W at any clock")
    return notes


def _energy(
    rows: OperatorColumns,
    anchor: Anchor,
    read: Bools,
    gpu: Gpu,
    predicted: Prediction,
    power: PowerCalibration,
) -> list[str]:
    """Rows whose measured power is too low for the operations that counters show."""
    if not read.any():
        return []
    work, pj = predicted.timing.work, prior_calibration(gpu).core_pj
    tensor = tensor_energy_pj(work, multiplied_format(rows.text("dtype"), gpu), pj)
    volt: Floats = core_voltage_v(gpu, np.where(read, anchor.clock_mhz, gpu.clock_min_mhz), power)
    vector = pj["fp32"] * work.fp32_flops + pj["fp64"] * work.fp64_flops
    needed = LEAST_ENERGY * volt**2 * (tensor + vector)
    short = read & (needed * 1e-12 > anchor.power_w * anchor.duration_s)
    if not short.any():
        return []
    return [
        f"{_rows(short)} less energy than their operations take in any process: power or counts are wrong"
    ]
