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
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_priors import count_scale, dram_pj, node_scale, width_scale

#: Relative spread of a kernel's power that scaling the energies adds, and that a base nobody measured adds.
_SCALED_SD, UNSEEN_BASE_SD = prior_table("carried_power.spread"), prior_number("carried_power.unseen_base")


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
    same_node = target.node_nm == source_gpu.node_nm
    added = _SCALED_SD["same_chip" if same_chip else "same_node" if same_node else "other_node"]
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
