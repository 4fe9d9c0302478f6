"""The whole table as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

from pathlib import Path

from tracetool.report.renderer import Renderer, spreadsheet_safe
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    spreadsheet_safe(view.table).write_csv(path)


RENDERER = Renderer(".csv", "the whole table, for spreadsheets", _write)
