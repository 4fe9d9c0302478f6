"""From Nsight Compute's metrics to time, bytes and operations of each launch.

Operations are instructions that were executed, times what each does: an addition or a product one, a fused
multiply-add two. Tensor cores count theirs. Sources: the sections ``SpeedOfLight_RooflineChart`` and
``SpeedOfLight_HierarchicalTensorRooflineChart`` of Nsight Compute; Yang, Kurth and Williams, "Hierarchical
Roofline Analysis for GPUs", CCPE 2020, table 1.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

#: What is made of the metrics.
WORK: Final = ("duration_ns", "flops", "dram_read_bytes", "dram_write_bytes", "dram_bytes", "clock_mhz")
_UNIT: Final = re.compile(
    r"^(?P<prefix>n|u|m|k|g|t|\u00b5)?(?P<base>second|sec|s|byte|b|inst|hz|cycle|op)?s?$", re.IGNORECASE
)
_LARGE: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SMALL: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "\u00b5": 1e-6, "m": 1e-3}
#: The first that was collected counts: metric, and the unit its value must have.
_DIRECT: Final = {
    "duration_s": (("gpu__time_duration.sum", "s"), ("gpu__time_duration.avg", "s"),
                   ("gpu__time_duration.max", "s"), ("Duration", "s")),
    "dram_read_bytes": (("dram__bytes_read.sum", "b"), ("dram__bytes_op_read.sum", "b")),
    "dram_write_bytes": (("dram__bytes_write.sum", "b"), ("dram__bytes_op_write.sum", "b")),
    "dram_bytes": (("dram__bytes.sum", "b"),),
    "dram_rate": (("dram__bytes.sum.per_second", "b/s"), ("Memory Throughput", "b/s")),
    "clock_hz": (("smsp__cycles_elapsed.avg.per_second", "hz"), ("sm__cycles_elapsed.avg.per_second", "hz"),
                 ("gpc__cycles_elapsed.avg.per_second", "hz"), ("SM Frequency", "hz")),
}  # fmt: skip
_INSTRUCTION: Final = re.compile(
    r"^(?P<x2>derived__)?smsp?__sass_thread_inst_executed_op_(?P<kind>[dfh])(?P<op>add|mul|fma)_pred_on"
    r"(?:\.sum(?P<rate>\.per_cycle_elapsed)?|_x2)$"
)
_TENSOR: Final = re.compile(
    r"^sm__ops_path_tensor_(?:op_[a-z0-9]+_)?src_[a-z0-9_]+\.sum(?P<rate>\.per_cycle_elapsed)?$"
)
_TENSOR_BUSY: Final = re.compile(r"^sms?p?__inst_executed_pipe_tensor[a-z0-9_]*\.sum$")


def unit_of(unit: str) -> tuple[str, float]:
    """Return the base of a unit and how many of it one is; nothing and 1 for a count.

    >>> unit_of("Mbyte"), unit_of("nsecond"), unit_of("Gbyte/second"), unit_of("cycle/usecond"), unit_of("")
    (('b', 1000000.0), ('s', 1e-09), ('b/s', 1000000000.0), ('hz', 1000000.0), ('', 1.0))
    """
    above, _, below = unit.strip().partition("/")
    base, factor = _one(above)
    if not below:
        return base, factor
    under, divisor = _one(below)
    if under != "s":
        return unit, 1.0
    return ("hz" if base == "cycle" else f"{base}/s"), factor / divisor


def _one(unit: str) -> tuple[str, float]:
    """Return the base and factor of a unit without a fraction; ``m`` is milli of times, else mega."""
    match = _UNIT.match(unit.strip().lower())
    if not match:
        return unit, 1.0
    base = {"second": "s", "sec": "s", "byte": "b", "inst": "", "op": "", None: ""}.get(
        match["base"], match["base"]
    )
    prefix = match["prefix"] or ""
    table = _SMALL if base == "s" else _LARGE
    return (str(base), table[prefix]) if prefix in table else (unit, 1.0)


def work_of(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return one row per launch with the columns of :data:`WORK` and ``counted_flops``.

    Parameters
    ----------
    metrics : DataFrame
        ``launch_key``, ``metric``, ``unit`` and ``value`` as text; values may have thousands separators.

    Notes
    -----
    Operations are null where the kernel used tensor cores and nothing counted what they did, and where no
    count of operations was collected. ``counted_flops`` names what was.
    """
    number = pl.col("value").str.replace_all(",", "").str.strip_chars().cast(pl.Float64, strict=False)
    frame = metrics.select("launch_key", "metric", "unit", number=number).drop_nulls(["metric", "number"])
    pairs = frame.select("metric", "unit").unique().sort("metric", "unit")
    meaning = [unit_of(unit or "") for unit in pairs["unit"].to_list()]
    pairs = pairs.with_columns(
        pl.Series("base", [b for b, _ in meaning], dtype=pl.String),
        pl.Series("factor", [f for _, f in meaning], dtype=pl.Float64),
    )
    frame = frame.join(pairs, on=["metric", "unit"], nulls_equal=True)
    frame = frame.with_columns(value=pl.col("number") * pl.col("factor"))
    launches = metrics.select("launch_key").unique(maintain_order=True)
    for column, choices in _DIRECT.items():
        launches = launches.join(
            _first(frame, choices).rename({"value": column}), on="launch_key", how="left"
        )
    launches = launches.join(_operations(frame), on="launch_key", how="left")
    of_cycles = pl.col("a_cycle") * pl.col("clock_hz") * pl.col("duration_s")
    read_and_written = pl.col("dram_read_bytes") + pl.col("dram_write_bytes")
    uncounted = (pl.col("tensor_instructions") > 0) & (pl.col("tensor").fill_null(0.0) <= 0)
    open_ = uncounted.fill_null(value=False) | pl.col("counted_flops").is_null()
    flops = pl.col("total").fill_null(0.0) + pl.when(pl.col("a_cycle") > 0).then(of_cycles).otherwise(0.0)
    return launches.with_columns(
        duration_ns=pl.col("duration_s") * 1e9,
        clock_mhz=pl.col("clock_hz") / 1e6,
        dram_bytes=pl.coalesce("dram_bytes", read_and_written, pl.col("dram_rate") * pl.col("duration_s")),
        flops=pl.when(~open_).then(flops),
    ).select("launch_key", *WORK, "counted_flops")


def _first(frame: pl.DataFrame, choices: tuple[tuple[str, str], ...]) -> pl.DataFrame:
    """Return the value of the first choice that each launch has."""
    by_rank = [
        frame.filter((pl.col("metric") == metric) & (pl.col("base") == base)).with_columns(rank=pl.lit(rank))
        for rank, (metric, base) in enumerate(choices)
    ]
    all_choices = pl.concat(by_rank).sort("rank", maintain_order=True)
    return all_choices.unique("launch_key", keep="first", maintain_order=True).select("launch_key", "value")


def _operations(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the operations of each launch: whole, and those given for a cycle; what was counted of them."""
    terms = _terms(frame["metric"].unique().sort().to_list())
    rows = frame.join(terms, on="metric").with_columns(ops=pl.col("value") * pl.col("weight"))
    rate, tensor = pl.col("rate"), pl.col("what") == "tensor"
    busy = pl.col("what") == "tensor instructions"
    return rows.group_by("launch_key").agg(
        pl.col("ops").filter(~rate & ~busy).sum().alias("total"),
        pl.col("ops").filter(rate & ~busy).sum().alias("a_cycle"),
        pl.col("ops").filter(tensor).sum().alias("tensor"),
        pl.col("ops").filter(busy).sum().alias("tensor_instructions"),
        pl.col("what").filter(~busy).unique().sort().str.join(" ").alias("counted_flops"),
    ).with_columns(pl.when(pl.col("counted_flops") != "").then(pl.col("counted_flops")))  # fmt: skip


def _terms(metrics: list[str]) -> pl.DataFrame:
    """Return the metrics that count operations: what, how many one is, whether of a cycle."""
    names = {"d": "fp64", "f": "fp32", "h": "fp16"}
    rows: list[dict[str, object]] = []
    met: set[tuple[str, str]] = set()
    # Whole counts before those of a cycle, and each once: pages hold one count under several names.
    for metric in sorted(metrics, key=lambda m: ("per_cycle" in m or m.startswith("derived"), m)):
        if (instruction := _INSTRUCTION.match(metric)) and (
            instruction["kind"],
            instruction["op"],
        ) not in met:
            met.add((instruction["kind"], instruction["op"]))
            weight = 2.0 if instruction["op"] == "fma" and not instruction["x2"] else 1.0
            per_cycle = bool(instruction["rate"] or instruction["x2"])
            rows.append(
                {"metric": metric, "what": names[instruction["kind"]], "weight": weight, "rate": per_cycle}
            )
        elif _TENSOR_BUSY.match(metric):
            rows.append({"metric": metric, "what": "tensor instructions", "weight": 1.0, "rate": False})
    tensor = [m for m in metrics if _TENSOR.match(m)]
    plain = [m for m in tensor if "_op_" not in m] or tensor
    totals = [m for m in plain if not m.endswith("per_cycle_elapsed")] or plain
    stems = [m.split(".")[0] for m in totals]
    for metric, stem in zip(totals, stems, strict=True):
        if not any(stem != s and stem.startswith(f"{s}_") for s in stems):  # a part of another
            rate = metric.endswith("per_cycle_elapsed")
            rows.append({"metric": metric, "what": "tensor", "weight": 1.0, "rate": rate})
    schema = {"metric": pl.String, "what": pl.String, "weight": pl.Float64, "rate": pl.Boolean}
    return pl.DataFrame(rows, schema=schema)
