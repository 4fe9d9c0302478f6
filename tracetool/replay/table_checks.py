"""Checks of operator and kernel tables: every column and value, the row named where one is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetool.core.dtype import BYTES, SPELLINGS, canonical_dtype
from tracetool.core.errors import BadInput
from tracetool.families.registry import families
from tracetool.families.spec import LIBRARY_COLUMNS, TableOperator
from tracetool.tables.schema import load_schema
from tracetool.tables.table_file import plain_texts

#: Columns of what operands hold, and those of them that are shares.
CONTENT: Final = ("operands", "sparsity", "toggle")
SHARES: Final = ("sparsity", "toggle")
#: Utilizations of a profiler, and the share of activity each is read as.
UTILIZATIONS: Final[Mapping[str, str]] = {
    **{f"util_{unit}": f"act_{unit}" for unit in ("dram", "tensor", "fp64", "fp32", "fp16")},
    **{f"util_{unit}": f"act_{unit}" for unit in ("l2", "shared", "int", "sfu")},
    "util_sm_active": "act_sm",
}
#: The operators a table may name, as their families state them.
OPERATORS: Final[Mapping[str, TableOperator]] = {
    operator.op: operator for family in families().values() for operator in family.table
}
#: Family of each of them.
FAMILY_OF_OPERATOR: Final[Mapping[str, str]] = {
    operator.op: name for name, family in families().items() for operator in family.table
}
#: Texts of a kernel table beside those of an operator table.
_KERNEL_TEXTS: Final = frozenset({"kernel", "family"})
#: Columns that may be zero; every other number of an operator is at least 1.
_MAY_BE_ZERO: Final = frozenset({"window", "padding", "reads", "writes", "bytes", "elements", *SHARES})
#: Launch geometry of a kernel table and what it is called among the model's columns.
_GEOMETRY: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers_per_thread", "shared_static_bytes", "shared_dynamic_bytes"),
)
_KERNEL_NUMBERS: Final = ("duration_us", "power_w", "clock_mhz", "mem_clock_mhz", "temperature_c", *_GEOMETRY)
#: No kernel is shorter, draws less or runs slower: a picosecond, a microwatt, a hertz. [us, W, MHz] Priors.
_LEAST: Final = 1e-6
#: No GPU runs at more: they throttle at 80 to 110. [degrees Celsius] A prior.
_HOTTEST_C: Final = 200.0
#: No column counts more than this; products of a few stay finite.
_MOST: Final = 1e15


@cache
def column_types() -> Mapping[str, str]:
    """Return the type of every column of an operator table, as its schema states it."""
    return {column.name: column.type for column in load_schema("operator_table").columns}


def _is_text(column: str) -> bool:
    return column in _KERNEL_TEXTS or column_types().get(column) == "str"


def _is_flag(column: str) -> bool:
    return column_types().get(column) == "bool"


def _first(mask: NDArray[np.bool_] | pl.Series) -> int:
    """Return the row number, counted from 1, of the first true value."""
    return int(np.argmax(mask)) + 1


def _is_other(dtype: pl.DataType) -> bool:
    """Whether a type is neither of numbers nor of text: lists, bytes, dates (polars casts one to days)."""
    return dtype.is_nested() or dtype.is_temporal() or dtype in (pl.Binary, pl.Object)


def number_column(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a column as float64, nulls kept; every other value must be a finite number."""
    raw = plain_texts(frame[column])
    if _is_other(raw.dtype):
        raise BadInput.in_file(name, f"column {column} holds {raw.dtype}, not numbers")
    numbers = (
        raw.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
        if raw.dtype == pl.String
        else raw.cast(pl.Float64, strict=False)
    )
    values = numbers.to_numpy()
    absent = np.isnan(values)
    if not raw.dtype.is_numeric() and (bad := absent & raw.is_not_null().to_numpy()).any():
        row = _first(bad)
        raise BadInput.in_file(name, f"row {row}, column {column}: {raw[row - 1]!r} is not a number")
    sizes = np.abs(values)
    if (wild := np.isinf(sizes)).any():
        raise BadInput.in_file(name, f"row {_first(wild)}, column {column}: is not finite")
    if (vast := sizes > _MOST).any():
        row = _first(vast)
        raise BadInput.in_file(name, f"row {row}, column {column}: {values[row - 1]:g} is beyond {_MOST:g}")
    return numbers if numbers.null_count() == np.count_nonzero(absent) else numbers.fill_nan(None)


def _text(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    if _is_other(frame[column].dtype):
        raise BadInput.in_file(name, f"column {column} holds {frame[column].dtype}, not text")
    return frame[column].cast(pl.String).str.strip_chars()


def _flag(name: str, frame: pl.DataFrame, column: str) -> pl.Series:
    raw = plain_texts(frame[column])
    if raw.dtype != pl.String:
        flags = number_column(name, frame, column)
        bad = ~flags.is_in([0.0, 1.0]).fill_null(value=True)
    else:
        words = {"true": 1.0, "1": 1.0, "yes": 1.0, "false": 0.0, "0": 0.0, "no": 0.0}
        flags = raw.str.strip_chars().str.to_lowercase().replace_strict(words, default=None)
        bad = flags.is_null() & raw.is_not_null()
    if bad.any():
        row = _first(bad)
        raise BadInput.in_file(
            name, f"row {row}, column {column}: {raw[row - 1]!r} is neither true nor false"
        )
    return flags.cast(pl.Float64)


def _columns(name: str, frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    checked = []
    for column in names:
        if column not in frame.columns:
            continue
        read = _text if _is_text(column) else _flag if _is_flag(column) else number_column
        checked.append(read(name, frame, column).alias(column))
    return pl.DataFrame(checked)


def _dtypes(name: str, columns: pl.DataFrame, column: str) -> pl.DataFrame:
    """Replace spellings by our names; an unknown one is an error."""
    if column not in columns.columns:
        return columns
    texts = columns[column]
    canonical = {text: canonical_dtype(text) for text in texts.unique().to_list() if text}
    if unknown := [text for text, dtype in canonical.items() if dtype is None]:
        row = _first((texts == unknown[0]).fill_null(value=False))
        raise BadInput.in_file(
            name,
            f"row {row}, column {column}: unknown number format {unknown[0]!r}",
            f"known: {', '.join(BYTES)} and spellings such as {next(iter(SPELLINGS))}",
        )
    return columns.with_columns(texts.replace_strict(canonical, default=None, return_dtype=pl.String))


def with_counts(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a checked table whose ``count`` is a number, null where nothing is stated."""
    if "count" not in frame.columns or frame["count"].dtype.is_integer():
        return frame
    return frame.with_columns(number_column(name, frame, "count"))


def operator_table_columns() -> tuple[str, ...]:
    """Return the columns of an operator table that are read: of each operator, and beside any."""
    operator_columns = (column for one in OPERATORS.values() for column in (*one.needs, *one.takes))
    return tuple(dict.fromkeys(["op", "dtype", "count", *operator_columns, *LIBRARY_COLUMNS, *CONTENT]))


def check_operators(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of an operator table that the model reads, typed and in range.

    Raises
    ------
    BadInput
        If a row is missing a column its op needs, or a value cannot be used.
    """
    column_names = operator_table_columns()
    columns = _columns(name, frame, column_names)
    for column in ("dtype", "kv_dtype", "state_dtype"):
        columns = _dtypes(name, columns, column)
    operator_names = columns["op"].str.to_lowercase()
    unknown = ~operator_names.is_in(list(OPERATORS)).fill_null(value=False)
    if unknown.any():
        row = _first(unknown)
        raise BadInput.in_file(
            name, f"row {row}: unknown op {columns['op'][row - 1]!r}", f"known: {', '.join(OPERATORS)}"
        )
    columns = columns.with_columns(operator_names.alias("op"))
    unread = [column for column in frame.columns if column not in column_names]
    for op in operator_names.unique(maintain_order=True).to_list():
        needs = (*OPERATORS[op].needs, *(("dtype",) if OPERATORS[op].dtype else ()))
        _need(name, columns, operator_names == op, needs, op, unread)
    for column in columns.columns:
        if _is_text(column) or _is_flag(column):
            continue
        least = 0.0 if column in _MAY_BE_ZERO or column == "count" else 1.0
        low = (columns[column] < least).fill_null(value=False)
        if low.any():
            row = _first(low)
            raise BadInput.in_file(
                name,
                f"row {row}, column {column}: {columns[column][row - 1]:g} is below {least:g}",
                f"state {least:g} or more, or nothing where docs/tables.md has a default",
            )
    _check_shares(name, columns)
    _check_order(name, columns)
    columns = _with_phase(_choices(name, columns))
    for op in operator_names.unique(maintain_order=True).to_list():
        for phase, needs in OPERATORS[op].in_phase.items():
            rows = ((operator_names == op) & (columns["phase"] == phase)).fill_null(value=False)
            _need(name, columns, rows, needs, f"{op} of phase {phase}", unread)
    return _with_defaults(columns).drop("count", strict=False)


def _check_shares(name: str, columns: pl.DataFrame) -> None:
    """Raise BadInput where a share is above 1."""
    for column in SHARES:
        if column in columns.columns and (columns[column] > 1.0).fill_null(value=False).any():
            row = _first((columns[column] > 1.0).fill_null(value=False))
            value = columns[column][row - 1]
            raise BadInput.in_file(
                name, f"row {row}, column {column}: {value:g} is not a share", "shares lie between 0 and 1"
            )


def _check_order(name: str, columns: pl.DataFrame) -> None:
    """Raise BadInput where a count exceeds the one it is chosen from: experts, heads, channels."""
    for op, record in OPERATORS.items():
        for column, limit in record.at_most.items():
            if not {column, limit} <= set(columns.columns):
                continue
            more = ((columns["op"] == op) & (columns[column] > columns[limit])).fill_null(value=False)
            if more.any():
                row = _first(more)
                value, most = columns[column][row - 1], columns[limit][row - 1]
                raise BadInput.in_file(
                    name,
                    f"row {row}, column {column}: {value:g} is more than {limit}, {most:g}",
                    f"check whether {column} and {limit} are exchanged",
                )


def _need(
    name: str, columns: pl.DataFrame, rows: pl.Series, needs: Iterable[str], what: str, unread: Iterable[str]
) -> None:
    """Raise BadInput where one of some rows is missing a column it needs, with what may be it misspelled."""
    for column in needs:
        absent = rows & (columns[column].is_null() if column in columns.columns else True)
        if absent.any():
            row = _first(absent)
            spelled = (
                {unread_column.lower(): unread_column for unread_column in unread}
                if column not in columns.columns
                else {}
            )
            near = difflib.get_close_matches(column, spelled, n=1)
            meant = f"is column {spelled[near[0]]!r} meant? " if near else ""
            raise BadInput.in_file(
                name,
                f"row {row}: {what} needs column {column}",
                f"{meant}{columns['op'][row - 1]} takes {_signature(columns['op'][row - 1])}",
            )


def _choices(name: str, columns: pl.DataFrame) -> pl.DataFrame:
    """Return the columns, or raise BadInput where a text is none of those its operator takes."""
    for op, record in OPERATORS.items():
        for column, words in record.choices.items():
            if column not in columns.columns:
                continue
            wrong = ((columns["op"] == op) & ~columns[column].is_in(words)).fill_null(value=False)
            if wrong.any():
                row = _first(wrong)
                raise BadInput.in_file(
                    name,
                    f"row {row}: unknown {column} {columns[column][row - 1]!r}",
                    f"known: {', '.join(words)}",
                )
    return columns


def _with_phase(columns: pl.DataFrame) -> pl.DataFrame:
    """Complete ``phase`` of operators with queries: decode for one query token, prefill for more."""
    phased = [op for op, one in OPERATORS.items() if "phase" in one.takes and "q_len" in one.needs]
    if not columns["op"].is_in(phased).any():
        return columns
    guess = (
        pl.when(~pl.col("op").is_in(phased))
        .then(None)
        .when(pl.col("q_len") <= 1)
        .then(pl.lit("decode"))
        .otherwise(pl.lit("prefill"))
    )
    stated_phase = pl.col("phase") if "phase" in columns.columns else pl.lit(None, dtype=pl.String)
    return columns.with_columns(pl.coalesce(stated_phase, guess).alias("phase"))


def _with_defaults(columns: pl.DataFrame) -> pl.DataFrame:
    """Complete columns that default to another one of the row."""
    for op, record in OPERATORS.items():
        for column, source in record.same.items():
            if not (columns["op"] == op).any():
                continue
            if column not in columns.columns:
                columns = columns.with_columns(pl.lit(None, dtype=pl.Float64).alias(column))
            default = pl.when(pl.col("op") == op).then(source)
            columns = columns.with_columns(pl.coalesce(column, default).alias(column))
    return columns


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
    for stated, share in UTILIZATIONS.items():
        if {stated, share} <= set(frame.columns):  # rows in which a monitor's field is empty
            filled = number_column(name, frame, share).fill_null(number_column(name, frame, stated))
            frame = frame.with_columns(filled.alias(share))
    as_activity = {u: a for u, a in UTILIZATIONS.items() if u in frame.columns and a not in frame.columns}
    frame = frame.rename(as_activity)
    extra = [c for c in frame.columns if c.startswith(("mix_", "act_"))]
    columns = _columns(
        name, frame, ("kernel", "family", "dtype", "count", *_KERNEL_NUMBERS, *CONTENT, *extra)
    )
    for column in ("kernel", "duration_us"):
        if columns[column].null_count():
            row = _first(columns[column].is_null())
            raise BadInput.in_file(name, f"row {row}, column {column}: is empty")
    for column in columns.columns:
        if _is_text(column):
            continue
        wrong = columns[column] < (_LEAST if column in _KERNEL_NUMBERS[:4] else 0.0)
        if column == "temperature_c":
            wrong |= columns[column] > _HOTTEST_C
        if wrong.fill_null(value=False).any():
            row = _first(wrong.fill_null(value=False))
            raise BadInput.in_file(
                name, f"row {row}, column {column}: {columns[column][row - 1]:g} is out of range"
            )
        is_share = column.startswith(("mix_", "act_")) or column in SHARES
        high = columns[column] > 1.02 if is_share else None
        if high is not None and high.fill_null(value=False).any():
            row = _first(high.fill_null(value=False))
            raise BadInput.in_file(
                name,
                f"row {row}, column {column}: {columns[column][row - 1]:g} is not a share",
                "shares lie between 0 and 1",
            )
    return _dtypes(name, columns.drop("count", strict=False), "dtype")
