"""Columns of measurements, monitors and profilers under the names a calibration reads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

#: A data-center monitor's fields, as its exporter and as its command line name them: our column, and what a
#: value is multiplied by.
_MONITOR: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "DCGM_FI_PROF_SM_ACTIVE": ("act_sm", 1.0), "SMACT": ("act_sm", 1.0),
        "DCGM_FI_PROF_SM_OCCUPANCY": ("act_occupancy", 1.0), "SMOCC": ("act_occupancy", 1.0),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("act_tensor", 1.0), "TENSO": ("act_tensor", 1.0),
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("act_fp64", 1.0), "FP64A": ("act_fp64", 1.0),
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("act_fp32", 1.0), "FP32A": ("act_fp32", 1.0),
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("act_fp16", 1.0), "FP16A": ("act_fp16", 1.0),
        "DCGM_FI_PROF_DRAM_ACTIVE": ("act_dram", 1.0), "DRAMA": ("act_dram", 1.0),
        "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0), "POWER": ("power_w", 1.0),
        "DCGM_FI_DEV_SM_CLOCK": ("clock_mhz", 1.0), "SMCLK": ("clock_mhz", 1.0),
        "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", 1.0), "MMCLK": ("mem_clock_mhz", 1.0),
    }
)  # fmt: skip
_ACTIVE: Final = "avg.pct_of_peak_sustained_active"
_ELAPSED: Final = "avg.pct_of_peak_sustained_elapsed"
#: Nsight Compute's metrics, in base units (``ncu --csv --page raw --print-units base``).
_PROFILER: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "Kernel Name": ("kernel", 0.0),
        "gpu__time_duration.sum": ("duration_us", 1e-3),
        "sm__cycles_elapsed.avg.per_second": ("clock_mhz", 1e-6),
        f"dram__throughput.{_ELAPSED}": ("util_dram", 0.01),
        f"lts__throughput.{_ELAPSED}": ("util_l2", 0.01),
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_ELAPSED}": ("util_shared", 0.01),
        f"sm__pipe_tensor_cycles_active.{_ACTIVE}": ("util_tensor", 0.01),
        f"sm__inst_executed_pipe_tensor.{_ACTIVE}": ("util_tensor", 0.01),
        f"sm__pipe_fma_cycles_active.{_ACTIVE}": ("util_fp32", 0.01),
        f"sm__pipe_fp64_cycles_active.{_ACTIVE}": ("util_fp64", 0.01),
        f"sm__pipe_alu_cycles_active.{_ACTIVE}": ("util_int", 0.01),
        f"sm__inst_executed_pipe_xu.{_ACTIVE}": ("util_sfu", 0.01),
        f"sm__cycles_active.{_ELAPSED}": ("util_sm_active", 0.01),
    }
)

#: What a profiler's row of units makes of a value, over the base unit, where it is no base unit.
_SCALED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
        "khz": 1e3, "mhz": 1e6, "ghz": 1e9, "cycle/usecond": 1e6, "cycle/nsecond": 1e9,
        "cycle/us": 1e6, "cycle/ns": 1e9,
    }
)  # fmt: skip

#: Spellings of what was measured, ours first.
DURATIONS = ("duration_us", "measured_us", "time_us")
_OTHER_TIMES = {"time_s": 1e6, "duration_s": 1e6, "time_ms": 1e3, "duration_ms": 1e3}
POWERS = ("power_w", "measured_w", "average_power_w")
_ITERATIONS = ("iterations", "num_iters", "num-iters", "repeats")


def with_counter_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the fields of DCGM and the metrics of Nsight Compute under our names.

    Columns already there under our name win. Values that are no numbers, as in the first row's units, become
    null; units above the base one are converted. A monitor's log that names no kernel is one group.

    Examples
    --------
    >>> with_counter_names(pl.DataFrame({"SMACT": [0.9], "POWER": [250]})).columns
    ['act_sm', 'power_w', 'kernel']
    """
    added: dict[str, pl.Expr] = {}
    for vendor_name, (our_name, factor) in (*_MONITOR.items(), *_PROFILER.items()):
        if vendor_name not in frame.columns or our_name in frame.columns or our_name in added:
            continue
        text = pl.col(vendor_name)
        scale = factor * _SCALED.get(str(frame[vendor_name].first()).lower(), 1.0)
        added[our_name] = (text.cast(pl.Float64, strict=False) * scale if factor else text).alias(our_name)
    if "act_sm" in added and not {"kernel", "op"} & {*frame.columns, *added}:
        added["kernel"] = pl.lit("(all samples)").alias("kernel")
    renamed_fields = [c for c in frame.columns if c in _MONITOR or c in _PROFILER]
    return frame.with_columns(*added.values()).drop(renamed_fields) if renamed_fields else frame


def with_our_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with its measured columns under our names, times in microseconds."""
    for ours, spellings in (("duration_us", DURATIONS), ("power_w", POWERS), ("iterations", _ITERATIONS)):
        spelling = next((s for s in spellings if s in frame.columns), None)
        if spelling is not None and ours not in frame.columns:
            frame = frame.rename({spelling: ours})
    spelling = next((s for s in _OTHER_TIMES if s in frame.columns), None)
    if spelling is not None and "duration_us" not in frame.columns:
        time = pl.col(spelling).cast(pl.Float64, strict=False) * _OTHER_TIMES[spelling]
        frame = frame.with_columns(time.alias("duration_us"))
    if "power_w" not in frame.columns and {"energy_j", "duration_us"} <= set(frame.columns):
        power = pl.col("energy_j").cast(pl.Float64, strict=False) / (pl.col("duration_us") * 1e-6)
        frame = frame.with_columns(power.alias("power_w"))
    return frame
