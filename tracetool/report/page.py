"""Reports as one HTML page: no scripts, no outside resources."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tracetool.core import escape
from tracetool.report.columns import show_columns
from tracetool.report.view import Fold, Grid, Line, View

if TYPE_CHECKING:
    import jinja2


@cache
def templates() -> jinja2.Environment:
    """Return the page templates; everything put into them is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tracetool.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = escape.visible
    return environment


def page_text(view: View) -> str:
    """Return a report as one self-contained page."""
    comments = {c.name: c.comment for c in view.schema.columns} if view.schema else {}
    return (
        templates()
        .get_template("table.html.j2")
        .render(title=view.title, blocks=[_block(b) for b in view.shown()], comments=comments)
    )


def _block(block: Line | Grid | Fold) -> dict[str, Any]:
    if isinstance(block, Line):
        return {"kind": "line", "style": block.kind, "text": block.text}
    if isinstance(block, Fold):
        return {"kind": "fold", "title": block.title, "blocks": [_block(b) for b in block.blocks]}
    frame = block.frame if block.limit is None else block.frame.head(block.limit)
    columns = show_columns(frame, block.headers, 4 * escape.NAME_WIDTH)
    return {
        "kind": "grid",
        "title": block.title,
        "columns": columns,
        "rows": list(zip(*(c.cells for c in columns), strict=True)),
        "more": block.frame.height - frame.height,
    }
