"""Power coefficients of a GPU nobody measured: physics and neighbors, with wide intervals.

Energies per count scale with the process node (capacitance), memory with its type, the base with
what the GPU's idle reading says. All values are order-of-magnitude priors read from published
regressions (whole path, total GPU power): about 1 pJ/FLOP on tensor cores and 5 pJ/FLOP for FP32 FMA at
7 nm, 12 to 20 pJ/bit for a memory stream of which half is the memory itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.model.power_calibration import PowerCalibration

#: Energy per count at 1 V in a 7 nm process, for counts that follow from an operator. [pJ]
_OPERATOR_7NM = {
    "tensor_fp64": 13.0, "tensor_tf32": 1.9, "tensor_fp16": 0.95, "tensor_fp8": 0.5, "tensor_int8": 0.5,
    "tensor_fp4": 0.28, "fp32": 4.5, "fp64": 12.0, "int": 4.0, "sfu": 16.0, "shared": 9.0, "l2": 15.0,
    "stream": 90.0,
}  # fmt: skip
#: Rate of the tensor core those energies belong to. [FLOP/clk/SM]
_WIDTH_7NM = 2048.0
#: The same for counts read from a monitor's busy shares, which miss integer work and on-chip traffic: L2
#: stands for the whole way of memory's bytes.
_MONITOR_7NM = _OPERATOR_7NM | {
    "stream": 0.0,
    "tensor_fp64": 12.0,
    "tensor_fp16": 0.75,
    "fp32": 6.5,
    "fp64": 14.0,
    "l2": 35.0,
}
#: Capacitance of logic relative to 7 nm, by node. Interpolated in the logarithm between them.
_NODE_NM = np.array([3.0, 4.0, 5.0, 7.0, 8.0, 12.0, 16.0, 28.0])
_NODE_SCALE = np.array([0.58, 0.68, 0.75, 1.0, 1.15, 1.55, 1.8, 3.2])
#: Energy of a byte through device memory, controller and GPU included. [pJ/B]
_DRAM_PJ = {
    "hbm2": 58.0, "hbm2e": 55.0, "hbm3": 50.0, "hbm3e": 46.0,
    "gddr5": 135.0, "gddr5x": 120.0, "gddr6": 95.0, "gddr6x": 100.0, "gddr7": 80.0,
}  # fmt: skip
#: Of that, what memory and its interface take by themselves, where the way through the chip has a count of
#: its own (3.9 pJ/bit for HBM2, 7.5 for GDDR6, published, and a regulator's loss).
_MEMORY_ITSELF = 0.6
_ACTIVE_PJ_7NM = {"operator": 300.0, "monitor": 480.0}
_LINK_PJ_PER_BYTE = 45.0
#: Share of the idle power at the lowest clock that leaks; the rest is GPU and memory.
_LEAKAGE_SHARE = 0.55
#: Of what does not leak, the share of idle memory.
_MEMORY_SHARE = 0.4
#: Graphics memory sleeps when a GPU idles, and its idle reading is that of sleep; while a job runs its
#: clock is up. GPUs read in both states differ by this much. [W/(GB/s)]
_AWAKE_W_PER_GB_S = 0.05
#: Clock tree of the idle chip per SM. [W/(V^2 GHz)]
_CLOCK_TREE_PER_SM = 0.09


def node_scale(node_nm: float) -> float:
    """Return the switched capacitance of logic relative to 7 nm."""
    if not node_nm > 0:
        return 1.0
    return float(np.exp(np.interp(np.log(node_nm), np.log(_NODE_NM), np.log(_NODE_SCALE))))


#: Wires hardly shrink from one process to the next and lengthen with the die: this power of logic's scale.
_WIRE_SHRINK = 0.15
#: Counts whose energy is that of wires across the chip.
_WIRES = frozenset({"l2", "stream"})
#: A tensor core twice as wide reads each operand for twice the products: energy per FLOP goes with its
#: rate to this power.
_REUSE = -0.25


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
    return float(np.sqrt(fp32_rate / 128.0))


def dram_pj(memory_type: str) -> float:
    """Return the energy of a byte through a type of device memory, GPU included. [pJ/B]"""
    return _DRAM_PJ.get(memory_type, 80.0)


def prior_calibration(gpu: Gpu) -> PowerCalibration:
    """Return coefficients from the GPU's description alone; ``basis`` is "prior"."""
    wider = gpu.rate("tensor_fp16") / _WIDTH_7NM if gpu.rate("tensor_fp16") > 0 else 1.0
    found = _coefficients(gpu, _OPERATOR_7NM, _ACTIVE_PJ_7NM["operator"], wider)
    found = replace(found, dram_pj_per_byte=_MEMORY_ITSELF * found.dram_pj_per_byte)
    return replace(found, monitored=_coefficients(gpu, _MONITOR_7NM, _ACTIVE_PJ_7NM["monitor"]))


def _awake_w(gpu: Gpu) -> float:
    """Return what memory draws, clocked up, beyond the idle reading. [W]"""
    if not gpu.memory_type.startswith("gddr") or not np.isfinite(gpu.dram_bytes_per_s):
        return 0.0
    return _AWAKE_W_PER_GB_S * gpu.dram_bytes_per_s / 1e9


def _coefficients(
    gpu: Gpu, core_7nm: Mapping[str, float], active_pj: float, wider: float = 1.0
) -> PowerCalibration:
    scale = node_scale(gpu.node_nm)
    floor_v = gpu.voltage.floor_v
    tree = _CLOCK_TREE_PER_SM * gpu.sm_count * scale
    rest = max(gpu.idle_w - tree * floor_v**2 * gpu.clock_min_mhz / 1e3, 0.0)
    return PowerCalibration(
        board_w=rest * (1 - _LEAKAGE_SHARE) * (1 - _MEMORY_SHARE),
        memory_w=rest * (1 - _LEAKAGE_SHARE) * _MEMORY_SHARE + _awake_w(gpu),
        leakage_w_per_v=rest * _LEAKAGE_SHARE / floor_v,
        clock_w_per_v2_ghz=tree,
        core_pj=MappingProxyType({k: v * count_scale(k, scale, wider) for k, v in core_7nm.items()}),
        active_pj_per_clock_sm=active_pj * scale * width_scale(gpu.rate("fp32")),
        dram_pj_per_byte=dram_pj(gpu.memory_type),
        link_pj_per_byte=_LINK_PJ_PER_BYTE,
        relative_sd=0.22,
        basis="prior",
    )
