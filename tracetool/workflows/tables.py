"""Operator and kernel tables as users write them: read, checked, and turned into columns of the model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from tracetool.vocabulary.arrays import Ints, Numbers
from tracetool.vocabulary.dtype import BYTES, SPELLINGS, canonical_dtype
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns

Kind = Literal["operators", "kernels"]


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
_PHASES: Final = ("prefill", "decode", "backward")


@dataclass(frozen=True)
class InputTable:
    """A checked table and the distinct pieces of work in it.

    ``rows`` has one model row per distinct piece of work; ``index`` tells which of them each input
    row is. Input rows stay in their order.
    """

    frame: pl.DataFrame
    kind: Kind
    name: str
    rows: OperatorColumns
    index: Ints

    @property
    def counts(self) -> Numbers:
        """How often each input row runs: the ``count`` column, else 1. Shape (n,)."""
        if "count" not in self.frame.columns:
            return np.ones(self.frame.height)
        return self.frame["count"].cast(pl.Float64).fill_null(1.0).to_numpy()


def read_table(source: str | os.PathLike[str] | pl.DataFrame) -> InputTable:
    """Read and check an operator or kernel table.

    Parameters
    ----------
    source : path or DataFrame
        ``.csv``, ``.parquet``, ``.json`` (a list of objects) or ``.jsonl``/``.ndjson``; a table with a
        column ``op`` is an operator table, one with ``kernel`` and ``duration_us`` a kernel table.

    Raises
    ------
    BadInput
        If the file cannot be read, or a column or value cannot be used; the row and column are named.
    """
    if isinstance(source, pl.DataFrame):
        name, frame = "table", source
    else:
        name, frame = os.fspath(source), _load(Path(source))
    if not frame.height:
        raise BadInput.in_file(name, "holds no rows")
    if "op" in frame.columns:
        columns = _check_operators(name, frame)
        kind: Kind = "operators"
    elif {"kernel", "duration_us"} <= set(frame.columns):
        columns = _check_kernels(name, frame)
        kind = "kernels"
    else:
        raise BadInput.in_file(
            name,
            "is neither an operator table (column op) nor a kernel table (columns kernel, duration_us)",
            f"its columns: {', '.join(frame.columns[:8])}",
        )
    distinct, index = _distinct(columns)
    return InputTable(frame, kind, name, _model_columns(distinct, kind), index)


def _load(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise BadInput.in_file(path, "no such file")
    suffix = path.suffix.lower()
    readers = {
        ".csv": lambda: pl.read_csv(path, infer_schema_length=None, null_values=["", "null", "NaN", "nan"]),
        ".parquet": lambda: pl.read_parquet(path),
        ".json": lambda: pl.read_json(path, infer_schema_length=None),
        ".jsonl": lambda: pl.read_ndjson(path, infer_schema_length=None),
        ".ndjson": lambda: pl.read_ndjson(path, infer_schema_length=None),
    }
    if suffix not in readers:
        raise BadInput.in_file(path, f"unknown kind of table {suffix!r}", "give .csv, .parquet or .json")
    try:
        return readers[suffix]()
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        fault = (str(error).splitlines() or ["unreadable"])[0][:160]
        raise BadInput.in_file(path, f"cannot be read as {suffix[1:]}: {fault}") from error


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


def _check_operators(name: str, frame: pl.DataFrame) -> pl.DataFrame:
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


def _check_kernels(name: str, frame: pl.DataFrame) -> pl.DataFrame:
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


def _distinct(columns: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Return the distinct rows, in order of first appearance, and each row's place among them."""
    keyed = columns.with_row_index("_row")
    unique = columns.unique(maintain_order=True).with_row_index("_place")
    joined = keyed.join(unique, on=columns.columns, how="left", nulls_equal=True, maintain_order="left")
    return unique.drop("_place"), joined["_place"].cast(pl.Int64).to_numpy()


def as_columns(frame: pl.DataFrame, family: pl.Series) -> OperatorColumns:
    """Return a frame as columns of the model: numbers as float64 with NaN, texts with "" for null."""
    made: dict[str, Numbers] = {}
    for column in frame.columns:
        series = frame[column]
        if series.dtype == pl.String:
            made[column] = series.fill_null("").to_numpy().astype(object)
        elif series.dtype.is_numeric() or series.dtype == pl.Boolean:
            made[column] = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return OperatorColumns(family.fill_null("unknown").to_numpy().astype(object), made)


def _model_columns(columns: pl.DataFrame, kind: Kind) -> OperatorColumns:
    if kind == "operators":
        family = columns["op"].replace_strict({k: v.family for k, v in OPERATORS.items()})
        if "phase" in columns.columns or "attention" in columns["op"]:
            columns = columns.with_columns(_phase(columns))
        columns = columns.with_columns(pl.lit("operator").alias("shape_source"))
        return as_columns(columns, family)
    renamed = columns.rename(
        {"clock_mhz": "recorded_clock_mhz", "mem_clock_mhz": "recorded_mem_clock_mhz"}, strict=False
    )
    blocks = [pl.col(c).fill_null(1.0) for c in ("grid_x", "grid_y", "grid_z") if c in columns.columns]
    threads = [pl.col(c).fill_null(1.0) for c in ("block_x", "block_y", "block_z") if c in columns.columns]
    made = [pl.lit("none").alias("shape_source"), pl.col("kernel").alias("name")]
    if blocks:
        made.append(_product(blocks).alias("blocks"))
    if threads:
        made.append(_product(threads).alias("threads"))
    renamed = renamed.with_columns(made).rename({"registers_per_thread": "registers"}, strict=False)
    return as_columns(renamed, _families(columns))


def _product(factors: list[pl.Expr]) -> pl.Expr:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _phase(columns: pl.DataFrame) -> pl.Series:
    """The phase given, else decode for one query token and prefill for more."""
    guess = pl.when(pl.col("op") != "attention").then(None)
    guess = guess.when(pl.col("q_len") <= 1).then(pl.lit("decode")).otherwise(pl.lit("prefill"))
    given = pl.col("phase") if "phase" in columns.columns else pl.lit(None, dtype=pl.String)
    return columns.select(pl.coalesce(given, guess).alias("phase"))["phase"]


def _families(columns: pl.DataFrame) -> pl.Series:
    """The family column given, else the family the kernel's name states."""
    from tracetool.classify.classify import classify_names

    said = classify_names(columns["kernel"].to_list())["family"]
    return columns["family"].fill_null(said) if "family" in columns.columns else said
