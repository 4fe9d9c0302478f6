"""The whole table as Parquet, its schema's tag in the metadata."""

from __future__ import annotations

from pathlib import Path

from tracetool.report.renderer import Renderer
from tracetool.report.view import View
from tracetool.tables.write import write_parquet


def _write(view: View, path: Path) -> None:
    write_parquet(view.table, path, view.schema)


RENDERER = Renderer(".parquet", "the whole table, for programs", _write)
