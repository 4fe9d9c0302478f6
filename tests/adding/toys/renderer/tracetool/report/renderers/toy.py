"""The table as lines of cells between semicolons."""

from __future__ import annotations

from pathlib import Path

from tracetool.core import escape
from tracetool.report.renderer import Renderer, flat_columns
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    frame = flat_columns(view.table)
    rows = [frame.columns, *frame.rows()]
    lines = (";".join(escape.csv(str(cell)) for cell in row) for row in rows)
    path.write_text("\n".join(lines) + "\n", "utf-8")


RENDERER = Renderer(".toy", "the whole table between semicolons", _write)
