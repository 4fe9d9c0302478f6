"""Schemas of the tables on disk, loaded from ``schemas/*.json``."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.tables.list_columns import from_text

_TYPES: Final[dict[str, pl.DataType]] = {
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "float64": pl.Float64(),
    "str": pl.String(),
    "bool": pl.Boolean(),
    "list[str]": pl.List(pl.String()),
    "list[list[int64]]": pl.List(pl.List(pl.Int64())),
    "list[list[list[int64]]]": pl.List(pl.List(pl.List(pl.Int64()))),
}


@dataclass(frozen=True)
class Column:
    """One column: its type, unit, whether it may be null, and what it means."""

    name: str
    type: str
    unit: str
    nullable: bool
    comment: str
    formerly: str = ""  # its name in earlier versions of the schema
    default: str | None = None  # value of a text where it is null, or absent from an earlier version


@dataclass(frozen=True)
class TableSchema:
    """One table: its columns in order and its version."""

    name: str
    version: int
    comment: str
    columns: tuple[Column, ...]

    @property
    def tag(self) -> str:
        """The value of ``tracetool.schema`` in the Parquet metadata, e.g. ``kernels/1``."""
        return f"{self.name}/{self.version}"

    def polars(self) -> Mapping[str, pl.DataType]:
        """Return the polars schema, in column order."""
        return {c.name: _TYPES[c.type] for c in self.columns}

    def empty(self) -> pl.DataFrame:
        """Return the table without rows."""
        return pl.DataFrame(schema=dict(self.polars()))

    def renamed(self, names: Collection[str]) -> dict[str, str]:
        """Return today's name of every column that ``names`` gives by its name in an earlier version."""
        return {c.formerly: c.name for c in self.columns if c.formerly in names and c.name not in names}

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with exactly these columns and types; absent nullable ones become null,
        nulls of a column with a default become that.

        A column under the name an earlier version of the schema gave it is taken as the column of today.

        Raises
        ------
        ValueError
            If a column that may not be null is absent or holds nulls: a fault of the reader.
        """
        frame, expressions = self._changes(frame)
        return (frame.with_columns(expressions) if expressions else frame).select(
            c.name for c in self.columns
        )

    def conform_lazily(self, frame: pl.DataFrame) -> pl.LazyFrame:
        """Return the same as :meth:`conform`, made as it is written: big tables are never widened in memory.

        Raises
        ------
        ValueError
            If a column that may not be null is absent or holds nulls: a fault of the reader.
        """
        frame, expressions = self._changes(frame)
        # columns that are all absent are as long as the table
        return frame.lazy().with_columns(expressions).select(c.name for c in self.columns)

    def _changes(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.Expr]]:
        """Return the frame under today's names, and the columns that are not yet what the schema says."""
        frame = frame.rename(self.renamed(frame.columns))
        types = frame.schema
        expressions = []
        for c in self.columns:
            stored, wanted = types.get(c.name), _TYPES[c.type]
            self._require_plain(c, stored)
            read = from_text(c.name, frame) if c.type.startswith("list") else None
            if stored is None and read is None and c.default is None and not c.nullable:
                raise ValueError(f"table {self.name}: column {c.name} is absent")
            nulls = frame[c.name].null_count() if stored is not None else 0
            if read is not None:
                expressions.append(read)
            elif c.default is not None:
                value = pl.col(c.name) if stored is not None else pl.lit(None)
                if nulls or stored != wanted:
                    expressions.append(value.cast(wanted).fill_null(c.default).alias(c.name))
            elif stored is None:
                expressions.append(pl.lit(None, dtype=wanted).alias(c.name))
            elif stored != wanted:
                expressions.append(pl.col(c.name).cast(wanted))
            if nulls and not c.nullable and c.default is None:
                raise ValueError(f"table {self.name}: column {c.name} holds nulls")
        return frame, expressions

    def _require_plain(self, column: Column, stored: pl.DataType | None) -> None:
        """Raise ValueError where a column holds structures: a cast changes what is in them, not them."""
        inner: object = stored
        while isinstance(inner, pl.List) and column.type.startswith("list"):
            inner = inner.inner
        if isinstance(inner, pl.DataType) and inner.is_nested():
            raise ValueError(f"table {self.name}: column {column.name} holds {stored}")


def _folder() -> Path:
    beside = Path(__file__).parent / "schemas"  # in a wheel
    return beside if beside.is_dir() else Path(__file__).parents[2] / "schemas"


@cache
def load_schema(name: str) -> TableSchema:
    """Return the schema called ``name`` (file name without ``.json``); BadInput where there is none."""
    file = _folder() / f"{name}.json"
    raw = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if "columns" not in raw:
        raise BadInput(f"no table called {name!r}", f"known: {', '.join(schema_names())}")
    return TableSchema(
        raw["name"], raw["version"], raw["comment"], tuple(Column(**c) for c in raw["columns"])
    )


def schema_names() -> list[str]:
    """Return the names of all table schemas."""
    return sorted(p.stem for p in _folder().glob("*.json") if "columns" in json.loads(p.read_text("utf-8")))
