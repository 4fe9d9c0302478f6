"""Kernels and copies of recorded runs, predicted from their operators' shapes and compared with their times.

usage: python benchmarks/real_kernels.py [DATA_ROOT] [traces | spreads] [others] [FAMILY ...]
DATA_ROOT is ../shared/data by default.

Each trace goes through ``ingest`` and ``predict --anchor none`` as anybody's would; with ``others`` through
``--anchor others``: each signature from those of other shapes in its run, its own shape left out. Counted are
signatures whose sizes the trace states: none whose size its own time had to tell, none priced at a family's
usual rate, no collective whose other ranks are in no trace: what it waited for them is in its time.
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
from tracetool.model import profiler_overhead
from tracetool.model.own_kernels import band_names
from tracetool.replay.predict import predict_run
from tracetool.replay.run_rows import run_rows
from tracetool.tables.run import Run

HERE = Path(__file__).resolve().parent.parent
#: Traces that name no GPU but state its warps on each of 80 SMs, at Volta's kernels: word of the file, GPU.
STATED_GPUS = {"resnet50": "v100-sxm2-16gb"}
#: Traces that are no measurements of their kernels, left out of fits: their times are made by hand, or each
#: kernel begins where the one before ends.
UNMEASURED = ("op_params_test", "event_replay")
FOLDERS = ("kineto", "nsys", "rocm")
#: Less than this is a step of the profiler's clock, or none of a kernel's own. [us]
LEAST_US = 1.5
#: Share of the rows that each side of a band leaves out. [1]
TAIL = 0.05
#: What a side of a band may add in time: tried. [us]
START_US = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: What a band needs beyond the rest: ln of a factor and time on the low side, then on the high one. [1], [us]
Spread = tuple[float, float, float, float]


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
                _bands(run, predicted.gpu),
                schema={"signature": pl.Int64, "band": pl.String, "waits": pl.Boolean},
            )
        rows = predicted.signatures.filter((pl.col("inferred") == "") & (pl.col("basis") != "family rate"))
        rows = rows.with_columns(pl.col("signature").cast(pl.Int64)).join(bands, on="signature", how="left")
        of_traces.append(
            rows.filter(~pl.col("waits")).select(
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
    """Return the name of the band of each signature, and whether it waited for ranks that are not there."""
    gpu = load_gpu(gpu_name)
    _, rows = run_rows(run, gpu)
    return {
        "signature": rows.number("signature").astype(np.int64).tolist(),
        "band": band_names(rows, gpu).tolist(),
        "waits": (rows.number("keeps_waits", 0.0) > 0).tolist(),
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


def fit_spreads(rows: pl.DataFrame) -> Mapping[str, Spread]:
    """Return what each band needs beyond the rest of its rows' intervals.

    The bounds of ``rows`` are without it. With the time ``us`` a row of duration t has the bound
    b^2 + ln(1 + us / t)^2; a row whose error e exceeds it needs the root of the difference, and a band takes
    the quantile that leaves out ``TAIL`` of its rows on either side. Of the times tried, the one that makes
    intervals narrowest.
    """
    return {
        str(band): (*_side(of_band, -1.0, "duration_low_us"), *_side(of_band, 1.0, "duration_high_us"))
        for (band,), of_band in rows.group_by("band")
    }


def _side(rows: pl.DataFrame, sign: float, bound: str) -> tuple[float, float]:
    """Return ln of a factor and the time that one side of a band needs. [1], [us]"""
    weights, duration = _weights(rows), rows["duration_us"].to_numpy()
    error = np.maximum(sign * np.log(rows["measured_us"].to_numpy() / duration), 0.0)
    held = np.log(rows[bound].to_numpy() / duration)
    tried = []
    for start_us in START_US:
        within = np.hypot(held, np.log1p(start_us / duration))
        needed = np.sqrt(np.maximum(error**2 - within**2, 0.0))
        order = np.argsort(needed)
        share = np.cumsum(weights[order]) / weights.sum()
        side = float(needed[order][min(np.searchsorted(share, 1.0 - TAIL), len(order) - 1)])
        tried.append((float(np.average(np.hypot(within, side), weights=weights)), side, start_us))
    return min(tried)[1:]


def _weights(rows: pl.DataFrame) -> Floats:
    """Return weights: a trace counts as the root of its rows, by rows, launches and time alike. (n,)"""
    time = pl.col("launches") * pl.col("measured_us")
    shares = (pl.col("launches") / pl.col("launches").sum() + time / time.sum() + 1.0 / pl.len()) / 3.0
    return rows.select((shares * pl.len().sqrt()).over("trace"))[:, 0].to_numpy()


def with_spreads(rows: pl.DataFrame, spreads: Mapping[str, Spread]) -> pl.DataFrame:
    """Return rows, whose bounds are without them, with the spreads of their bands in their bounds."""
    every = [spreads.get(band, (0.0, 0.0, 0.0, 0.0)) for band in rows["band"].to_list()]
    less, less_us, more, more_us = np.array(every).T
    duration = rows["duration_us"].to_numpy()
    low = np.log(rows["duration_low_us"].to_numpy() / duration)
    high = np.log(rows["duration_high_us"].to_numpy() / duration)
    low = np.hypot(np.hypot(low, np.log1p(less_us / duration)), less)
    high = np.hypot(np.hypot(high, np.log1p(more_us / duration)), more)
    return rows.with_columns(
        pl.Series("duration_low_us", duration * np.exp(-low)),
        pl.Series("duration_high_us", duration * np.exp(high)),
    )


def _print_spreads(root: Path) -> None:
    """Print the spreads fitted to all traces, and what those fitted without a trace hold of it."""
    profiler_overhead.TRACE_SPREAD = dict.fromkeys(profiler_overhead.TRACE_SPREAD, (0.0, 0.0))  # type: ignore[misc]
    profiler_overhead.START_SPREAD_US = {}  # type: ignore[misc]
    rows = compared(root)
    rows = rows.filter(~pl.col("trace").str.contains("|".join(UNMEASURED)))
    for band, (less, less_us, more, more_us) in sorted(fit_spreads(rows).items()):
        count, traces = (
            rows.filter(pl.col("band") == band).select(pl.len(), pl.col("trace").n_unique()).row(0)
        )
        what = f"{count} signatures of {traces} traces"
        print(f'"{band}" = [{less:.2f}, {more:.2f}] and [{less_us:g}, {more_us:g}] us  # {what}')
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
    of_measurements = rows.filter(~pl.col("trace").str.contains("|".join(UNMEASURED)))
    _print("", summary(of_measurements.with_columns(pl.lit("measurements alone").alias("all")), "all"), 1)
    _print("family and GPU", summary(rows, "family", "gpu"), 2)
    if "traces" in arguments:
        _print("family, GPU and trace", summary(rows, "family", "gpu", "trace"), 3)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
