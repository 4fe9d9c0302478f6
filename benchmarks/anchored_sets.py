"""Programs and kernels measured over clocks and power caps: what anchored predictions are held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

#: What a monitor or a compiler says of a row; the set without it is the same table with names alone.
_ACTIVITY: Final = ("act_sm", "act_dram", "act_tensor", "act_fp16", "act_fp32", "act_fp64", "act_occupancy")


@dataclass(frozen=True)
class ClockSet:
    """Programs or kernels measured at several core clocks.

    ``rows`` holds ``kernel``, ``clock_mhz``, ``duration_us``, ``power_w`` and what else the tool reads of
    them, one row per kernel and clock; ``anchors`` are the clocks to predict from. [MHz]
    """

    name: str
    gpu: str
    rows: pl.DataFrame
    anchors: tuple[float, ...]
    pair: tuple[float, float]


@dataclass(frozen=True)
class CapSet:
    """Programs measured at several power caps; the anchor is the highest clock under the highest cap."""

    name: str
    gpu: str
    rows: pl.DataFrame
    top_mhz: float


def _rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per kernel and clock: the median of its readings."""
    if "power_w" not in frame.columns:
        frame = frame.with_columns(power_w=pl.col("energy_j") / pl.col("time_s"))
    frame = frame.with_columns(duration_us=pl.col("time_s") * 1e6).rename(
        {"occupancy": "act_occupancy"}, strict=False
    )
    measured = ("duration_us", "power_w", "mem_clock_mhz", "temperature_c", *_ACTIVITY)
    wanted = [c for c in measured if c in frame.columns]
    wanted += [c for c in frame.columns if c.startswith("mix_")]
    key = [pl.col("kernel"), pl.col("clock_mhz").cast(pl.Float64)]
    grouped = frame.filter((pl.col("time_s") > 0) & (pl.col("power_w") > 0)).group_by(key)
    return grouped.agg(pl.col(c).median() for c in wanted).sort("kernel", "clock_mhz")


def _without_activity(of: ClockSet) -> ClockSet:
    kept = [c for c in of.rows.columns if not c.startswith(("act_", "mix_"))]
    return ClockSet(f"{of.name}, names alone", of.gpu, of.rows.select(kept), of.anchors, of.pair)


def _a100_programs(root: Path) -> ClockSet:
    rows = _rows(pl.read_parquet(root / "dvfs/a100_programs_activity.parquet"))
    return ClockSet("A100 programs", "a100-sxm", rows, (1410.0, 1110.0, 810.0, 510.0), (705.0, 1245.0))


def _v100(root: Path, stem: str, name: str) -> ClockSet:
    rows = _rows(pl.read_parquet(root / f"dvfs/{stem}.parquet"))
    clocks = sorted(rows["clock_mhz"].unique())
    middle = clocks[len(clocks) // 2]
    return ClockSet(name, "v100-pcie", rows, (clocks[-1], middle, clocks[0]), (clocks[1], clocks[-2]))


def v100_mix(root: Path, every: int = 4) -> ClockSet:
    """Return eight kernels on a V100 at every so-many-th of 137 clocks."""
    frame = pl.read_parquet(root / "dvfs/v100_kernels.parquet")
    mix = ("mem_gl", "mem_loc", "int_add", "int_mul", "int_div", "int_bw", "flt_add", "flt_mul", "flt_div")
    frame = frame.rename({c: f"mix_{c}" for c in (*mix, "sp_fun")})
    rows = _rows(frame.filter(pl.col("clock_mhz") >= 510))
    rows = rows.filter(pl.col("clock_mhz").is_in(sorted(rows["clock_mhz"].unique())[::every]))
    clocks = sorted(rows["clock_mhz"].unique())
    middle = clocks[len(clocks) // 2]
    return ClockSet(
        "V100 kernels with a mix", "v100-sxm2-16gb", rows, (clocks[-1], middle), (clocks[8], clocks[-8])
    )


def _gtx(root: Path) -> ClockSet:
    frame = pl.read_parquet(root / "dvfs/gtx1080ti_two_domains.parquet").filter(
        pl.col("mem_clock_mhz") == 5000
    )
    clocks = sorted(float(c) for c in frame["clock_mhz"].unique())
    return ClockSet(
        "GTX 1080 Ti kernels", "gtx-1080-ti", _rows(frame), (clocks[-1], clocks[0]), (clocks[0], clocks[-1])
    )


def laptop_kernels(root: Path) -> ClockSet:
    """Return the laptop's kernels at the clocks it reached."""
    frame = pl.read_parquet(root / "dvfs/rtx4050_laptop_kernels.parquet")
    # The clock asked for above what the GPU reaches is no clock of its own: all of those are one point.
    real = (pl.col("real_clock") / 45.0).round() * 45.0
    rows = _rows(frame.filter(pl.col("real_clock") > 500).with_columns(clock_mhz=real))
    counts = rows.group_by("clock_mhz").len().filter(pl.col("len") > 20)["clock_mhz"].sort().to_list()
    rows = rows.filter(pl.col("clock_mhz").is_in(counts))
    low, high = counts[len(counts) // 4], counts[-2]
    return ClockSet(
        "laptop kernels", "rtx-4050-laptop", rows, (counts[-1], counts[len(counts) // 2]), (low, high)
    )


def _ada_gemms(root: Path) -> ClockSet:
    frame = pl.read_parquet(root / "dvfs/rtx4000ada_gemm_variants_metered.parquet")
    frame = frame.with_columns(
        kernel=pl.lit("cgemm_fp16_") + pl.col("variant"),
        time_s=pl.col("time_ms") * 1e-3,
        power_w=pl.col("meter_power_w"),
    )
    clocks = sorted(float(c) for c in frame["clock_mhz"].unique())
    return ClockSet(
        "RTX 4000 Ada GEMM variants",
        "rtx-4000-ada",
        _rows(frame),
        (clocks[-1], clocks[4]),
        (clocks[1], clocks[-2]),
    )


def clock_sets(root: Path) -> list[ClockSet]:
    """Return the sets over clocks that lie under a data root."""
    programs = _a100_programs(root)
    applications = _v100(root, "v100_applications_activity", "V100 applications")
    micro = _v100(root, "v100_microbenchmarks_activity", "V100 microbenchmarks")
    return [
        programs,
        _without_activity(programs),
        applications,
        _without_activity(applications),
        micro,
        v100_mix(root),
        _gtx(root),
        laptop_kernels(root),
        _ada_gemms(root),
    ]


def _caps(frame: pl.DataFrame) -> pl.DataFrame:
    frame = frame.filter((pl.col("time_s") > 0) & (pl.col("power_w") > 0)).with_columns(
        pl.col("cap_w").cast(pl.Float64),
        pl.col("clock_mhz").cast(pl.Float64),
        duration_us=pl.col("time_s") * 1e6,
    )
    key = ["kernel", "clock_mhz", "cap_w"]
    return frame.group_by(key).agg(pl.col("duration_us", "power_w").median()).sort(key)


def cap_sets(root: Path) -> list[CapSet]:
    """Return the sets over power caps that lie under a data root."""
    altis = pl.read_parquet(root / "dvfs/a100_altis_caps.parquet").filter(pl.col("kind") == "single_cap/gpu")
    training = pl.read_parquet(root / "dvfs/v100_training_caps.parquet")
    both = pl.read_parquet(root / "dvfs/a100_80gb_clock_and_cap.parquet")
    at: Callable[[float], pl.Expr] = lambda mhz: pl.lit(mhz).alias("clock_mhz")  # noqa: E731
    return [
        CapSet("A100 programs under caps", "a100-pcie-40gb", _caps(altis.with_columns(at(1410.0))), 1410.0),
        CapSet("V100 training under caps", "v100-pcie", _caps(training.with_columns(at(1380.0))), 1380.0),
        CapSet("A100 80 GB, clocks and caps", "a100-pcie-80gb", _caps(both), 1410.0),
    ]
