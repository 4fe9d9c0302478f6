"""One data model for every output: the content of a report, independent of its layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import polars as pl

from tracetool.tables.schema import TableSchema


@dataclass(frozen=True)
class Line:
    """A sentence. Its text is raw: the renderer escapes it."""

    text: str
    kind: Literal["headline", "plain", "note", "warning"] = "plain"
    symbol: str = ""  # stands before it where symbols can be shown


@dataclass(frozen=True)
class Grid:
    """A table for people.

    ``limit`` is the number of rows shown; the whole table is in the data outputs.
    ``headers`` renames columns for people; columns not named get their name and unit.
    ``folded`` tables go on in the fold below them.
    ``about`` are the columns it is sorted by or was asked for: a narrow terminal keeps them.
    """

    frame: pl.DataFrame
    title: str = ""
    limit: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    about: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Drawing:
    """A picture: SVG with its texts escaped, and a caption that replaces it where none is shown."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Fold:
    """Blocks behind one line, opened on request where the output can do that."""

    title: str
    blocks: tuple[Line | Grid | Drawing, ...]


Block: TypeAlias = Line | Grid | Drawing | Fold


@dataclass(frozen=True)
class Case:
    """One check for CI: a test case in JUnit, an annotation in a workflow."""

    group: str
    name: str
    outcome: Literal["passed", "failed", "skipped"]
    message: str = ""
    place: str = ""  # file the check is stated in or about, for outputs that point at one


@dataclass(frozen=True)
class View:
    """A report.

    Parameters
    ----------
    title : str
        What it is about.
    table : DataFrame
        The whole table, for CSV and Parquet.
    schema : TableSchema, optional
        Schema of ``table``: gives Parquet its tag and people the columns' meaning.
    blocks : tuple of Block
        What people read, in order; the table alone when empty.
    document : mapping, optional
        The JSON document; made from the table when absent.
    cases : tuple of Case
        Checks, for JUnit.
    """

    title: str
    table: pl.DataFrame
    schema: TableSchema | None = None
    blocks: tuple[Block, ...] = ()
    document: Mapping[str, Any] | None = None
    cases: tuple[Case, ...] = ()

    def shown(self) -> tuple[Block, ...]:
        """Return the blocks people read."""
        return self.blocks or (Grid(self.table),)
