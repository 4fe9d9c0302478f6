"""Checks of operator and kernel tables: every column and value, the row named where one is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from tracetool.vocabulary.dtype import BYTES, SPELLINGS, canonical_dtype
from tracetool.vocabulary.errors import BadInput


@dataclass(frozen=True)
class Operator:
    """One ``op`` of an operator table: its family and the columns it reads."""

    family: str
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    dtype: bool = True


#: The operators a table may name.
OPERATORS: Final[Mapping[str, Operator]] = {
    "gemm": Operator("gemm", ("m", "n", "k"), ("batch",)),
    "conv2d": Operator(
        "conv",
        ("batch", "channels", "height", "width", "filters", "kernel_h", "kernel_w"),
        ("stride", "padding", "groups"),
    ),
    "attention": Operator(
        "attention",
        ("batch", "q_len", "heads", "head_dim"),
        ("phase", "kv_len", "kv_heads", "causal", "window", "kv_dtype"),
    ),
    "moe": Operator(
        "moe", ("tokens", "hidden", "intermediate", "top_k", "experts"), ("tp", "ep", "distribution")
    ),
    "norm": Operator("norm", ("rows", "cols")),
    "softmax": Operator("softmax", ("rows", "cols")),
    "elementwise": Operator("elementwise", ("elements",), ("reads", "writes")),
    "collective": Operator("collective", ("bytes", "ranks"), ("kind",), dtype=False),
    "memcpy": Operator("memcpy", ("bytes",), ("kind",), dtype=False),
}
_TEXTS: Final = frozenset({"op", "dtype", "kv_dtype", "phase", "kind", "distribution", "kernel", "family"})
_FLAGS: Final = frozenset({"causal"})
#: Columns that may be zero; every other number of an operator is at least 1.
_MAY_BE_ZERO: Final = frozenset({"window", "padding", "reads", "writes", "bytes", "elements"})
#: Launch geometry of a kernel table and what it is called among the model's columns.
_GEOMETRY: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers_per_thread", "shared_static_bytes", "shared_dynamic_bytes"),
)
_KERNEL_NUMBERS: Final = ("duration_us", "power_w", "clock_mhz", "mem_clock_mhz", *_GEOMETRY)
#: No column counts more than this; products of a few stay finite.
_MOST: Final = 1e15
_PHASES: Final = ("prefill", "decode", "backward")


def _first(mask: pl.Series) -> int:
    """Row number, counted from 1, of the first true value."""
    return int(mask.arg_true()[0]) + 1


def _number(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a column as float64, nulls kept; every other value must be a finite number."""
    raw = frame[column]
    if raw.dtype.is_nested():
        raise BadInput.in_file(name, f"column {column} holds {raw.dtype}, not numbers")
    made = (
        raw.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
        if raw.dtype == pl.String
        else raw.cast(pl.Float64, strict=False)
    ).fill_nan(None)
    empty = raw.is_null() | (raw.is_nan() if raw.dtype.is_float() else False)
    bad = made.is_null() & ~empty
    if bad.any():
        row = _first(bad)
        raise BadInput.in_file(name, f"row {row}, column {column}: {raw[row - 1]!r} is not a number")
    if (wild := made.is_infinite().fill_null(value=False)).any():
        raise BadInput.in_file(name, f"row {_first(wild)}, column {column}: is not finite")
    if (vast := (made.abs() > _MOST).fill_null(value=False)).any():
        row = _first(vast)
        raise BadInput.in_file(name, f"row {row}, column {column}: {made[row - 1]:g} is beyond {_MOST:g}")
    return made


def _text(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    if frame[column].dtype.is_nested():
        raise BadInput.in_file(name, f"column {column} holds {frame[column].dtype}, not text")
    return frame[column].cast(pl.String).str.strip_chars()


def _flag(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    raw = frame[column]
    if raw.dtype == pl.Boolean:
        return raw.cast(pl.Float64)
    if raw.dtype != pl.String:
        return _number(name, frame, column)
    made = (
        raw.str.strip_chars()
        .str.to_lowercase()
        .replace_strict({"true": 1.0, "1": 1.0, "yes": 1.0, "false": 0.0, "0": 0.0, "no": 0.0}, default=None)
    )
    bad = made.is_null() & raw.is_not_null()
    if bad.any():
        row = _first(bad)
        raise BadInput.in_file(
            name, f"row {row}, column {column}: {raw[row - 1]!r} is neither true nor false"
        )
    return made.cast(pl.Float64)


def _columns(name: str, frame: pl.DataFrame, wanted: Iterable[str]) -> pl.DataFrame:
    made = []
    for column in wanted:
        if column not in frame.columns:
            continue
        read = _text if column in _TEXTS else _flag if column in _FLAGS else _number
        made.append(read(name, frame, column).alias(column))
    return pl.DataFrame(made)


def _dtypes(name: str, columns: pl.DataFrame, column: str) -> pl.DataFrame:
    """Replace spellings by our names; an unknown one is an error."""
    if column not in columns.columns:
        return columns
    given = columns[column]
    known = {text: canonical_dtype(text) for text in given.unique().to_list() if text}
    if unknown := [text for text, dtype in known.items() if dtype is None]:
        row = _first((given == unknown[0]).fill_null(value=False))
        raise BadInput.in_file(
            name,
            f"row {row}, column {column}: unknown number format {unknown[0]!r}",
            f"known: {', '.join(list(BYTES)[:16])} and spellings such as {next(iter(SPELLINGS))}",
        )
    return columns.with_columns(given.replace_strict(known, default=None, return_dtype=pl.String))


def check_operators(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of an operator table that the model reads, typed and in range.

    Raises
    ------
    BadInput
        If a row lacks a column its op needs, or a value cannot be used.
    """
    taken = (c for o in OPERATORS.values() for c in (*o.needs, *o.takes))
    wanted = dict.fromkeys(["op", "dtype", "count", *taken])
    columns = _dtypes(name, _dtypes(name, _columns(name, frame, wanted), "dtype"), "kv_dtype")
    given = columns["op"].str.to_lowercase()
    unknown = ~given.is_in(list(OPERATORS)).fill_null(value=False)
    if unknown.any():
        row = _first(unknown)
        raise BadInput.in_file(
            name, f"row {row}: unknown op {columns['op'][row - 1]!r}", f"known: {', '.join(OPERATORS)}"
        )
    columns = columns.with_columns(given.alias("op"))
    for op in given.unique(maintain_order=True).to_list():
        here = given == op
        needs = (*OPERATORS[op].needs, *(("dtype",) if OPERATORS[op].dtype else ()))
        for column in needs:
            absent = here & (columns[column].is_null() if column in columns.columns else True)
            if absent.any():
                raise BadInput.in_file(
                    name, f"row {_first(absent)}: {op} needs column {column}", f"{op} takes {_signature(op)}"
                )
    for column in columns.columns:
        if column in _TEXTS or column in _FLAGS:
            continue
        least = 0.0 if column in _MAY_BE_ZERO or column == "count" else 1.0
        low = (columns[column] < least).fill_null(value=False)
        if low.any():
            row = _first(low)
            raise BadInput.in_file(
                name, f"row {row}, column {column}: {columns[column][row - 1]:g} is below {least:g}"
            )
    if "phase" in columns.columns:
        wrong = ((given == "attention") & ~columns["phase"].is_in(_PHASES)).fill_null(value=False)
        if wrong.any():
            row = _first(wrong)
            raise BadInput.in_file(
                name,
                f"row {row}: unknown phase {columns['phase'][row - 1]!r}",
                f"known: {', '.join(_PHASES)}",
            )
    return columns.drop("count", strict=False)


def _signature(op: str) -> str:
    record = OPERATORS[op]
    takes = f" and optionally {' '.join(record.takes)}" if record.takes else ""
    return " ".join(("dtype", *record.needs) if record.dtype else record.needs) + takes


def check_kernels(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of a kernel table that the model reads, typed and in range.

    Raises
    ------
    BadInput
        If a value cannot be used.
    """
    # Monitors and profilers write occupancy without a prefix; beside shares of activity it is one more.
    if "occupancy" in frame.columns and any(c.startswith("act_") for c in frame.columns):
        frame = frame.rename({"occupancy": "act_occupancy"}, strict=False)
    extra = [c for c in frame.columns if c.startswith(("mix_", "act_"))]
    columns = _columns(name, frame, ("kernel", "family", "dtype", *_KERNEL_NUMBERS, *extra))
    for column in ("kernel", "duration_us"):
        if columns[column].null_count():
            row = _first(columns[column].is_null())
            raise BadInput.in_file(name, f"row {row}, column {column}: is empty")
    for column in columns.columns:
        if column in _TEXTS:
            continue
        low = (columns[column] <= 0.0) if column in _KERNEL_NUMBERS[:4] else (columns[column] < 0.0)
        if low.fill_null(value=False).any():
            row = _first(low.fill_null(value=False))
            raise BadInput.in_file(
                name, f"row {row}, column {column}: {columns[column][row - 1]:g} is out of range"
            )
        high = columns[column] > 1.02 if column.startswith(("mix_", "act_")) else None
        if high is not None and high.fill_null(value=False).any():
            row = _first(high.fill_null(value=False))
            raise BadInput.in_file(
                name,
                f"row {row}, column {column}: {columns[column][row - 1]:g} is not a share",
                "shares lie between 0 and 1",
            )
    return _dtypes(name, columns, "dtype")
