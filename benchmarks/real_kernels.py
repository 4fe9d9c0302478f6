"""Kernels and copies of recorded runs, predicted from their operators' shapes and compared with their times.

usage: python benchmarks/real_kernels.py [DATA_ROOT] [traces] [FAMILY ...]      default: ../shared/data

Each trace goes through ``ingest`` and ``predict --anchor none`` as anybody's would. Counted are signatures
whose sizes the trace states: none whose size its own time had to tell, none priced at a family's usual rate.
``traces`` prints a line for each trace too. The pages of families say which laws had seen such runs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.replay.predict import predict_run
from tracetool.tables.run import Run

HERE = Path(__file__).resolve().parent.parent
#: Traces that name no GPU but tell it: these state their warps on each of 80 SMs, at Volta's kernels.
TOLD = {"resnet50": "v100-sxm2-16gb"}
FOLDERS = ("kineto", "nsys", "rocm")
#: Less than this is a step of the profiler's clock, or none of a kernel's own. [us]
LEAST_US = 1.5


def trace_files(root: Path) -> Iterator[Path]:
    """Yield the traces of a folder, one file of each: a database rather than the report it is from."""
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted((root / "traces" / folder).iterdir()):
            found[f"{folder} {path.stem if folder == 'nsys' else path.name}"] = path
    yield from found.values()


def compared(root: Path) -> pl.DataFrame:
    """Return signatures of known sizes: ``trace``, ``gpu``, ``measured_us``, ``duration_us``, its bounds."""
    made = []
    for path in trace_files(root):
        told = next((gpu for word, gpu in TOLD.items() if word in path.name), None)
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = Run.open(ingest([path], [], tz=None, gpu=told, out=Path(folder) / "run"))
                found = predict_run(run, told, anchor=False)
            except TracetoolError:
                continue
        rows = found.signatures.filter((pl.col("inferred") == "") & (pl.col("basis") != "family rate"))
        made.append(
            rows.select(
                pl.lit(path.name).alias("trace"),
                pl.lit(found.gpu).alias("gpu"),
                "family",
                "name",
                "basis",
                "launches",
                pl.col("measured_duration_us").alias("measured_us"),
                "duration_us",
                "duration_low_us",
                "duration_high_us",
            )
        )
    every = pl.concat(made)
    return every.filter(pl.col("measured_us").is_finite() & (pl.col("measured_us") >= LEAST_US))


def summary(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return errors by groups: of the mean row, and weighted by the time the rows took."""
    ratio = pl.col("duration_us") / pl.col("measured_us")
    off, time = (ratio - 1.0).abs() * 100.0, pl.col("launches") * pl.col("measured_us") / 1e3
    inside = pl.col("measured_us").is_between("duration_low_us", "duration_high_us")
    return (
        rows.group_by(*by)
        .agg(
            pl.len().alias("rows"),
            time.sum().alias("ms"),
            ratio.median().alias("predicted/measured"),
            off.mean().alias("mape_pct"),
            off.median().alias("mdape_pct"),
            ((off * time).sum() / time.sum()).alias("by_time_pct"),
            (inside.mean() * 100.0).alias("interval_holds_pct"),
        )
        .sort(*by)
    )


def _print(title: str, table: pl.DataFrame, names: int) -> None:
    print(title)
    heads = f"{'rows':>6} {'ms':>9} {'pred/meas':>9} {'MAPE':>7} {'MdAPE':>7} {'by time':>8} {'holds':>7}"
    print(f"{'':60s} {heads}")
    for row in table.iter_rows():
        said = " ".join(str(word)[:44] for word in row[:names])
        rows, ms, ratio, mape, mdape, weighted, holds = row[names:]
        numbers = (
            f"{rows:6d} {ms:9.2f} {ratio:9.2f} {mape:6.1f}% {mdape:6.1f}% {weighted:7.1f}% {holds:6.1f}%"
        )
        print(f"{said:60s} {numbers}")


def main() -> None:
    asked = sys.argv[1:]
    root = Path(asked.pop(0)) if asked and Path(asked[0]).is_dir() else HERE.parent / "shared" / "data"
    rows = compared(root)
    families = [word for word in asked if word != "traces"]
    if families:
        rows = rows.filter(pl.col("family").is_in(families))
    if not rows.height:
        print("no kernel of known sizes")
        return
    _print("family", summary(rows, "family"), 1)
    _print("family and GPU", summary(rows, "family", "gpu"), 2)
    if "traces" in asked:
        _print("family, GPU and trace", summary(rows, "family", "gpu", "trace"), 3)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
