"""Data of GPUs: the list, and one of them with its voltage and idle curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.hardware.architecture import Architecture, load_architecture
from tracetool.hardware.coefficient_files import own_calibration
from tracetool.hardware.gpu import PIPES, Gpu
from tracetool.hardware.listing import ListedGpu, read_listed
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.hardware.number import Number
from tracetool.hardware.sensors import sensor_of
from tracetool.model.idle import core_voltage_v, idle_power_w
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_basis, power_calibration_of, power_promise

#: Stands for the basis of power figures of a GPU whose clocks and rates no file states.
SENSOR_ONLY: Final = "sensor only"
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
    return pl.DataFrame([_listed_row(read_listed(name)) for name in gpu_names()])


def _listed_row(gpu: ListedGpu) -> dict[str, str | float | bool | None]:
    complete = bool(gpu.numbers)
    sm_count, dram_bytes_per_s = gpu.value("sm_count"), gpu.value("dram_bytes_per_s")
    return {
        "name": gpu.name,
        "title": gpu.title,
        "architecture": gpu.architecture,
        "sm_count": None if sm_count is None else int(sm_count),
        "clock_max_mhz": gpu.value("clock_max_mhz"),
        "memory": gpu.memory_type or None,
        "dram_gb_per_s": None if dram_bytes_per_s is None else dram_bytes_per_s / 1e9,
        "power_limit_w": gpu.value("power_limit_w"),
        "sensor": sensor_of(gpu.architecture).kind,
        "voltage": _evidence(gpu.numbers["knee_mhz"]) if complete else None,
        "power": power_basis(gpu.name, gpu.vendor) if complete else SENSOR_ONLY,
        "calibrated": own_calibration(gpu.name, "power") is not None,
    }


def _evidence(number: Number) -> str:
    return "measured" if number.kind in ("measured", "fitted") else "prior"


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
    """Return the peak rate of every pipe at the rated boost clock: units x rate x clock. [TFLOP/s]"""
    pipes = [p for p in PIPES if gpu.flops_per_clock_sm.get(p, 0.0) > 0]
    return pl.DataFrame(
        {
            "pipe": pipes,
            "per_clock_sm": [gpu.flops_per_clock_sm[p] for p in pipes],
            "peak_tera_per_s": [float(gpu.peak_flops(p, gpu.clock_rated_mhz)) / 1e12 for p in pipes],
        }
    )
