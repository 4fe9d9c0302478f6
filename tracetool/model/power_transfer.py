"""Carry fitted energies to a GPU nobody measured: by process, memory and structure.

Counts are the target's own, so no factor for the number of SMs is needed. Energies of the core
domain follow the switched capacitance of the process, stated at 1 V; memory follows its type; the
base is the target's. The error of a scaling widens the interval.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import count_scale, dram_pj, node_scale, width_scale

#: Spread of a kernel's power that scaling the energies adds, relative: same chip, same process, another.
_SAME_CHIP_SD, _SAME_NODE_SD, _OTHER_NODE_SD = 0.03, 0.06, 0.11
#: The same from a base and a voltage curve nobody measured on the target; one idle curve of it removes it.
UNSEEN_BASE_SD = 0.08


def with_own_base(carried: PowerCalibration) -> PowerCalibration:
    """Return carried coefficients as surer: the target's own base and voltage curve have been measured."""
    if carried.basis != "transferred":
        return carried
    narrower = np.sqrt(max(carried.relative_sd**2 - UNSEEN_BASE_SD**2, 0.0))
    return replace(carried, relative_sd=float(narrower))


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
    rates = target.rate("tensor_fp16"), source_gpu.rate("tensor_fp16")
    wider = rates[0] / rates[1] if min(rates) > 0 else 1.0
    same_chip = target.architecture == source_gpu.architecture
    added = (
        _SAME_CHIP_SD
        if same_chip
        else _SAME_NODE_SD
        if target.node_nm == source_gpu.node_nm
        else _OTHER_NODE_SD
    )
    sizes = {f"{k}_pj": count_scale(k, core, wider) for k in source.core_pj}
    sizes |= {"active_pj_per_clock_sm": core * width, "dram_pj_per_byte": memory}
    return replace(
        prior,
        core_pj=MappingProxyType({k: v * count_scale(k, core, wider) for k, v in source.core_pj.items()}),
        active_pj_per_clock_sm=source.active_pj_per_clock_sm * core * width,
        dram_pj_per_byte=source.dram_pj_per_byte * memory,
        link_pj_per_byte=source.link_pj_per_byte,
        relative_sd=float(np.linalg.norm([source.relative_sd, added, UNSEEN_BASE_SD])),
        leakage_per_k=source.leakage_per_k,
        # Coolers are sized for the GPU's limit: a watt warms a large GPU less.
        leakage_per_w=source.leakage_per_w * source_gpu.power_limit_w / target.power_limit_w,
        basis="transferred",
        carried_from=source_gpu.name,
        sd=MappingProxyType({k: s * sizes.get(k, core) for k, s in source.sd.items()}),
        monitored=None,
    )
