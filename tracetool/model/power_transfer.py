"""Carry fitted energies to a GPU without measurements: by process, memory and structure.

Counts are the target's own, so no factor for the number of SMs is needed. Energies of the core
domain follow the switched capacitance of the process, stated at 1 V; memory follows its type; the
base is the target's. The error of a scaling widens the interval.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.families.registry import families_where
from tracetool.families.spec import Sequence
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.idle import idle_power_w
from tracetool.model.power_calibration import BASE, PowerCalibration
from tracetool.model.power_priors import count_scale, dram_pj, node_scale, width_scale
from tracetool.model.thermal import thermal_resistance_c_per_w

#: Most of a measured power that counts as base.
MOST_BASE = prior_number("power.most_base")
#: What a streamed byte costs of the fitted way where coefficients were carried, and whose.
_STREAM_WAY = prior_number("carried_power.stream_way")
#: What an SM costs per clock in a kernel that only streams, over one at work: it waits for memory.
_STREAM_CLOCK = prior_number("carried_power.stream_clock")
_STREAMS = {*families_where(lambda family: family.sequence is Sequence.STREAM), names.MEMCPY, names.MEMSET}
#: Relative spread of a kernel's power that scaling the energies adds, and that an unmeasured base adds.
_SCALED_SD, UNSEEN_BASE_SD = prior_table("carried_power.spread"), prior_number("carried_power.unseen_base")


def stream_way(rows: OperatorColumns, power: PowerCalibration) -> Floats:
    """Return the energy of a byte of each row in the way fitted to activations of whole models. Shape (n,).

    Where coefficients were carried or are priors, a kernel that only streams, in wide loads, pays less.
    """
    return _of_streams(rows, power, _STREAM_WAY)


def stream_clock(rows: OperatorColumns, power: PowerCalibration) -> Floats:
    """Return the energy per clock of an SM with a block in each row, over one at work. Shape (n,).

    In a kernel that only streams it waits for memory with most of its clocks stopped; coefficients fitted on
    this GPU hold that already. Not for rows whose own power was measured: it shows what their work costs, and
    all of it but memory's follows the core's voltage.
    """
    return _of_streams(rows, power, _STREAM_CLOCK)


def _of_streams(rows: OperatorColumns, power: PowerCalibration, share: float) -> Floats:
    if power.basis == "calibrated":
        return np.ones(len(rows))
    return np.where(rows.in_families(*_STREAMS), share, 1.0)


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
        leakage_per_w=_heating(source, source_gpu, target),
        basis="transferred",
        carried_from=source_gpu.name,
        sd=MappingProxyType({k: s * sizes.get(k, core) for k, s in source.sd.items()}),
        monitored=None,
    )


def _heating(source: PowerCalibration, source_gpu: Gpu, target: Gpu) -> float:
    """Return the growth of leakage per watt on the target: coolers are sized for a GPU's limit. [1/W]"""
    carried = source.leakage_per_w / thermal_resistance_c_per_w(source_gpu)
    per_k = min(carried, source.leakage_per_k)
    return (per_k if target.memory_type.startswith("gddr") else carried) * thermal_resistance_c_per_w(target)


def with_base_under(
    power: PowerCalibration, gpu: Gpu, power_w: Floats, clock_mhz: Floats, memory_share: Floats
) -> PowerCalibration:
    r"""Return coefficients whose base is below every measured power: one that is not is refuted.

    .. math:: P_{base}(f_i) \le q \, P_i

    All parts of a base that was not measured on this GPU shrink alike; a measured one stays. What the
    measured powers then exceed it by is work, as everywhere.

    Parameters
    ----------
    power_w, clock_mhz, memory_share : array, shape (n,)
        Measured powers, the clocks they were read at, and the memory clock over the usual one.
        [W], [MHz], [1]
    """
    if power.basis == "calibrated" or not len(power_w):
        return power
    base = idle_power_w(gpu, clock_mhz, power, memory_share=memory_share)
    factor = float(np.min(MOST_BASE * power_w / np.maximum(base, 1e-9), initial=1.0))
    if factor >= 1.0:
        return power
    monitored = power.monitored and with_base_under(power.monitored, gpu, power_w, clock_mhz, memory_share)
    return replace(power, monitored=monitored, **{part: factor * getattr(power, part) for part in BASE})
