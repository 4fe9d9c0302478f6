"""Coefficients of a hypothetical GPU: those of the GPU it starts from, scaled and less sure."""

from __future__ import annotations

from dataclasses import replace

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_table
from tracetool.model.power_calibration import BASE, PowerCalibration
from tracetool.model.power_files import power_calibration_of
from tracetool.model.power_priors import prior_calibration
from tracetool.model.power_transfer import transferred

#: What a time on hypothetical hardware errs by more, ln of a factor to either side: what the kernels of one
#: library err by on GPUs whose own calibration is left out.
TIME_SPREAD: float = prior_table("carried_time.spread")["stream"]


def is_hypothetical(gpu: Gpu) -> bool:
    """Return whether numbers of a GPU were changed: then it is not the one that is loaded by its name."""
    return gpu is not load_gpu(gpu.name)


def hypothetical_power(gpu: Gpu) -> PowerCalibration:
    """Return power coefficients of a GPU with changed numbers.

    Energies follow process, memory type and width of the cores as those carried to another GPU; leakage and
    clock tree of an idle chip the number of SMs, idle memory its bandwidth, all of them a stated idle power.
    """
    built = load_gpu(gpu.name)
    built_power = power_calibration_of(built)
    carried = transferred(built_power, built, gpu, prior_calibration(gpu))
    chip = gpu.sm_count / built.sm_count
    sizes = dict.fromkeys(BASE, 1.0) | {
        "leakage_w_per_v": chip,
        "clock_w_per_v2_ghz": chip,
        "memory_w": gpu.dram_bytes_per_s / built.dram_bytes_per_s,
    }
    stated = gpu.idle_w / built.idle_w
    return replace(
        built_power,
        core_pj=carried.core_pj,
        active_pj_per_clock_sm=carried.active_pj_per_clock_sm,
        dram_pj_per_byte=carried.dram_pj_per_byte,
        relative_sd=carried.relative_sd,
        **{part: getattr(built_power, part) * size * stated for part, size in sizes.items()},
    )
