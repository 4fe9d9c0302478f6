"""The operators behind a run's signatures: each distinct call read once, and given to launches that lost theirs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from tracetool.kernels.argument_readers import complete_convolutions
from tracetool.kernels.calls import Call, Numbers, read_call
from tracetool.kernels.shapes import read_shapes, streaming

#: Numbers an operator can give, as in the operator tables.
SHAPES: Final = (
    "batch", "m", "n", "k", "channels", "height", "width", "filters", "kernel_h", "kernel_w", "stride", "padding",
    "conv_groups", "q_len", "kv_len", "heads", "kv_heads", "window", "tokens", "hidden", "intermediate", "top_k",
    "experts", "rows", "cols", "state", "elements", "reads", "writes", "bytes",
)  # fmt: skip
#: The columns of ``signatures`` that state a call.
ARGUMENTS: Final = ("operator_name", "input_dims", "input_list_dims", "input_types", "concrete_inputs")
_OTHERS: Final = (
    "head_dim",
    "head_dim_v",
    "causal",
    "stream_elements",
    "stream_reads",
    "walked_dims",
    "bias_elements",
    "other_kernel",
    "other_padding",
    "expert_count",
    "model_width",
)
_TEXTS: Final = ("family", "dtype", "phase", "name")
_COLUMNS: Final = tuple(f"call_{c}" for c in (*SHAPES, *_OTHERS, *_TEXTS))
#: A launch without a call takes that of a like one whose duration differs by less than 25 %. [ln]
_APART: Final = 0.223
_LAUNCH: Final = ("name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")


def with_calls(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the operators' columns: ``call_family``, ``call_dtype``, ``call_m`` ...; null without an operator.

    Kernels replayed from a graph have lost their operator, on AMD their grid too. One launched eagerly with
    the same name and geometry whose duration agrees best is taken for the same work; ``lent`` says so.
    """
    calls = frame.select(ARGUMENTS)
    distinct = calls.filter(pl.col("operator_name").is_not_null()).unique(maintain_order=True)
    read = [_read(read_call(*row)) for row in distinct.iter_rows()]
    complete_convolutions(read)
    numbers = [_numbers(f"call_{c}", (r.get(c) for r in read)) for c in (*SHAPES, *_OTHERS)]
    texts = [
        pl.Series(f"call_{c}", [_text(r.get(f"call_{c}")) for r in read], dtype=pl.String) for c in _TEXTS
    ]
    table = distinct.with_columns(*numbers, *texts)
    joined = calls.join(table, on=list(ARGUMENTS), how="left", nulls_equal=True, maintain_order="left")
    return _fill_from_like_launches(pl.concat([frame, joined.drop(ARGUMENTS)], how="horizontal"))


def _fill_from_like_launches(frame: pl.DataFrame) -> pl.DataFrame:
    is_without_call = (
        pl.col("call_name").is_null() & pl.col("operator_name").is_null() & (pl.col("activity") == "kernel")
    )
    numbered = frame.with_row_index("_row")
    with_call = numbered.filter(pl.col("call_family").is_not_null() & (pl.col("duration_us") > 0))
    without_call = numbered.filter(is_without_call & (pl.col("duration_us") > 0))
    if not with_call.height or not without_call.height:
        return frame.with_columns(pl.lit(value=False).alias("lent"))
    columns = ["_row", "duration_us", *_LAUNCH]
    gridless = pl.col("grid_x").is_null()
    pairs = [
        unlinked.select(columns).join(
            with_call.select("duration_us", *dict.fromkeys((*on, *_COLUMNS))),
            on=on,
            how="inner",
            suffix="_usual",
        )
        for unlinked, on in (
            (without_call.filter(~gridless), list(_LAUNCH)),
            (without_call.filter(gridless), ["name"]),
        )
    ]
    shared = ["_row", "duration_us", "duration_us_usual", *_COLUMNS]
    apart = (pl.col("duration_us") / pl.col("duration_us_usual")).log().abs()
    closest = (
        pl.concat([p.select(shared) for p in pairs])
        .with_columns(apart.alias("_apart"))
        .filter(pl.col("_apart") <= _APART)
        .sort("_row", "_apart")
        .unique("_row", keep="first", maintain_order=True)
        .select("_row", *(pl.col(c).alias(f"_{c}") for c in _COLUMNS))
    )
    joined = numbered.join(closest, on="_row", how="left", maintain_order="left")
    return joined.with_columns(
        *(pl.coalesce(c, f"_{c}").alias(c) for c in _COLUMNS),
        pl.col("_call_name").is_not_null().alias("lent"),
    ).drop("_row", *(f"_{c}" for c in _COLUMNS))


def _numbers(name: str, values: Iterable[object]) -> pl.Series:
    numbers = [float(v) if isinstance(v, (int, float)) else None for v in values]
    return pl.Series(name, numbers, dtype=pl.Float64)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read(call: Call) -> Numbers:
    family, numbers = read_shapes(call)
    shapes: Numbers = dict(numbers or {})
    stream = streaming(call) or {}
    shapes["conv_groups"] = shapes.pop("groups", None)
    return {
        **shapes, "call_family": family, "call_dtype": call.dtype, "call_phase": shapes.get("phase"), "call_name": call.name,
        "stream_elements": stream.get("elements"), "stream_reads": stream.get("reads"),
        "walked_dims": stream.get("dims"),
    }  # fmt: skip
