"""Runs of a real trace with one family's kernels made slower or faster, and the jitter of repeated runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tracetool.replay.predict import predict_run
from tracetool.tables.run import Run, write_run

#: Run-to-run offset of every family, and what single launches add to it. [1]
BETWEEN, WITHIN = 0.004, 0.01
#: GPU of traces that name none; what is compared is time.
DEFAULT_GPU = "h100-sxm"


def families_of(run: Path) -> dict[int, str]:
    """Return the family of each signature of a run."""
    opened = Run.open(run)
    named = opened.devices["gpu"].drop_nulls().len()
    rows = predict_run(opened, None if named else DEFAULT_GPU).signatures
    return dict(rows.select("signature", "family").unique().iter_rows())


def write_planted(
    run: Path, out: Path, families: dict[int, str], family: str, factor: float, seed: int | None
) -> Path:
    """Write the run with one family's durations times ``factor``; ``seed`` draws a repeated run's jitter.

    Later starts move by what the kernels before them on their device took longer.
    """
    opened = Run.open(run)
    kernels = opened.kernels.sort("device", "start_ns")
    of = kernels.select(pl.col("signature").replace_strict(families, default="")).to_series()
    scale = np.where((of == family).to_numpy(), factor, 1.0)
    if seed is not None:
        rng = np.random.default_rng(seed)
        names = sorted({*families.values(), ""})
        offset = dict(zip(names, np.exp(rng.normal(0, BETWEEN, len(names))), strict=True))
        scale = scale * of.replace_strict(offset).to_numpy() * np.exp(rng.normal(0, WITHIN, len(scale)))
    before = kernels["duration_ns"].to_numpy()
    after = np.maximum(before * scale, 1).astype(np.int64)
    shift = (
        kernels.select("device", pl.Series("more", after - before))
        .select((pl.col("more").cum_sum() - pl.col("more")).over("device"))
        .to_series()
    )
    kernels = kernels.with_columns(pl.Series("duration_ns", after), pl.col("start_ns") + shift)
    sums = kernels.group_by("signature").agg(
        pl.col("duration_ns").sum(), pl.col("duration_ns").median().alias("duration_median_ns")
    )
    signatures = opened.signatures.drop("duration_ns", "duration_median_ns").join(sums, on="signature")
    tables = {p.stem: opened.table(p.stem) for p in run.glob("*.parquet")}
    return write_run(
        out,
        tables | {"kernels": kernels, "signatures": signatures},
        {k: v for k, v in opened.info.items() if k not in ("schema", "tool_version", "tables")},
    )
