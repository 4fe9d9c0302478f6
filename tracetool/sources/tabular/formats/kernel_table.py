"""Plain kernel tables, CSV or Parquet: one row per launch, ``nsys stats``' GPU trace among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text, plain_columns
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import header_names, read_csv
from tracetool.tables.library_output import muted_panics
from tracetool.tables.memory import check_memory, check_parquet
from tracetool.tables.table_file import FAULTS, parquet_columns

_I, _S, _F = pl.Int64(), pl.String(), pl.Float64()
_NAMES = ["name", "kernel", "kernel_name", "kernelname"]
#: Times in their units; the first that is there counts. Factors to nanoseconds.
_STARTS = {
    "start_ns": 1.0,
    "start (ns)": 1.0,
    "start_us": 1e3,
    "start (us)": 1e3,
    "start_ms": 1e6,
    "start_s": 1e9,
}
_LENGTHS = {
    "duration_ns": 1.0, "duration (ns)": 1.0, "duration_us": 1e3, "duration (us)": 1e3, "duration_ms": 1e6,
    "dur_us": 1e3,
    "duration_s": 1e9,
}  # fmt: skip
_ENDS = {"end_ns": 1.0, "end_us": 1e3, "end_ms": 1e6, "end_s": 1e9}
_WHOLE: dict[str, list[str]] = {
    **{f"grid_{a}": [f"grid_{a}", f"grd{a}", f"grid{a}"] for a in "xyz"},
    **{f"block_{a}": [f"block_{a}", f"blk{a}", f"block{a}"] for a in "xyz"},
    "registers_per_thread": ["registers_per_thread", "reg/trd", "registers"],
    "stream": ["stream", "strm"], "context": ["context", "ctx"], "correlation": ["correlation", "corrid"],
    "shared_static_bytes": ["shared_static_bytes"], "shared_dynamic_bytes": ["shared_dynamic_bytes"],
    "process": ["process", "pid"], "bytes": ["bytes"],
}  # fmt: skip


#: Every column that is read, under all its names.
_READ = {
    *_NAMES,
    *_STARTS,
    *_LENGTHS,
    *_ENDS,
    "device",
    "kind",
    *(s for all_ in _WHOLE.values() for s in all_),
}
#: Memory that making a run takes: for each launch of a Parquet table, and each byte of a CSV table. Measured.
_ROW_BYTES, _CSV_RATIO = 250, 5.0


def _parquet_names(path: Path) -> list[str]:
    try:
        return list(parquet_columns(path))
    except FAULTS:
        return []


def _fits(names: list[str]) -> bool:
    low = {n.lower() for n in names}
    timed = bool(low & set(_LENGTHS)) or (bool(low & set(_STARTS)) and bool(low & set(_ENDS)))
    return timed and bool(low & set(_NAMES))


def sniff(probe: Probe) -> float:
    """Score: a name column and a duration column with its unit."""
    if probe.head.startswith(b"PAR1"):
        return 0.7 if _fits(_parquet_names(probe.path)) else 0.0
    return 0.6 if _fits(header_names((probe.lines(1) or [""])[0])) else 0.0


def _table(path: Path, options: ReadOptions) -> tuple[pl.DataFrame, list[str]]:
    from tracetool.sources.io.text import content_bytes, head_bytes

    head = head_bytes(path)[0]
    if head.startswith(b"PAR1"):
        names = _parquet_names(path)
        read = [n for n in names if n.lower() in _READ]
        try:
            with muted_panics():
                check_parquet(path, read, per_row=_ROW_BYTES, max_ratio=options.max_ratio)
                frame = plain_columns(pl.read_parquet(path, columns=read, glob=False))
        except FAULTS as error:
            raise BadInput.in_file(path, "is a broken Parquet file", "copy it again") from error
        return frame.rename({n: n.lower() for n in read}).with_row_index("line", offset=1), names
    check_memory(path, _CSV_RATIO * content_bytes(path), "its rows")
    header = head.decode("utf-8", "replace").split("\n", 1)[0]
    if not header.strip("\ufeff\r\t "):
        raise BadInput.in_file(path, "begins with an empty line", "remove it: the first names the columns")
    names = header_names(header)
    low = list(dict.fromkeys(n.lower() for n in names))
    return read_csv(path, {n: ([n], _S) for n in low}, options.max_ratio), names


def _time(frame: pl.DataFrame, units: dict[str, float]) -> pl.Expr | None:
    """Return whole nanoseconds; those given in nanoseconds are never made floats."""
    header = next((n for n in units if n in frame.columns), None)
    if header is None:
        return None
    if units[header] == 1.0:
        return pl.col(header).cast(_I, strict=False)
    return (pl.col(header).cast(_F, strict=False) * units[header]).round().cast(_I, strict=False)


def _span(frame: pl.DataFrame, warnings: list[str]) -> tuple[pl.Expr, pl.Expr | None]:
    """Return start and end of each launch, the end None without durations or ends. [ns]

    Without start times launches are laid end to end, which is noted in ``warnings``.
    """
    start, length, end = (_time(frame, units) for units in (_STARTS, _LENGTHS, _ENDS))
    if start is not None:
        return start, end if length is None else start + length
    warnings.append("no start times: the kernels are laid end to end in the order given")
    length = length if length is not None else pl.lit(None, dtype=_I)
    clean = pl.when(length.is_between(0, 10**15)).then(length)
    start = clean.fill_null(0).cum_sum() - clean.fill_null(0)
    return start, start + clean


def _kind(columns: Sequence[str]) -> pl.Expr:
    """Return the kind of each activity: the one its row states, else by the profiler's name of copies."""
    copies = pl.col("name").str.contains(r"^\[CUDA mem(?:cpy|set)")
    sets = copies & pl.col("name").str.contains("memset")
    kind = (
        pl.when(sets).then(pl.lit("memset")).when(copies).then(pl.lit("memcpy")).otherwise(pl.lit("kernel"))
    )
    if "kind" not in columns:
        return kind
    return pl.when(pl.col("kind").is_in(["kernel", "memcpy", "memset"])).then(pl.col("kind")).otherwise(kind)


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the launches; without start times they are laid end to end in the order given.

    Raises
    ------
    BadInput
        If it has no row or two columns of one name.
    """
    options.progress.step(f"reading {path.name}")
    frame, names = _table(path, options)
    if len({n.lower() for n in names}) < len(names):
        raise BadInput.in_file(path, "has two columns of one name", "rename one of them")
    if not frame.height:
        raise BadInput.in_file(path, "has a header and no row", "write one row per kernel launch")
    trace = Trace("kernel table", Clock("session", basis="times as the table gives them"))
    start, end = _span(frame, trace.warnings)
    if end is None:
        raise BadInput.in_file(path, "has neither durations nor ends", "add a column duration_us")
    name = next((n for n in _NAMES if n in frame.columns), None)
    if name is None:
        raise BadInput.in_file(path, "names no kernels", f"add a column {_NAMES[0]}")
    integer_columns = [
        pl.col(header).cast(_I, strict=False).alias(column)
        for column, spellings in _WHOLE.items()
        if (header := next((s for s in spellings if s in frame.columns), None))
    ]
    label = pl.col("device").cast(_S) if "device" in frame.columns else pl.lit("0")
    frame = frame.with_columns(
        *integer_columns,
        start_ns=start,
        end_ns=end,
        name=clean_text(pl.col(name).cast(_S)),
        label=label.fill_null("0"),
    )
    frame = frame.with_columns(
        kind=_kind(frame.columns),
        device=pl.col("label").rank("dense").cast(pl.Int32) - 1,
        place=pl.format("row {}", "line"),
    )
    columns = [
        "start_ns",
        "end_ns",
        "name",
        "kind",
        "device",
        "place",
        *[e.meta.output_name() for e in integer_columns],
    ]
    trace.devices = _devices(frame)
    trace.activities = frame.select(columns)
    return trace


def _devices(frame: pl.DataFrame) -> pl.DataFrame:
    """Return number and name of each device; a label without letters is a number, not a name."""
    labels = frame.select("device", "label").unique("device").sort("device")
    named = pl.when(pl.col("label").str.contains("[A-Za-z]"))
    return labels.select(
        "device", name=named.then(clean_text(pl.col("label").str.replace(r"\s*\(\d+\)\s*$", "")))
    )


FORMAT = Format(
    title="kernel table (CSV or Parquet)",
    holds="trace",
    made_by="nsys stats --report cuda_gpu_trace --format csv run.nsys-rep, or any name and duration_us",
    tried="nsys stats 2022.4, tables of this tool",
    checked="names and nanoseconds of what the test wrote; rows counted line by line",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".parquet"),
    memory_ratio=0.0,
)
