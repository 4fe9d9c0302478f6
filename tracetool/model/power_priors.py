"""Power coefficients of a GPU without measurements: physics and neighbors, with wide intervals.

Energies per count scale with the process node (capacitance), memory with its type, the base with
what the GPU's idle reading says. All values are order-of-magnitude priors of whole cards, with their sources
in ``hardware/priors.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.power_calibration import PowerCalibration

_OPERATOR_PJ = prior_table("power.operator")
_MONITOR_PJ = {**_OPERATOR_PJ, **prior_table("power.monitor")}
_ACTIVE_PJ = prior_table("power.active")
_DRAM_PJ = prior_table("power.dram")
#: Nodes [nm], ascending, and the switched capacitance of logic at each relative to 7 nm.
_NODE_NM, _NODE_SCALE = np.array(
    sorted((float(nm), s) for nm, s in prior_table("power.node_scale").items())
).T
_TENSOR_WIDTH, _LANE_WIDTH = prior_number("power.tensor_width"), prior_number("power.lane_width")
_REUSE, _WIRE_SHRINK = prior_number("power.reuse"), prior_number("power.wire_shrink")
#: Counts whose energy is that of wires across the chip.
_WIRES = frozenset({"l2", "stream"})
_MEMORY_ITSELF = prior_number("power.memory_itself")
_LEAKAGE_SHARE, _MEMORY_SHARE = prior_number("power.leakage_share"), prior_number("power.memory_share")
_AWAKE, _CLOCK_TREE = prior_table("power.awake"), prior_number("power.clock_tree")
_AWAKE_LEAKS = prior_table("power.awake_leaks")
_LINK_PJ = prior_number("power.link")
_RELATIVE_SD = prior_number("power.relative_sd")


def node_scale(node_nm: float) -> float:
    """Return the switched capacitance of logic relative to 7 nm."""
    if not node_nm > 0:
        return 1.0
    return float(np.exp(np.interp(np.log(node_nm), np.log(_NODE_NM), np.log(_NODE_SCALE))))


def count_scale(count: str, logic: float, wider: float = 1.0) -> float:
    """Return the energy of a count on another chip relative to one.

    Parameters
    ----------
    count : str
        One of ``CORE_COUNTS``.
    logic : float
        Scale of logic between the two processes. [1]
    wider : float
        Rate of the other's tensor core, FLOP per clock and SM, over that of the first. [1]
    """
    if count in _WIRES:
        return float(logic**_WIRE_SHRINK)
    return float(logic * wider**_REUSE) if count.startswith("tensor") else logic


def width_scale(fp32_rate: float) -> float:
    """Return the energy per clock of an SM relative to one of 64 FP32 lanes; wider ones share a front end."""
    return float(np.sqrt(fp32_rate / _LANE_WIDTH))


def dram_pj(memory_type: str) -> float:
    """Return the energy of a byte through a type of device memory, GPU included. [pJ/B]"""
    return _DRAM_PJ.get(memory_type, _DRAM_PJ["otherwise"])


def prior_calibration(gpu: Gpu) -> PowerCalibration:
    """Return coefficients from the GPU's description alone; ``basis`` is "prior"."""
    wider = gpu.rate("tensor_fp16") / _TENSOR_WIDTH if gpu.rate("tensor_fp16") > 0 else 1.0
    prior = _coefficients(gpu, _OPERATOR_PJ, _ACTIVE_PJ["operator"], wider)
    prior = replace(prior, dram_pj_per_byte=_MEMORY_ITSELF * prior.dram_pj_per_byte)
    return replace(prior, monitored=_coefficients(gpu, _MONITOR_PJ, _ACTIVE_PJ["monitor"]))


def _awake_w(gpu: Gpu) -> float:
    """Return the power of memory and a chip at work, clocked up, beyond the idle reading. [W]"""
    if not gpu.memory_type.startswith("gddr") or not np.isfinite(gpu.dram_bytes_per_s):
        return 0.0
    per_rate = _AWAKE.get(gpu.memory_type, _AWAKE.get(gpu.architecture, _AWAKE["otherwise"]))
    return per_rate * gpu.dram_bytes_per_s / 1e9


def _coefficients(
    gpu: Gpu, core_7nm: Mapping[str, float], active_pj: float, wider: float = 1.0
) -> PowerCalibration:
    scale = node_scale(gpu.node_nm)
    floor_v = gpu.voltage.floor_v
    tree = _CLOCK_TREE * gpu.sm_count * scale
    idle_besides_clock_w = max(gpu.idle_w - tree * floor_v**2 * gpu.clock_min_mhz / 1e3, 0.0)
    awake, leaks = _awake_w(gpu), _AWAKE_LEAKS.get(gpu.architecture, _AWAKE_LEAKS["otherwise"])
    return PowerCalibration(
        board_w=idle_besides_clock_w * (1 - _LEAKAGE_SHARE) * (1 - _MEMORY_SHARE),
        memory_w=idle_besides_clock_w * (1 - _LEAKAGE_SHARE) * _MEMORY_SHARE + (1 - leaks) * awake,
        leakage_w_per_v=(idle_besides_clock_w * _LEAKAGE_SHARE + leaks * awake) / floor_v,
        clock_w_per_v2_ghz=tree,
        core_pj=MappingProxyType({k: v * count_scale(k, scale, wider) for k, v in core_7nm.items()}),
        active_pj_per_clock_sm=min(active_pj, _ACTIVE_PJ.get(gpu.vendor, active_pj))
        * scale
        * width_scale(gpu.rate("fp32")),
        dram_pj_per_byte=dram_pj(gpu.memory_type),
        link_pj_per_byte=_LINK_PJ,
        relative_sd=_RELATIVE_SD,
        basis="prior",
    )
