"""Bounds of physics on a prediction, whatever its basis: each breach named in a sentence."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.number_text import counted
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.families.formats import multiplied_format
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.dynamic import tensor_energy_pj
from tracetool.model.idle import core_voltage_v, idle_power_w
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import prior_calibration
from tracetool.model.thermal import Surroundings, steady_temperature_c
from tracetool.replay.power import PowerCurve

#: Energy of an operation over what its process takes for random operands, at least and at most. [1]
LEAST_ENERGY: Final = prior_number("plausible.least_energy")
_MOST_ENERGY: Final = prior_number("plausible.most_energy")
#: A figure this far beyond a bound is no rounding. [1]
SLACK: Final = 1.02
#: Pipes of the SMs: they are busy at most where a block is.
_PIPES: Final = ("tensor", "fp32", "fp64", "int", "sfu", "shared")
#: Time constants of the governor that a mean power is taken over, and what idle time before adds to it. [1]
_CONSTANTS: Final = 10.0


def predicted_breaches(
    rows: OperatorColumns,
    gpu: Gpu,
    predicted: Prediction,
    power: PowerCalibration,
    surroundings: Surroundings | None = None,
) -> list[str]:
    """Return a sentence for each bound of physics that predictions break.

    Checked are: utilizations of at most 1, and on the SMs of at most the share that the grid's blocks occupy;
    power of at least the base; energy per operation within what its process takes.

    Parameters
    ----------
    rows : OperatorColumns
        n rows.
    predicted : Prediction
        At c clocks.
    power : PowerCalibration
        The coefficients.
    surroundings : Surroundings, optional
        Temperatures that were assumed, by default those the coefficients are of.
    """
    return [
        *_utilization(rows, gpu, predicted),
        *_base(gpu, predicted, power, surroundings or Surroundings()),
        *_energy(rows, gpu, predicted, power),
    ]


def mean_over_cap(curve: PowerCurve, cap_w: float, time_constant_s: float) -> list[str]:
    """Return a sentence where a GPU's mean power is above its cap for longer than its governor allows.

    Parameters
    ----------
    curve : PowerCurve
        Power of one GPU.
    cap_w : float
        Its cap. [W]
    time_constant_s : float
        Of the governor. [s]
    """
    length = _CONSTANTS * time_constant_s * 1e9
    first, last = float(curve.edge_ns[0]), float(curve.edge_ns[-1])
    count = int((last - first) / length)
    if count < 1:
        return []
    edges = first + length * np.arange(count + 1, dtype=np.float64)
    means = np.diff(curve.energy_until(edges, 0.0)) / (length * 1e-9)
    # One time constant of what was left under the cap may go over it.
    over = means > SLACK * cap_w * (1.0 + 1.0 / _CONSTANTS)
    if not over.any():
        return []
    text = f"breach: mean power of {means.max():.4g} W over {length * 1e-6:.3g} ms is above the cap of"
    return [f"{text} {cap_w:.4g} W: the work draws more at the lowest clock"]


def _utilization(rows: OperatorColumns, gpu: Gpu, predicted: Prediction) -> list[str]:
    timing, notes = predicted.timing, []
    safe = np.where(timing.duration_s > 0, timing.duration_s, np.inf)
    blocks = rows.number("blocks")
    occupied = np.minimum(np.where(blocks > 0, blocks, np.inf) / gpu.sm_count, 1.0)[:, None]
    beyond = np.zeros(len(rows), np.bool_)
    for unit in (*timing.busy_s, "sm_active"):
        share = timing.sm_active if unit == "sm_active" else timing.busy_s[unit] / safe
        if (share > SLACK).any():
            text = f"breach: utilization of {unit} is {share.max():.3g} in {_rows(share > SLACK)}"
            notes.append(f"{text}, above 1: its work or its time is wrong")
        if unit in _PIPES and (blocks > 0).any():
            beyond |= (share > SLACK * occupied + 1.0 / gpu.sm_count).any(axis=1) & (blocks > 0)
    if beyond.any():
        notes.append(f"breach: {_rows_do(beyond, 'keep')} more of the SMs busy than the grid has blocks for")
    return notes


def _base(gpu: Gpu, predicted: Prediction, power: PowerCalibration, surroundings: Surroundings) -> list[str]:
    """Predicted power below idle power at the assumed temperature."""
    warm = steady_temperature_c(predicted.power_w, gpu, surroundings)
    base = np.minimum(idle_power_w(gpu, predicted.clock_mhz, power, warm), predicted.idle_w)
    under = (predicted.power_w * SLACK < base) & (predicted.timing.duration_s > 0)
    if not under.any():
        return []
    least = predicted.power_w[under].min()
    return [f"breach: power of {_rows(under)} is below the base, down to {least:.3g} W"]


def _energy(rows: OperatorColumns, gpu: Gpu, predicted: Prediction, power: PowerCalibration) -> list[str]:
    """Energies of computing outside the range for operations in this process."""
    work, pj = predicted.timing.work, prior_calibration(gpu).core_pj
    tensor = tensor_energy_pj(work, multiplied_format(rows.text("dtype"), gpu), pj)
    operations = tensor + pj["fp32"] * work.fp32_flops + pj["fp64"] * work.fp64_flops
    volt: Floats = core_voltage_v(gpu, predicted.clock_mhz, power)
    usual_j = operations[:, None] * volt**2 * 1e-12
    drawn = predicted.energy_j
    short = (usual_j > 0) & (drawn < LEAST_ENERGY * usual_j)
    notes = []
    if short.any():
        notes.append(
            f"breach: {_rows_do(short, 'take')} less energy than their operations do in any "
            f"{gpu.node_nm:g} nm process"
        )
    computed = predicted.parts_j.get("compute")
    counts = work.tensor_flops + work.fp32_flops + work.fp64_flops
    only = (counts > 0) & (work.int_ops + work.sfu_ops + work.instructions <= counts)
    if computed is not None:
        over = (usual_j > 0) & only[:, None] & (computed > _MOST_ENERGY * usual_j)
        if over.any():
            per = (computed[over] / np.broadcast_to(counts[:, None], computed.shape)[over]).max() * 1e12
            notes.append(
                f"breach: {_rows_do(over, 'take')} up to {per:.3g} pJ per operation, more than any "
                f"{gpu.node_nm:g} nm process"
            )
    return notes


def _rows(which: Bools) -> str:
    """Return how many rows, of shape (n,) or at any clock of (n, c)."""
    rows = which.reshape(len(which), -1).any(axis=1)
    return counted(int(rows.sum()), "row")


def _rows_do(which: Bools, verb: str) -> str:
    """Return the count of rows with a verb, such as "1 row takes"."""
    rows = _rows(which)
    return f"{rows} {verb}s" if rows == "1 row" else f"{rows} {verb}"
