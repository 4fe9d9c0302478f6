"""Reports as one HTML page without outside resources, and the pages of charts with their checked scripts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tracetool.core import escape
from tracetool.report.columns import show_columns, with_entries
from tracetool.report.view import Block, Drawing, Fold, Line, View

if TYPE_CHECKING:
    import jinja2


import base64
import hashlib
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.report.pictures.charts import Chart, chart_html, library
from tracetool.tables.write import aside_file


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
    return _rendered(view, "table.html.j2")


def fragment_text(view: View) -> str:
    """Return a report as a part of another page, such as a notebook's: its lines and tables, escaped."""
    return _rendered(view, "fragment.html.j2")


def _rendered(view: View, template: str) -> str:
    blocks = [_block(b) for b in view.shown()]
    return templates().get_template(template).render(title=view.title, blocks=blocks)


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Line):
        return {"kind": "line", "style": block.kind, "text": block.text}
    if isinstance(block, Drawing):
        return {"kind": "drawing", "svg": block.svg, "caption": block.caption}
    if isinstance(block, Fold):
        return {"kind": "fold", "title": block.title, "blocks": [_block(b) for b in block.blocks]}
    frame = block.frame if block.limit is None else block.frame.head(block.limit)
    columns = with_entries(show_columns(frame, block.headers, 4 * escape.NAME_WIDTH))
    return {
        "kind": "grid",
        "title": block.title,
        "columns": columns,
        "rows": list(zip(*(c.cells for c in columns), strict=True)),
        "more": 0 if block.folded else block.frame.height - frame.height,
    }


@dataclass(frozen=True)
class Script:
    """A script inside a page, and the checksum by which the page allows it."""

    text: str

    @property
    def sha256(self) -> str:
        """Checksum as a content security policy writes it."""
        return base64.b64encode(hashlib.sha256(self.text.encode("utf-8")).digest()).decode("ascii")


def scripts(*names: str) -> tuple[Script, ...]:
    """Return the chart library and, as one script, those of the templates named."""
    folder = files("tracetool.report.templates")
    code = "\n".join(folder.joinpath(name).read_text("utf-8") for name in names)
    return Script(library()), Script(code)


def chart_page(chart: Chart) -> str:
    """Return a chart as a page that opens by itself, offline."""
    return (
        templates()
        .get_template("chart.html.j2")
        .render(
            title=chart.title,
            said=chart.caption,
            chart=chart_html(chart, "alone"),
            scripts=scripts("charts.js"),
        )
    )


def save_chart(chart: Chart, path: str | os.PathLike[str]) -> Path:
    """Write a chart as a page that opens by itself, offline.

    Raises
    ------
    BadInput
        If the name does not end in ``.html`` or the file cannot be written.
    """
    target = check_chart(path)
    page = chart_page(chart)
    with aside_file(target) as temporary:
        temporary.write_text(page, "utf-8")
    return target


def check_chart(path: str | os.PathLike[str]) -> Path:
    """Return the path if a chart can be written there by its name; fail early, before the work is done.

    Raises
    ------
    BadInput
        If the name does not end in ``.html``.
    MissingPart
        If the chart library is not installed.
    """
    from tracetool.report.pictures.charts import need_bokeh

    target = Path(path)
    if target.suffix.lower() != ".html":
        raise BadInput.in_file(target, "charts are written as .html", "name it so")
    need_bokeh()
    return target
