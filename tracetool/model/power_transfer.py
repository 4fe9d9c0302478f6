"""Carry fitted energies to a GPU nobody measured: by process, memory and structure.

Counts are the target's own, so no factor for the number of SMs is needed. Energies of the core
domain follow the switched capacitance of the process, stated at 1 V; memory follows its type; the
base is the target's. What a scaling may be off by widens the interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import dram_pj, node_scale, width_scale

#: Spread of a kernel's power that a scaling adds, relative: same chip, same process, another process.
_SAME_CHIP_SD, _SAME_NODE_SD, _OTHER_NODE_SD = 0.05, 0.09, 0.12


def transferred(
    source: PowerCalibration, source_gpu: Gpu, target: Gpu, prior: PowerCalibration
) -> PowerCalibration:
    """Return the source's energies scaled to the target, with the target's base.

    Parameters
    ----------
    source : PowerCalibration
        Fitted coefficients.
    source_gpu, target : Gpu
        Where they were fitted and where they are wanted.
    prior : PowerCalibration
        The target's prior, for its base.
    """
    core = node_scale(target.node_nm) / node_scale(source_gpu.node_nm)
    memory = dram_pj(target.memory_type) / dram_pj(source_gpu.memory_type)
    width = width_scale(target.rate("fp32")) / width_scale(source_gpu.rate("fp32"))
    same_chip = target.architecture == source_gpu.architecture
    added = (
        _SAME_CHIP_SD
        if same_chip
        else _SAME_NODE_SD
        if target.node_nm == source_gpu.node_nm
        else _OTHER_NODE_SD
    )
    sizes = {"active_pj_per_clock_sm": core * width, "dram_pj_per_byte": memory}
    return replace(
        prior,
        core_pj=_scaled(source.core_pj, core),
        active_pj_per_clock_sm=source.active_pj_per_clock_sm * core * width,
        dram_pj_per_byte=source.dram_pj_per_byte * memory,
        link_pj_per_byte=source.link_pj_per_byte,
        relative_sd=float(np.hypot(source.relative_sd, added)),
        leakage_per_k=source.leakage_per_k,
        # Coolers are sized for the board's limit: a watt warms a large board less.
        leakage_per_w=source.leakage_per_w * source_gpu.power_limit_w / target.power_limit_w,
        basis="transferred",
        sd=MappingProxyType({k: s * sizes.get(k, core) for k, s in source.sd.items()}),
        monitored=None,
    )


def _scaled(values: Mapping[str, float], factor: float) -> Mapping[str, float]:
    return MappingProxyType({k: v * factor for k, v in values.items()})
