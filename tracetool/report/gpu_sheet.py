"""What is known of GPUs: the list, and one of them with its voltage and idle curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracetool.hardware.architecture import Architecture, load_architecture
from tracetool.hardware.calibrated import own_calibration
from tracetool.hardware.gpu import PIPES, Gpu
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.model.idle import core_voltage_v, idle_power_w
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of, power_promise

#: Points of a curve that are shown.
_POINTS = 24
_NUMBER_COLUMNS = {
    "number": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "kind": pl.String,
    "source": pl.String,
    "note": pl.String,
}


@dataclass(frozen=True)
class GpuSheet:
    """One GPU: its numbers with evidence, and its curves over the supported clocks."""

    gpu: Gpu
    architecture: Architecture
    numbers: pl.DataFrame
    curves: pl.DataFrame
    power: PowerCalibration | None
    notes: tuple[str, ...]


def list_gpus() -> pl.DataFrame:
    """Return one row per GPU: name, title, SMs, clocks, memory, limit, and what power figures rest on."""
    rows = []
    for name in gpu_names():
        gpu = load_gpu(name, part="sensor")
        known = gpu.scope == "model"
        rows.append(
            {
                "name": name,
                "title": gpu.title,
                "architecture": gpu.architecture,
                "sm_count": gpu.sm_count if known else None,
                "clock_max_mhz": gpu.clock_max_mhz if known else None,
                "memory": gpu.memory_type or None,
                "dram_gb_per_s": gpu.dram_bytes_per_s / 1e9 if known else None,
                "power_limit_w": gpu.power_limit_w if known else None,
                "sensor": gpu.sensor().kind,
                "voltage": ("measured" if gpu.voltage.measured else "prior") if known else None,
                "power": power_calibration_of(gpu).basis if known else None,
                "calibrated": own_calibration(name, "power") is not None,
            }
        )
    return pl.DataFrame(rows)


def show_gpu(name: str) -> GpuSheet:
    """Return everything known of one GPU.

    Raises
    ------
    BadInput
        If no GPU is called so.
    """
    gpu = load_gpu(name, part="sensor")
    architecture = load_architecture(gpu.architecture)
    numbers = pl.DataFrame(
        [
            {
                "number": key,
                "value": n.value,
                "unit": n.unit,
                "low": None if np.isnan(n.low) else n.low,
                "high": None if np.isnan(n.high) else n.high,
                "kind": n.kind,
                "source": n.source,
                "note": n.note,
            }
            for key, n in gpu.numbers.items()
        ],
        schema=_NUMBER_COLUMNS,
    )
    if gpu.scope != "model":
        return GpuSheet(gpu, architecture, numbers, pl.DataFrame(), None, ("known only by its power sensor",))
    power = power_calibration_of(gpu)
    clocks = gpu.supported_clocks_mhz()
    picked = np.unique(np.linspace(0, len(clocks) - 1, min(_POINTS, len(clocks))).round().astype(int))
    shown = clocks[picked]
    curves = pl.DataFrame(
        {
            "clock_mhz": shown,
            "voltage_v": core_voltage_v(gpu, shown, power),
            "idle_w": idle_power_w(gpu, shown, power),
        }
    )
    curve = power.voltage or gpu.voltage
    evidence = "measured or fitted" if curve.measured else "a prior from neighboring families"
    notes = (f"voltage: {evidence}", power_promise(power))
    return GpuSheet(gpu, architecture, numbers, curves, power, notes)


def peaks(gpu: Gpu) -> pl.DataFrame:
    """Return the peak rate of every pipe at the boost clock: units x rate x clock. [TFLOP/s]"""
    found = [p for p in PIPES if gpu.flops_per_clock_sm.get(p, 0.0) > 0]
    return pl.DataFrame(
        {
            "pipe": found,
            "per_clock_sm": [gpu.flops_per_clock_sm[p] for p in found],
            "peak_tera_per_s": [float(gpu.peak_flops(p, gpu.clock_boost_mhz)) / 1e12 for p in found],
        }
    )
