"""Operator and kernel tables as users write them: read, checked, and turned into columns of the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from tracetool.core import escape
from tracetool.core.arrays import Ints, Numbers
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.paths import regular_file
from tracetool.families import names
from tracetool.families.operations import is_known, operations
from tracetool.families.spec import LIBRARY_COLUMNS
from tracetool.model.activity import ACTIVITY, MIX, MORE_ACTIVITY, OCCUPANCY
from tracetool.model.operands import is_product_family
from tracetool.replay.operand_content import CONTENT_COLUMN
from tracetool.replay.size_checks import check_sizes
from tracetool.replay.table_checks import (
    CONTENT,
    FAMILY_OF_OPERATOR,
    OPERATORS,
    UTILIZATIONS,
    check_kernels,
    check_operators,
    with_counts,
)
from tracetool.tables.counter_names import with_counter_names
from tracetool.tables.table_file import stored_table

Kind = Literal["operators", "kernels"]


#: Most columns without effect that a note names.
_MOST_NAMED = 12


@dataclass(frozen=True)
class InputTable:
    """A checked table and the distinct pieces of work in it.

    ``rows`` has one model row per distinct piece of work; ``index`` states which of them each input
    row is. Input rows stay in their order. ``unread`` names the columns that have no effect.
    """

    frame: pl.DataFrame
    kind: Kind
    name: str
    rows: OperatorColumns
    index: Ints
    unread: tuple[str, ...] = ()

    @property
    def counts(self) -> Numbers:
        """How often each input row runs: the ``count`` column, else 1. Shape (n,)."""
        if "count" not in self.frame.columns:
            return np.ones(self.frame.height)
        return self.frame["count"].cast(pl.Float64).fill_null(1.0).to_numpy()


def read_table(source: str | os.PathLike[str] | pl.DataFrame, *, of_means: bool = False) -> InputTable:
    """Read and check an operator or kernel table.

    Parameters
    ----------
    source : path or DataFrame
        ``.csv``, ``.parquet``, ``.json`` (a list of objects) or ``.jsonl``/``.ndjson``; a table with a
        column ``op`` is an operator table, one with ``kernel`` and ``duration_us`` a kernel table.
    of_means : bool
        Whether sizes of operators are means, as of the requests of a forecast: they need not be whole.

    Raises
    ------
    BadInput
        If the file cannot be read, or a column or value cannot be used; the row and column are named.
    """
    if isinstance(source, pl.DataFrame):
        name, frame = "table", source
    else:
        name, frame = os.fspath(source), load_table(Path(source))
    frame = with_counter_names(frame) if "op" not in frame.columns else frame
    if not frame.height:
        raise BadInput.in_file(name, "holds no rows", "give a row for each operator or kernel")
    if "op" in frame.columns:
        columns = check_operators(name, frame)
        if not of_means:
            check_sizes(name, columns)
        kind: Kind = "operators"
    elif {"kernel", "duration_us"} <= set(frame.columns):
        columns = check_kernels(name, frame)
        kind = "kernels"
    elif _MODEL_FIELDS & set(frame.columns):
        raise BadInput.in_file(
            name,
            "is the configuration of a model, no table",
            f"forecast it, at several clocks too: tracetool forecast {name} --gpu GPU --clock 900:1800:100",
        )
    else:
        raise BadInput.in_file(
            name,
            "is neither an operator table (column op) nor a kernel table (columns kernel, duration_us)",
            f"name its columns as tracetool schema operator_table does; they are: {_listed(frame.columns)}",
        )
    distinct, index = _distinct(columns)
    unread = _unread(frame, columns, kind)
    frame = with_counts(name, frame)
    return InputTable(frame, kind, name, _model_columns(distinct, kind), index, unread)


def _unread(frame: pl.DataFrame, columns: pl.DataFrame, kind: Kind) -> tuple[str, ...]:
    """Return the columns of a table that are not used, in their order."""
    if kind == "kernels":
        effective = {*columns.columns, *UTILIZATIONS} - {
            c for c in columns.columns if c.startswith(("act_", "mix_"))
        }
        effective |= {*ACTIVITY, *MORE_ACTIVITY, OCCUPANCY, "occupancy", *MIX}
        product = True
    else:
        operators = [OPERATORS[op] for op in columns["op"].unique().to_list()]
        effective = {"op", "dtype", "count", *LIBRARY_COLUMNS, *CONTENT}
        effective |= {c for one in operators for c in (*one.needs, *one.takes)}
        product = any(is_product_family(FAMILY_OF_OPERATOR[one.op]) for one in operators)
    return tuple(c for c in frame.columns if c not in effective or (c in CONTENT and not product))


#: How a user turns a pipe into a file that is read.
_PIPED: Final = "... > table.csv"


#: Fields that configurations of models have, of transformers and of diffusers.
_MODEL_FIELDS: Final = frozenset({"model_type", "_class_name", "architectures"})


def load_table(path: Path) -> pl.DataFrame:
    """Return a table file as it is; BadInput states why it cannot be read."""
    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        # a pipe states no kind, has no size to hold against the memory, and is read once
        raise BadInput.in_file(
            path, "is a pipe, and a table is read from a file", f"write it to one: {_PIPED}"
        )
    regular_file(path, "give a run (tracetool ingest TRACE makes one) or a table")
    suffix = path.suffix.lower()
    if suffix not in (".parquet", *_TEXT_READERS):
        raise BadInput.in_file(path, f"unknown kind of table {suffix!r}", "give .csv, .parquet or .json")
    return stored_table(path, _TEXT_READERS.get(suffix, _read_csv), suffix[1:])


def _read_csv(raw: bytes) -> pl.DataFrame:
    if b'"' in raw:
        # An unclosed quote is refused here; where polars infers types, it prints a trace of its own first.
        pl.read_csv(raw, infer_schema=False)
    return pl.read_csv(raw, infer_schema_length=None, null_values=["", "null", "NaN", "nan"])


def _read_lines(raw: bytes) -> pl.DataFrame:
    return pl.read_ndjson(raw, infer_schema_length=None)


#: How a table of text of each ending is read from its bytes.
_TEXT_READERS: Final[dict[str, Callable[[bytes], pl.DataFrame]]] = {
    ".csv": _read_csv,
    ".json": lambda raw: pl.read_json(raw, infer_schema_length=None),
    ".jsonl": _read_lines,
    ".ndjson": _read_lines,
}


def unread_notes(table: InputTable) -> list[str]:
    """Return which columns of a table have no effect, and which kinds of operation are not known."""
    notes = _unknown_kinds(table)
    if not table.unread:
        return notes
    listed = _listed(table.unread)
    more = f" and {len(table.unread) - _MOST_NAMED} more" if len(table.unread) > _MOST_NAMED else ""
    return [*notes, f"columns without effect: {listed}{more}"]


def _unknown_kinds(table: InputTable) -> list[str]:
    rows = table.rows
    texts, place = rows.distinct("kind")
    computing = rows.in_families(names.ELEMENTWISE, names.NORM)
    used = np.bincount(place, weights=computing, minlength=len(texts)) > 0
    unknown = [
        str(t) for t, is_used in zip(texts, used, strict=True) if is_used and t and not is_known(str(t))
    ]
    if not unknown:
        return []
    meant = get_close_matches(unknown[0].lower(), operations(), n=1)
    hint = f"did you mean {meant[0]}?" if meant else f"known: {', '.join(operations())}"
    return [f"kind not known, counted as two FLOPs an element: {_listed(unknown)} ({hint})"]


def _listed(texts: Sequence[str]) -> str:
    """Return the first of some texts of others, each on one line."""
    return ", ".join(escape.name(text) for text in texts[:_MOST_NAMED])


def _distinct(columns: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Return the distinct rows, in order of first appearance, and each row's place among them."""
    keyed = columns.with_row_index("_row")
    unique = columns.unique(maintain_order=True).with_row_index("_place")
    joined = keyed.join(unique, on=columns.columns, how="left", nulls_equal=True, maintain_order="left")
    return unique.drop("_place"), joined["_place"].cast(pl.Int64).to_numpy()


def as_columns(frame: pl.DataFrame, family: pl.Series) -> OperatorColumns:
    """Return a frame as columns of the model: numbers as float64 with NaN, texts with "" for null."""
    columns: dict[str, Numbers] = {}
    for column in frame.columns:
        series = frame[column]
        if series.dtype == pl.String:
            columns[column] = series.fill_null("").to_numpy().astype(object)
        elif series.dtype.is_numeric() or series.dtype == pl.Boolean:
            columns[column] = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return OperatorColumns(family.fill_null(names.UNKNOWN).to_numpy().astype(object), columns)


def _model_columns(columns: pl.DataFrame, kind: Kind) -> OperatorColumns:
    columns = columns.rename({"operands": CONTENT_COLUMN}, strict=False)
    if kind == "operators":
        family = columns["op"].replace_strict(FAMILY_OF_OPERATOR)
        columns = columns.with_columns(pl.lit("operator").alias("shape_source"))
        return as_columns(columns, family)
    renamed = columns.rename(
        {"clock_mhz": "recorded_clock_mhz", "mem_clock_mhz": "recorded_mem_clock_mhz"}, strict=False
    )
    blocks = [pl.col(c).fill_null(1.0) for c in ("grid_x", "grid_y", "grid_z") if c in columns.columns]
    threads = [pl.col(c).fill_null(1.0) for c in ("block_x", "block_y", "block_z") if c in columns.columns]
    added = [pl.lit("none").alias("shape_source"), pl.col("kernel").alias("name")]
    if blocks:
        added.append(_product(blocks).alias("blocks"))
    if threads:
        added.append(_product(threads).alias("threads"))
    renamed = renamed.with_columns(added).rename({"registers_per_thread": "registers"}, strict=False)
    return as_columns(renamed, _families(columns))


def _product(factors: list[pl.Expr]) -> pl.Expr:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _families(columns: pl.DataFrame) -> pl.Series:
    """The family column given, else the family the kernel's name states."""
    from tracetool.kernels.classify import classify_names

    name_family = classify_names(columns["kernel"].to_list())["family"]
    return columns["family"].fill_null(name_family) if "family" in columns.columns else name_family
