"""Run folders on disk that differ in a known way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tracetool.tables.run import Run, write_run
from tracetool.tables.schema import load_schema

SHAPES = {"gemm": (4096, 4096, 4096), "gemv": (1, 4096, 4096)}


def write_folder(
    path: Path,
    *,
    slower: float = 1.0,
    extra: int = 0,
    steps: int = 6,
    seed: int = 0,
    gpu: str = "a100-sxm",
    outside: int = 0,
) -> Path:
    """Write a run of matrix products and additions, step by step; ``slower`` stretches the products.

    The last ``outside`` of the steps are not named as such.
    """
    rng = np.random.default_rng(seed)
    names = [
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "vectorized_elementwise_kernel<4, add>",
    ]
    step = [0, 1, 0, 1] + [1] * extra
    of = np.array(step * steps)
    length = np.where(of == 0, 600_000 * slower, 140_000) * rng.normal(1.0, 0.002, of.size)
    start = np.cumsum(length + 5_000) - length
    kernels = pl.DataFrame(
        {
            "start_ns": start.astype(np.int64),
            "duration_ns": length.astype(np.int64),
            "launch_ns": start.astype(np.int64) - 2_000,
            "device": np.zeros(of.size, np.int32),
            "kind": ["kernel"] * of.size,
            "name": [names[i] for i in of],
            "range": np.arange(of.size) // len(step),
            "signature": of,
        }
    )
    table = kernels.group_by("signature").agg(
        pl.col("name").first(), pl.col("kind").first(), pl.len().alias("launches"),
        pl.col("duration_ns").sum(), pl.col("duration_ns").median().alias("duration_median_ns"),
    ).sort("signature").with_columns(
        pl.Series("operator_name", ["aten::mm", "aten::add"]),
        pl.Series("input_dims", ["[[4096, 4096], [4096, 4096]]", "[[8192, 4096], [8192, 4096]]"]),
        pl.Series("input_types", ['["c10::BFloat16", "c10::BFloat16"]'] * 2),
        pl.Series("device_name", ["NVIDIA A100-SXM4-80GB"] * 2),
        *(pl.lit(v).alias(c) for c, v in (("grid_x", 1024), ("grid_y", 1), ("grid_z", 1))),
        *(pl.lit(v, dtype=pl.Int32).alias(c) for c, v in (("block_x", 256), ("block_y", 1), ("block_z", 1))),
    )  # fmt: skip
    ranges = pl.DataFrame(
        {"range": range(steps),
         "name": [f"ProfilerStep#{i + 3}" if i < steps - outside else "evaluation" for i in range(steps)],
         "start_ns": start[:: len(step)].astype(np.int64) - 2_500,
         "duration_ns": length.reshape(steps, -1).sum(axis=1).astype(np.int64), "depth": [0] * steps}
    )  # fmt: skip
    devices = pl.DataFrame(
        {"device": [0], "name": ["NVIDIA A100-SXM4-80GB"], "gpu": [gpu], "vendor": ["nvidia"]}
    )
    tables = {"kernels": kernels, "signatures": table, "ranges": ranges, "devices": devices}
    return write_run(path, tables, {"sources": [], "warnings": [], "clock": {"domain": "session"}})


def write_pairs(path: Path) -> tuple[Run, pl.DataFrame]:
    """Write a run in which every kernel has another beside it; return it and an ``energy`` table of it.

    That gives each signature 1 J, and each kernel half of its time, as attribution does.
    """
    alone = Run.open(write_folder(path.with_name("alone.tracetool")))
    kernels = alone.kernels.with_columns(pl.col("start_ns", "duration_ns") // 2 * 2)
    pairs = pl.concat([kernels, kernels]).sort("start_ns")
    sums = pairs.group_by("signature", maintain_order=True).agg(
        pl.col("duration_ns").sum(), pl.len().alias("launches")
    )
    signatures = alone.signatures.drop("duration_ns", "launches").join(sums, on="signature")
    tables = {"kernels": pairs, "signatures": signatures, "devices": alone.devices}
    run = Run.open(write_run(path, tables, {"sources": [], "warnings": [], "clock": {"domain": "session"}}))
    given = {"device": 0, "energy_j": 1.0, "energy_low_j": 0.9, "energy_high_j": 1.1, "coverage": 1.0}
    columns = {"class": "", "prior_share": 0.0, "identified": True, **given}
    halves = sums.with_columns(pl.col("duration_ns") // 2, *(pl.lit(v).alias(c) for c, v in columns.items()))
    return run, load_schema("energy").conform(halves)


def write_runs(folder: Path, count: int, **changed: float) -> list[Path]:
    """Write several runs of the same code."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_folder(folder / f"run-{i}.tracetool", seed=i + 10 * len(changed), **changed)  # type: ignore[arg-type]
        for i in range(count)
    ]
