"""Counts of each dispatch by ``rocprofv3 --pmc``, from its CSV: measured work, no timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, read_csv

#: Work-items of a wave, whose instructions the counters count: all are taken to be active.
_LANES: Final = 64
#: Operations that one unit of a matrix counter stands for.
_MATRIX_OPS: Final = 512
_TYPES: Final = {"F16": "fp16", "F32": "fp32", "F64": "fp64"}
_TIMES_IN_AN_INSTRUCTION: Final = {"ADD": 1, "MUL": 1, "TRANS": 1, "FMA": 2}
#: Counter to the operations one of it is: of vector units by instruction and type, of matrix cores by type.
#: Source: ROCm's documentation of ``rocprofiler-compute``, "Performance model", arithmetic operations.
FLOPS_OF: Final = {
    f"SQ_INSTS_VALU_{kind}_{width}": _LANES * times
    for width in _TYPES
    for kind, times in _TIMES_IN_AN_INSTRUCTION.items()
} | {f"SQ_INSTS_VALU_MFMA_MOPS_{width}": _MATRIX_OPS for width in (*_TYPES, "BF16", "F8", "F6F4")}
#: Derived counters of what moves between the last cache and memory. [KiB]
_BYTES: Final = {"dram_read_bytes": "FETCH_SIZE", "dram_write_bytes": "WRITE_SIZE"}
_KIB: Final = 1024.0
_TEXT, _WHOLE, _NUMBER = pl.String(), pl.Int64(), pl.Float64()
_AGAIN = "rocprofv3 --pmc FETCH_SIZE WRITE_SIZE --output-format csv -- ./app"


def sniff(probe: Probe) -> float:
    """Score: the header of a counter table."""
    first = (probe.lines(1) or [""])[0]
    return 1.0 if has_columns(first, "Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the dispatches and what was counted of them in ``counted``.

    Raises
    ------
    BadInput
        If it holds no dispatch, or no counter that states work.
    """
    options.progress.step(f"reading {path.name}")
    columns = {
        "process": (["Process_Id"], _WHOLE), "dispatch": (["Dispatch_Id"], _WHOLE),
        "name": (["Kernel_Name"], _TEXT), "counter": (["Counter_Name"], _TEXT),
        "value": (["Counter_Value"], _NUMBER), "start": (["Start_Timestamp"], _WHOLE),
        "end": (["End_Timestamp"], _WHOLE), "items": (["Grid_Size"], _WHOLE),
        "block_items": (["Workgroup_Size"], _WHOLE),
    }  # fmt: skip
    rows = read_csv(path, columns, options.max_ratio)
    usable = (
        pl.col("dispatch").is_not_null()
        & pl.col("name").is_not_null()
        & pl.col("counter").is_not_null()
        & pl.col("value").is_between(0.0, 1e18)
    ).fill_null(value=False)
    good, bad = rows.filter(usable), rows.filter(~usable)
    if not good.height:
        raise BadInput.in_file(path, "holds no count of a dispatch", f"count again: {_AGAIN}")
    of_work = good.filter(pl.col("counter").is_in([*FLOPS_OF, *_BYTES.values()]))
    if not of_work.height:
        raise BadInput.in_file(path, "counts no operations and no bytes", f"count these: {_AGAIN}")
    trace = Trace("rocprofv3 counters", Clock("none", basis="counters of dispatches: no times"))
    trace.details = {"pass_of_program": True}  # what does not fit into one pass is counted in another
    if bad.height:
        trace.warnings.append(
            f"{counted(bad.height, 'line')} of the table count no dispatch and are left out"
        )
    counts = of_work.group_by("counter").agg(pl.col("value").max())
    if dead := sorted(
        counts.filter((pl.col("value") == 0) & pl.col("counter").is_in(_BYTES.values()))["counter"]
    ):
        trace.warnings.append(
            f"{' and '.join(dead)} read 0 of every dispatch and are left out: this GPU may not count them"
        )
        of_work = of_work.filter(~pl.col("counter").is_in(dead))
    if not of_work.height:
        raise BadInput.in_file(path, "counts 0 bytes of every dispatch", "this GPU may not count them")
    trace.counted = _work(good, of_work)
    if trace.counted["counted_flops"].count() and not trace.counted["flops"].count():
        trace.warnings.append(
            "operations are left open: none of matrix cores was counted (SQ_INSTS_VALU_MFMA_MOPS_*)"
        )
    unread = [c for c in good["counter"].unique().sort() if c not in FLOPS_OF and c not in _BYTES.values()]
    if unread:
        more = f" and {len(unread) - 8} more" if len(unread) > 8 else ""
        trace.warnings.append(f"counters that are not read: {', '.join(unread[:8])}{more}")
    return trace


def _work(rows: pl.DataFrame, of_work: pl.DataFrame) -> pl.DataFrame:
    """Return a row per dispatch in the order of the file: its name, time, bytes and operations.

    Operations are null where those of matrix cores were not counted: a kernel may have used them.
    """
    key = ["process", "dispatch"]
    launches = rows.group_by(key, maintain_order=True).agg(
        pl.col("name", "items", "block_items").first(),
        duration_ns=(pl.col("end") - pl.col("start")).filter(pl.col("end") > pl.col("start")).first(),
    )
    ops = pl.col("counter").replace_strict(FLOPS_OF, default=None, return_dtype=pl.Float64)
    counts = of_work.with_columns(ops=pl.col("value") * ops, what=_what())
    matrix = pl.col("what") == "tensor"
    sums = counts.group_by(key).agg(
        pl.when(matrix.any()).then(pl.col("ops").sum()).alias("flops"),
        pl.col("what").drop_nulls().unique().sort().str.join(" ").alias("counted_flops"),
        *(
            pl.when((pl.col("counter") == counter).any())
            .then((pl.col("value").filter(pl.col("counter") == counter)).sum() * _KIB)
            .alias(column)
            for column, counter in _BYTES.items()
        ),
    )
    joined = launches.join(sums, on=key, how="left", maintain_order="left", nulls_equal=True)
    absent = {f"{what}_{axis}": pl.lit(None, dtype=pl.Int64) for what in ("grid", "block") for axis in "xyz"}
    return joined.select(
        name=clean_text("name").str.strip_chars(),
        profiler_device=pl.lit(None, dtype=pl.Int64),
        **absent,
        items="items",
        block_items="block_items",
        duration_ns=pl.col("duration_ns").cast(pl.Float64),
        flops="flops",
        dram_read_bytes="dram_read_bytes",
        dram_write_bytes="dram_write_bytes",
        dram_bytes=pl.col("dram_read_bytes") + pl.col("dram_write_bytes"),
        clock_mhz=pl.lit(None, dtype=pl.Float64),
        counted_flops=pl.when(pl.col("counted_flops") != "").then(pl.col("counted_flops")),
    )


def _what() -> pl.Expr:
    """Return the operations that a counter counts."""
    meant = {c: "tensor" if "MFMA" in c else _TYPES[c.rpartition("_")[2]] for c in FLOPS_OF}
    return pl.col("counter").replace_strict(meant, default=None, return_dtype=pl.String)


FORMAT = Format(
    title="rocprofv3 counters (CSV)",
    holds="counters",
    made_by="rocprofv3 --pmc FETCH_SIZE WRITE_SIZE SQ_INSTS_VALU_FMA_F32 --output-format csv -- ./app",
    tried="the columns of rocprofiler-sdk's documentation (ROCm 6.2 to 7); counts of work written by hand",
    checked="sums as the csv module reads them, operations by hand",
    sniff=sniff,
    read=read,
    suffixes=("_counter_collection.csv", ".csv"),
    memory_ratio=12.0,
)
