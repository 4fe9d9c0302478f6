"""Metrics of exporters of GPUs, by their names."""

from __future__ import annotations

#: Metric to (column, factor to its unit).
METRICS: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_POWER_USAGE": ("#power", 1.0), "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("#instant", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", 1e-3), "DCGM_FI_DEV_SM_CLOCK": ("clock_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", 1.0), "DCGM_FI_DEV_GPU_TEMP": ("temperature_c", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("utilization", 0.01), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("utilization", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("utilization", 1.0), "nvidia_smi_power_draw_watts": ("#power", 1.0),
    "gpu_power_usage": ("#power", 1.0), "gpu_package_power": ("#power", 1.0),
    "gpu_average_package_power": ("#power", 1.0),
    "gpu_energy_consumed": ("energy_j", 1e-6), "gpu_clock": ("clock_mhz", 1.0),
}  # fmt: skip

#: Fields of DCGM's power by our columns, and what kind of reading each is; None is the sensor's own mean.
DCGM_POWERS = {"#power": "DCGM_FI_DEV_POWER_USAGE", "#instant": "DCGM_FI_DEV_POWER_USAGE_INSTANT"}
DCGM_KINDS: dict[str, str | None] = {
    "DCGM_FI_DEV_POWER_USAGE": None, "DCGM_FI_DEV_POWER_USAGE_INSTANT": "instant",
}  # fmt: skip
