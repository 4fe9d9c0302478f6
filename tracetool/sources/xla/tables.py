"""From events of XLA's profiler to activities, host calls, operators, modules and ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from tracetool.sources.columns import clean_text
from tracetool.sources.pytorch.columns import texts, whole_numbers
from tracetool.sources.rocm.dispatches import plain_names
from tracetool.sources.xla.hlo import Operator
from tracetool.sources.xla.planes import Event, Value

_DETAILS = {"kernel_details": "kernel", "memcpy_details": "memcpy", "memset_details": "memset"}
#: What else happens on a device's lines: no work of the GPU.
NO_WORK = frozenset(("memalloc_details", "memfree_details", "memory_residency_details"))
_NUMBERS = {
    "registers_per_thread": r"regs:(\d+)", "shared_static_bytes": r"static_shared:(\d+)",
    "shared_dynamic_bytes": r"(?:dynamic_shared|group_mem):(\d+)", "bytes": r"(?:size|num_bytes):(\d+)",
    **{f"{g}_{a}": rf"{g}:(?:\d+,){{{i}}}(\d+)" for g in ("grid", "block") for i, a in enumerate("xyz")},
}  # fmt: skip
#: More registers than any GPU gives a thread: some writers of AMD's leave the field unset.
_MOST_REGISTERS = 1024
_TRANSFORM = re.compile(r"^(?:jvp|vmap|transpose|remat|checkpoint|shard_map|custom_jvp|custom_vjp)\((.*)\)$")
#: Parts of a path that the compiler adds: no scope of the program's.
_COMPILERS = re.compile(
    r"^(?:p?jit\(.*\)|while|body|cond|scan|closed_call|branch_\d+_fun|remat|checkpoint|.*->.*|)$"
)


def _column(events: Sequence[Event], name: str) -> list[Value]:
    return [e.stats.get(name) for e in events]


def activities(events: Sequence[Event], devices: Sequence[int]) -> pl.DataFrame:
    """Return the activities of the GPUs; ``program`` and ``instruction`` name the compiled operator.

    Parameters
    ----------
    events : sequence of Event
        Of the devices' streams.
    devices : sequence of int
        The GPU of each.
    """
    details = [
        next(((k, str(e.stats[s])) for s, k in _DETAILS.items() if s in e.stats), None) for e in events
    ]
    kinds = [d[0] if d else _kind(e.name) for d, e in zip(details, events, strict=True)]
    frame = pl.DataFrame(
        {
            "start_ns": whole_numbers([e.start_ns for e in events]),
            "length": whole_numbers([e.duration_ns for e in events]),
            "name": texts([e.name for e in events]),
            "kind": pl.Series(kinds, dtype=pl.String),
            "profiler_device": pl.Series(devices, dtype=pl.Int64),
            "stream": whole_numbers([e.line for e in events]),
            "correlation": whole_numbers(_column(events, "correlation_id")),
            "context": whole_numbers(
                [str(v or "").strip("$") or None for v in _column(events, "context_id")]
            ),
            "graph_node": whole_numbers(_column(events, "cuda_graph_node_id")),
            "program": whole_numbers(_column(events, "program_id")),
            "instruction": texts(_column(events, "hlo_op")),
            "module_name": texts(_column(events, "hlo_module")),
            "details": pl.Series([d[1] if d else None for d in details], dtype=pl.String),
        }
    ).with_row_index("place")
    stated = pl.col("details")
    frame = frame.with_columns(
        end_ns=pl.col("start_ns") + pl.col("length"),
        name=plain_names(frame["name"]),
        place_of=pl.lit("event"),
        **{c: stated.str.extract(p, 1).cast(pl.Int64, strict=False) for c, p in _NUMBERS.items()},
    ).drop("details", "length")  # fmt: skip
    unset = pl.col("registers_per_thread") > _MOST_REGISTERS
    return frame.with_columns(
        pl.when(~unset.fill_null(value=False)).then(pl.col(c)).alias(c)
        for c in ("registers_per_thread", "shared_static_bytes")
    )


def _kind(name: str) -> str:
    low = name.lower()
    if low.startswith("memset"):
        return "memset"
    return "memcpy" if low.startswith(("memcpy", "copy")) else "kernel"


def intervals(events: Sequence[Event]) -> pl.DataFrame:
    """Return host events as intervals of their thread."""
    frame = pl.DataFrame(
        {
            "start_ns": whole_numbers([e.start_ns for e in events]),
            "duration_ns": whole_numbers([e.duration_ns for e in events]),
            "name": texts([e.name for e in events]),
            "thread": whole_numbers([e.line for e in events]),
            "correlation": whole_numbers(_column(events, "correlation_id")),
        }
    )
    return frame.with_columns(clean_text("name"), process=pl.lit(0, dtype=pl.Int64))


def number_calls(linked: pl.DataFrame) -> pl.DataFrame:
    """Add ``external_id``: a number for each call of an operator, null where a kernel states none.

    Parameters
    ----------
    linked : DataFrame
        Activities with ``launch_ns``.

    Notes
    -----
    Kernels of one instruction that run behind one another on a stream are of one call, until one of them
    comes again.
    """
    order = ["profiler_device", "stream", "start_ns"]
    rows = linked.with_row_index("#row").sort(order, maintain_order=True)
    key = pl.struct("profiler_device", "stream", "program", "instruction")
    rows = rows.with_columns(key.rle_id().alias("#stretch"))
    # Within a stretch each name's n-th appearance belongs to the n-th call.
    rows = rows.with_columns(pl.int_range(pl.len()).over("#stretch", "name").alias("#again"))
    rows = rows.with_columns(pl.col("#again").cum_max().over("#stretch").alias("#again"))
    rows = rows.with_columns(pl.struct("#stretch", "#again").rle_id().cast(pl.Int64).alias("external_id"))
    named = pl.col("instruction").is_not_null() & (pl.col("instruction") != "")
    rows = rows.with_columns(pl.when(named).then(pl.col("external_id")))
    return rows.sort("#row").drop("#row", "#stretch", "#again")


_STATED = ("instruction", "module_name", "name", "input_dims", "input_types", "concrete_inputs", "path")


def operators(numbered: pl.DataFrame, modules: Mapping[int, Mapping[str, Operator]]) -> pl.DataFrame:
    """Return a row for each call of an operator, from its first launch to its last; with ``path``."""
    moment = pl.coalesce("launch_ns", "start_ns")
    calls = numbered.drop_nulls("external_id").group_by("external_id", maintain_order=True).agg(
        moment.min().alias("start_ns"), (moment.max() - moment.min() + 1).alias("duration_ns"),
        pl.col("process", "thread", "program", "instruction", "module_name").first(),
    )  # fmt: skip
    distinct = calls.select("program", "instruction", "module_name").unique(maintain_order=True)
    rows = []
    for program, instruction, module in distinct.iter_rows():
        stated = modules.get(program or 0, {}).get(instruction)
        name = stated.name if stated else f"xla::{instruction.partition('.')[0]}"
        rows.append(
            {
                "program": program, "instruction": instruction, "module_name": module, "name": name,
                "input_dims": stated.dims if stated else None,
                "input_types": stated.types if stated else None,
                "concrete_inputs": stated.scalars if stated else None,
                "path": "/".join(_scopes(module, stated.path if stated else "")),
            }
        )  # fmt: skip
    table = pl.DataFrame(
        rows, schema={"program": pl.Int64, **dict.fromkeys(_STATED, pl.String)}
    ).with_columns(clean_text("name"), clean_text("path"))
    keys = ["program", "instruction", "module_name"]
    return calls.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left").drop(keys)


def _scopes(module: str | None, path: str) -> list[str]:
    """Return the compiled module and the program's scopes that contain an operator, outermost first.

    Scopes are those of the forward pass: what differentiates or batches them is taken off.
    """
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(f"{path}/"):
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth <= 0:
            parts.append(path[start:at])
            start = at + 1
    scopes = []
    for part in parts[:-1]:
        inner = part
        while stripped := _TRANSFORM.match(inner):
            inner = stripped[1]
        scopes += [piece for piece in inner.split("/") if not _COMPILERS.match(piece)]
    return [module or "?", *scopes][:32]


def modules(calls: pl.DataFrame) -> pl.DataFrame:
    """Return modules and scopes as nested intervals: each spans the launches of its operators in a row.

    Parameters
    ----------
    calls : DataFrame
        Of :func:`operators`. Calls that share a launch, as those of a graph do, lie in their module alone.
    """
    rows = calls.filter(pl.col("thread").is_not_null()).sort("thread", "start_ns", maintain_order=True)
    if not rows.height:
        return pl.DataFrame()
    shared = pl.len().over("thread", "start_ns") > 1
    parts = pl.col("path").str.split("/")
    rows = rows.with_columns(pl.when(shared).then(parts.list.head(1)).otherwise(parts).alias("parts"))
    deepest = int(rows["parts"].list.len().max() or 0)  # type: ignore[arg-type]
    levels = []
    for depth in range(deepest):
        above = pl.col("parts").list.head(depth + 1).list.join("/")
        within = rows.with_columns(pl.struct("thread", above.alias("#above")).rle_id().alias("#stretch"))
        within = within.filter(pl.col("parts").list.len() > depth)
        first, last = pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("duration_ns")).max()
        levels.append(
            within.group_by("#stretch", maintain_order=True).agg(
                pl.col("parts").first().list.get(depth).alias("name"), pl.col("process", "thread").first(),
                first, (last - first).alias("duration_ns"),
            )
        )  # fmt: skip
    return pl.concat(levels).drop("#stretch")
