"""Schema: the tables on disk, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.paths import PathLike
from tracetool.tables import schema as schemas

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class Schemas(Result):
    """Tables that a run holds: ``frame`` has a row per table, or per column of the one asked for."""

    table: str | None = None

    def _schemas(self) -> list[schemas.TableSchema]:
        return [schemas.load_schema(n) for n in ([self.table] if self.table else schemas.schema_names())]

    def _document(self) -> list[dict[str, Any]]:
        return [asdict(schema) for schema in self._schemas()]

    def _view(self) -> View:
        import polars as pl

        from tracetool.report.view import View

        head, rows, _ = self._rows()
        return View(self.table or "Tables", pl.DataFrame(rows, schema=list(head), orient="row"))

    def _rows(self) -> tuple[Sequence[str], list[tuple[str, ...]], str]:
        """Return headings, rows and the column of prose."""
        if self.table is None:
            tables: list[tuple[str, ...]] = [(s.tag, str(len(s.columns)), s.comment) for s in self._schemas()]
            return ("table", "columns", "what it holds"), tables, "what it holds"
        columns: list[tuple[str, ...]] = [
            (c.name, c.type, c.unit, "yes" if c.nullable else "", c.comment)
            for c in self._schemas()[0].columns
        ]
        return ("column", "type", "unit", "null", "meaning"), columns, "meaning"

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the list."""
        from tracetool.report.terminal.lists import print_list

        head, rows, prose = self._rows()
        print_list(head, rows, prose=(prose,), figures=("columns",))


@public
def schema(table: str | None = None) -> Schemas:
    """Return the tables a run holds, or one of them column by column, as ``tracetool schema``.

    Parameters
    ----------
    table : str, optional
        Its name, e.g. ``kernels``.

    Raises
    ------
    BadInput
        If no table is called so.

    Examples
    --------
    >>> import tracetool as tt
    >>> tt.schema("kernels").frame.filter(column="duration_ns")["unit"].item()
    'ns'
    """
    if table:
        schemas.load_schema(table)
    return Schemas(table or None)
