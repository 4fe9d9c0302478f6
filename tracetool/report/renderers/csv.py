"""The whole table as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core import escape
from tracetool.report.renderer import Renderer, flat_columns
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    frame = flat_columns(view.table)
    texts = [escape.map_distinct(c, escape.csv) for c in frame.get_columns() if c.dtype == pl.String]
    frame = frame.with_columns(texts).with_columns(pl.selectors.float().fill_nan(None))
    frame.rename(dict(zip(frame.columns, map(escape.csv, frame.columns), strict=True))).write_csv(path)


RENDERER = Renderer(".csv", "the whole table, for spreadsheets", _write)
