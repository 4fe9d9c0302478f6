"""Signatures to operator columns: what the name states, what the launch tells, what the operator gives.

Sources are tried in that order of trust: the operator that launched the kernel (exact shapes), the grid
(element counts, tiles), the name alone, the bytes a profiler recorded. ``shape_source`` says which it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from tracetool.classify.calls import Call, read_call
from tracetool.classify.classify import classify_names
from tracetool.classify.launch import from_launch
from tracetool.classify.shapes import Numbers, read_shapes, streaming

#: Numbers an operator can give, as in the operator tables.
SHAPES: Final = (
    "batch", "m", "n", "k", "channels", "height", "width", "filters", "kernel_h", "kernel_w", "stride", "padding",
    "conv_groups", "q_len", "kv_len", "heads", "kv_heads", "window", "tokens", "hidden", "intermediate", "top_k",
    "experts", "rows", "cols", "elements", "reads", "writes", "ranks",
)  # fmt: skip
#: What makes a row's work known, per family; one set suffices.
NEEDED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "gemm": (("m", "n", "k"),), "gemv": (("m", "n", "k"),), "moe": (("tokens", "hidden", "intermediate"), ("m", "n", "k")),
    "conv": (("channels", "height", "filters"), ("m", "n", "k")), "attention": (("q_len", "kv_len", "heads", "head_dim"),),
    "norm": (("rows", "cols"),), "softmax": (("rows", "cols"),), "reduction": (("rows", "cols"),),
    "collective": (("bytes",),),
}  # fmt: skip
_STREAMING: Final = frozenset(
    {"elementwise", "copy", "rng", "quantize", "rope", "optimizer", "pooling", "gather_scatter", "scan", "sort", "sampling"}
)  # fmt: skip
_ARGUMENTS: Final = ("operator_name", "input_dims", "input_types", "concrete_inputs")


def describe(signatures: pl.DataFrame) -> pl.DataFrame:
    """Return the operator columns of a run's signatures.

    Parameters
    ----------
    signatures : DataFrame, n rows
        The ``signatures`` table of a run; only ``name`` must exist.

    Returns
    -------
    DataFrame, n rows in the same order
        The columns of :func:`classify_names` (families refined by the operator), the numbers of
        :data:`SHAPES`, ``bytes`` [B], ``blocks`` (grid product), ``threads`` (per block),
        ``registers`` (per thread), ``shared_bytes`` (per block) [B], ``kind`` (of a collective or
        copy), ``shape_source``. Tiles of matrix products are turned to lie along the operator's own
        m and n (``tile_m`` along m), unlike in the name.
    """
    frame = _complete(signatures)
    named = classify_names(frame["name"].to_list()).drop("name")
    called = _called(frame)
    made = pl.concat([frame, named, called], how="horizontal")
    made = _families(made)
    made = from_launch(made)
    return _sources(made).drop("activity", "call_family", *_ARGUMENTS, strict=False)


def _complete(signatures: pl.DataFrame) -> pl.DataFrame:
    """Add what may be absent, rename what the model calls otherwise."""
    texts = ("kind", "device_name", *_ARGUMENTS)
    numbers = (
        *(f"{a}_{x}" for a in ("grid", "block") for x in "xyz"),
        *("registers_per_thread", "shared_static_bytes", "shared_dynamic_bytes", "bytes"),
        *("launches", "duration_ns", "duration_median_ns"),
    )
    have = set(signatures.columns)
    frame = signatures.with_columns(
        *(pl.lit(None, dtype=pl.String).alias(c) for c in texts if c not in have),
        *(pl.lit(None, dtype=pl.Float64).alias(c) for c in numbers if c not in have),
    )
    return frame.select(
        *(["signature"] if "signature" in have else []),
        "name",
        "device_name",
        pl.col("kind").fill_null("kernel").alias("activity"),
        *_ARGUMENTS,
        *(pl.col(c).cast(pl.Float64) for c in numbers[:6]),
        pl.col("registers_per_thread").cast(pl.Float64).alias("registers"),
        (pl.col("shared_static_bytes").fill_null(0) + pl.col("shared_dynamic_bytes").fill_null(0))
        .cast(pl.Float64)
        .alias("shared_bytes"),
        pl.col("bytes").cast(pl.Float64),
        pl.col("launches").cast(pl.Float64),
        (pl.col("duration_median_ns").cast(pl.Float64) / 1e3).alias("duration_us"),
    ).with_columns(
        _volume("grid").alias("blocks"),
        _volume("block").alias("block_threads"),
    )


def _volume(axis: str) -> pl.Expr:
    parts = [pl.col(f"{axis}_{x}") for x in "xyz"]
    return parts[0] * parts[1].fill_null(1.0) * parts[2].fill_null(1.0)


def _called(frame: pl.DataFrame) -> pl.DataFrame:
    """Read each distinct operator call once."""
    calls = frame.select(_ARGUMENTS)
    distinct = calls.filter(pl.col("operator_name").is_not_null()).unique(maintain_order=True)
    read = [_read(read_call(*row)) for row in distinct.iter_rows()]
    columns = {c: _series(c, (r.get(c) for r in read)) for c in (*SHAPES, *_CALL_NUMBERS)}
    texts = {
        c: pl.Series(c, [_text(r.get(t)) for r in read], dtype=pl.String) for c, t in _CALL_TEXTS.items()
    }
    table = distinct.with_columns(*columns.values(), *texts.values())
    joined = calls.join(table, on=list(_ARGUMENTS), how="left", nulls_equal=True, maintain_order="left")
    return joined.drop(_ARGUMENTS)


_CALL_NUMBERS: Final = ("call_head_dim", "call_head_dim_v", "call_causal", "stream_elements", "stream_reads")
_CALL_TEXTS: Final = {
    "call_family": "call_family",
    "call_dtype": "dtype",
    "call_phase": "phase",
    "call_name": "call_name",
}


def _series(name: str, values: Iterable[object]) -> pl.Series:
    made = [float(v) if isinstance(v, (int, float)) else None for v in values]
    return pl.Series(name, made, dtype=pl.Float64)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read(call: Call) -> Numbers:
    family, numbers = read_shapes(call)
    found: Numbers = dict(numbers or {})
    stream = streaming(call) or {}
    for own, theirs in (
        ("head_dim", "call_head_dim"),
        ("head_dim_v", "call_head_dim_v"),
        ("causal", "call_causal"),
    ):
        found[theirs] = found.pop(own, None)
    found["conv_groups"] = found.pop("groups", None)
    return {
        **found, "call_family": family, "dtype": call.dtype, "call_name": call.name,
        "stream_elements": stream.get("elements"), "stream_reads": stream.get("reads"),
    }  # fmt: skip


def _families(frame: pl.DataFrame) -> pl.DataFrame:
    """Let the operator name what the kernel's name leaves open, and say so in ``basis``."""
    open_name = pl.col("family").is_in(["unknown", "other"]) | pl.col("basis").is_in(["library", "words"])
    told = pl.col("call_family").is_not_null()
    # a product launched by a convolution is an implicit GEMM; helpers of an operator stay what they are
    as_conv = (pl.col("family") == "gemm") & (pl.col("call_family") == "conv")
    use = told & (open_name | as_conv)
    activity = pl.col("activity")
    return frame.with_columns(
        pl.when(activity.is_in(["memcpy", "memset"]))
        .then(activity)
        .when(use)
        .then(pl.col("call_family"))
        .otherwise(pl.col("family"))
        .alias("family"),
        pl.when(use).then(pl.lit("operator")).otherwise(pl.col("basis")).alias("basis"),
        pl.coalesce("dtype", "call_dtype").alias("dtype"),
        pl.coalesce("phase", "call_phase").alias("phase"),
        pl.coalesce(pl.col("head_dim").cast(pl.Float64), "call_head_dim").alias("head_dim"),
        pl.coalesce(pl.col("head_dim_v").cast(pl.Float64), "call_head_dim_v").alias("head_dim_v"),
        pl.coalesce(pl.col("causal").cast(pl.Float64), "call_causal").alias("causal"),
        pl.coalesce("block_threads", pl.col("threads").cast(pl.Float64)).alias("threads"),
        pl.when(pl.col("family") == "collective")
        .then(pl.col("op"))
        .otherwise(pl.col("activity"))
        .alias("kind"),
    )


def _sources(frame: pl.DataFrame) -> pl.DataFrame:
    """Keep the numbers that belong to the family and say where they come from."""
    family = pl.col("family")
    helper = pl.col("call_family").is_not_null() & (family != pl.col("call_family"))
    # numbers of the operator describe its main kernel; a helper of it streams
    keep = pl.col("call_family").is_not_null() & ~helper
    operator_shapes = [
        pl.when(keep).then(pl.col(c)).otherwise(None).alias(c)
        for c in SHAPES
        if c not in ("elements", "reads", "writes")
    ]
    streams = family.is_in(sorted(_STREAMING))
    elements = pl.when(keep).then(pl.col("elements")).otherwise(None)
    frame = frame.with_columns(
        *operator_shapes,
        pl.when(streams)
        .then(pl.coalesce(elements, pl.when(~helper).then(pl.col("stream_elements")), "grid_elements"))
        .otherwise(elements)
        .alias("elements"),
        pl.when(streams)
        .then(
            pl.coalesce(
                pl.when(keep).then(pl.col("reads")),
                pl.when(pl.col("operands").is_not_null()).then(
                    (pl.col("operands") - 1).clip(0).cast(pl.Float64)
                ),
                pl.when(~helper).then(pl.col("stream_reads")),
                pl.lit(1.0),
            )
        )
        .otherwise(None)
        .alias("reads"),
        pl.when(streams).then(pl.coalesce(pl.when(keep).then(pl.col("writes")), pl.lit(1.0))).alias("writes"),
    )
    frame = frame.with_columns(
        *(
            pl.coalesce(c, f"launch_{c}").alias(c)
            for c in ("m", "n", "k", "batch", "rows", "cols", "q_len", "kv_len", "heads")
        )
    )
    known = pl.lit(value=False)
    for name, sets in NEEDED.items():
        for wanted in sets:
            here = family == name
            for column in wanted:
                here &= pl.col(column).is_not_null()
            known |= here
    known |= streams & pl.col("elements").is_not_null()
    from_operator = keep | (streams & ~helper & pl.col("stream_elements").is_not_null())
    source = (
        pl.when(family.is_in(["memcpy", "memset", "collective"]) & pl.col("bytes").is_not_null())
        .then(pl.lit("bytes"))
        .when(~known)
        .then(pl.lit("none"))
        .when(from_operator)
        .then(pl.lit("operator"))
        .otherwise(pl.lit("grid"))
    )
    dropped = [
        c
        for c in frame.columns
        if c.startswith(("launch_", "stream_", "call_h", "call_c", "call_d", "call_p", "grid_e"))
    ]
    return frame.with_columns(source.alias("shape_source")).drop(*dropped, "block_threads")
