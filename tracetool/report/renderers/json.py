"""One JSON document: the report's own, or the table as rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl

from tracetool.core import escape
from tracetool.report.json_values import plain
from tracetool.report.renderer import Renderer, flat_columns
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    if view.document is not None:
        text = json.dumps(plain(dict(view.document)), ensure_ascii=False, indent=1, default=str)
    else:
        rows = flat_columns(view.table).with_columns(
            pl.selectors.float().replace([math.inf, -math.inf, math.nan], None)
        )
        head = {"schema": view.schema.tag if view.schema else None, "title": view.title}
        body = rows.write_json() if rows.width else "[]"
        text = json.dumps(head, ensure_ascii=False)[:-1] + ', "rows": ' + body + "}"
    path.write_text(escape.json_log(text) + "\n", "utf-8")


RENDERER = Renderer(".json", "one document, for programs", _write)
