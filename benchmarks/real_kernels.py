"""Kernels and copies of recorded runs, predicted from their operators' shapes and compared with their times.

usage: python benchmarks/real_kernels.py [DATA_ROOT] [traces | spreads] [others] [FAMILY ...]
DATA_ROOT is ../shared/data by default.

Each trace goes through ``ingest`` and ``predict --anchor none`` as anybody's would; with ``others`` through
``--anchor others``: each signature from those of other shapes in its run, its own shape left out. Counted are
signatures whose sizes the trace states: none whose size its own time had to tell, none priced at a family's
usual rate.
``traces`` prints a line for each trace too. ``spreads`` fits what a trace adds to the band of each law
(``traced.spread`` of ``hardware/priors.toml``) and says how much the bands hold of traces left out whole.
The pages of families say which laws had seen such runs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.api.ingest import ingest
from tracetool.core.arrays import Floats
from tracetool.core.errors import TracetoolError
from tracetool.hardware.load import load_gpu
from tracetool.model import traced
from tracetool.model.own_kernels import band_names
from tracetool.replay.predict import predict_run
from tracetool.replay.run_rows import run_rows
from tracetool.tables.run import Run

HERE = Path(__file__).resolve().parent.parent
#: Traces that name no GPU but state its warps on each of 80 SMs, at Volta's kernels: word of the file, GPU.
STATED_GPUS = {"resnet50": "v100-sxm2-16gb"}
FOLDERS = ("kineto", "nsys", "rocm")
#: Less than this is a step of the profiler's clock, or none of a kernel's own. [us]
LEAST_US = 1.5
#: Share of the rows that each side of a band leaves out. [1]
TAIL = 0.05


def trace_files(root: Path) -> Iterator[Path]:
    """Yield the traces of a folder, one file of each: a database rather than the report it is from."""
    by_name: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted((root / "traces" / folder).iterdir()):
            by_name[f"{folder} {path.stem if folder == 'nsys' else path.name}"] = path
    yield from by_name.values()


def compared(root: Path, *, from_others: bool = False) -> pl.DataFrame:
    """Return signatures of known sizes: measured and predicted time, its bounds, the name of its band.

    ``from_others`` predicts each from the measured signatures of other shapes in its run.
    """
    of_traces = []
    for path in trace_files(root):
        gpu = next((gpu for word, gpu in STATED_GPUS.items() if word in path.name), None)
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = Run.open(ingest([path], [], tz=None, gpu=gpu, out=Path(folder) / "run"))
                predicted = predict_run(run, gpu, anchor=False, from_others=from_others)
            except TracetoolError:
                continue
            bands = pl.DataFrame(
                _bands(run, predicted.gpu), schema={"signature": pl.Int64, "band": pl.String}
            )
        rows = predicted.signatures.filter((pl.col("inferred") == "") & (pl.col("basis") != "family rate"))
        rows = rows.with_columns(pl.col("signature").cast(pl.Int64)).join(bands, on="signature", how="left")
        of_traces.append(
            rows.select(
                pl.lit(path.name).alias("trace"),
                pl.lit(predicted.gpu).alias("gpu"),
                *("family", "name", "basis", "launches", "band", "duration_us"),
                *("duration_low_us", "duration_high_us"),
                pl.col("measured_duration_us").alias("measured_us"),
            )
        )
    every = pl.concat(of_traces)
    return every.filter(pl.col("measured_us").is_finite() & (pl.col("measured_us") >= LEAST_US))


def _bands(run: Run, gpu_name: str) -> dict[str, list[object]]:
    """Return the name of the band of each signature."""
    gpu = load_gpu(gpu_name)
    _, rows = run_rows(run, gpu)
    return {
        "signature": rows.number("signature").astype(np.int64).tolist(),
        "band": band_names(rows, gpu).tolist(),
    }


def summary(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return errors by groups: of the median row, of all time together, and how much the intervals hold."""
    ratio = pl.col("duration_us") / pl.col("measured_us")
    error, time = (ratio - 1.0).abs() * 100.0, pl.col("launches") * pl.col("measured_us") / 1e3
    inside = pl.col("measured_us").is_between("duration_low_us", "duration_high_us")
    return (
        rows.group_by(*by)
        .agg(
            pl.len().alias("rows"),
            pl.col("launches").sum(),
            time.sum().alias("ms"),
            ((ratio * time).sum() / time.sum()).alias("predicted/measured"),
            ratio.median().alias("median_ratio"),
            error.median().alias("mdape_pct"),
            ((error * time).sum() / time.sum()).alias("by_time_pct"),
            (inside.mean() * 100.0).alias("holds_rows_pct"),
            ((inside * pl.col("launches")).sum() / pl.col("launches").sum() * 100.0).alias(
                "holds_launches_pct"
            ),
            ((inside * time).sum() / time.sum() * 100.0).alias("holds_time_pct"),
        )
        .sort(*by)
    )


def _print(title: str, table: pl.DataFrame, names: int) -> None:
    heads = (
        "rows",
        "launches",
        "ms",
        "pred/meas",
        "median",
        "MdAPE",
        "by time",
        "holds rows",
        "launches",
        "time",
    )
    print(f"{title:52s} " + " ".join(f"{head:>10s}" for head in heads))
    for row in table.iter_rows():
        label = " ".join(str(word)[:44] for word in row[:names])
        rows, launches, ms, total, median, *percents = row[names:]
        shares = " ".join(f"{percent:9.1f}%" for percent in percents)
        print(f"{label:52s} {rows:10d} {launches:10d} {ms:10.2f} {total:10.2f} {median:10.2f} {shares}")


def fit_spreads(rows: pl.DataFrame) -> Mapping[str, tuple[float, float]]:
    """Return what each band needs beyond the rest of its rows' intervals, ln of a factor, low and high side.

    The bounds of ``rows`` are without it. A row whose error e exceeds its bound b needs the root of
    e^2 - b^2; a band takes the quantile that leaves out ``TAIL`` of its rows on either side.
    """
    spreads = {}
    for (band,), of_band in rows.group_by("band"):
        weights = _weights(of_band)
        sides = []
        for sign, bound in ((-1.0, "duration_low_us"), (1.0, "duration_high_us")):
            error = sign * np.log((of_band["measured_us"] / of_band["duration_us"]).to_numpy())
            held = sign * np.log((of_band[bound] / of_band["duration_us"]).to_numpy())
            needed = np.sqrt(np.maximum(np.maximum(error, 0.0) ** 2 - held**2, 0.0))
            order = np.argsort(needed)
            share = np.cumsum(weights[order]) / weights.sum()
            sides.append(float(needed[order][min(np.searchsorted(share, 1.0 - TAIL), len(order) - 1)]))
        spreads[str(band)] = (sides[0], sides[1])
    return spreads


def _weights(rows: pl.DataFrame) -> Floats:
    """Return weights: a trace counts as the root of its rows, by rows, launches and time alike. (n,)"""
    time = pl.col("launches") * pl.col("measured_us")
    shares = (pl.col("launches") / pl.col("launches").sum() + time / time.sum() + 1.0 / pl.len()) / 3.0
    return rows.select((shares * pl.len().sqrt()).over("trace"))[:, 0].to_numpy()


def with_spreads(rows: pl.DataFrame, spreads: Mapping[str, tuple[float, float]]) -> pl.DataFrame:
    """Return rows, whose bounds are without them, with the spreads of their bands in their bounds."""
    every = [spreads.get(band, (0.0, 0.0)) for band in rows["band"].to_list()]
    less, more = np.array(every).T
    duration = rows["duration_us"].to_numpy()
    low = np.log(rows["duration_low_us"].to_numpy() / duration)
    high = np.log(rows["duration_high_us"].to_numpy() / duration)
    return rows.with_columns(
        pl.Series("duration_low_us", duration * np.exp(-np.hypot(low, less))),
        pl.Series("duration_high_us", duration * np.exp(np.hypot(high, more))),
    )


def _print_spreads(root: Path) -> None:
    """Print the spreads fitted to all traces, and what those fitted without a trace hold of it."""
    traced.TRACE_SPREAD = dict.fromkeys(traced.TRACE_SPREAD, (0.0, 0.0))  # type: ignore[misc]
    rows = compared(root)
    for band, (less, more) in sorted(fit_spreads(rows).items()):
        count, traces = (
            rows.filter(pl.col("band") == band).select(pl.len(), pl.col("trace").n_unique()).row(0)
        )
        print(f'"{band}" = [{less:.2f}, {more:.2f}]  # {count} signatures of {traces} traces')
    left_out = pl.concat(
        with_spreads(one, fit_spreads(rows.filter(pl.col("trace") != trace)))
        for (trace,), one in rows.group_by("trace", maintain_order=True)
    )
    _print("traces left out whole", summary(left_out, "family"), 1)
    _print("", summary(left_out.with_columns(pl.lit("all").alias("all")), "all"), 1)


def main() -> None:
    arguments = sys.argv[1:]
    named = bool(arguments) and Path(arguments[0]).is_dir()
    root = Path(arguments.pop(0)) if named else HERE.parent / "shared" / "data"
    if "spreads" in arguments:
        _print_spreads(root)
        return
    rows = compared(root, from_others="others" in arguments)
    families = [word for word in arguments if word not in {"traces", "others"}]
    if families:
        rows = rows.filter(pl.col("family").is_in(families))
    if not rows.height:
        print("no kernel of known sizes")
        return
    _print("family", summary(rows, "family"), 1)
    _print("", summary(rows.with_columns(pl.lit("all").alias("all")), "all"), 1)
    _print("family and GPU", summary(rows, "family", "gpu"), 2)
    if "traces" in arguments:
        _print("family, GPU and trace", summary(rows, "family", "gpu", "trace"), 3)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
