"""Charts in pages: their scripts with checksums, and a chart alone as a file."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.report.page import templates
from tracetool.report.pictures.charts import Chart, chart_html, library
from tracetool.tables.write import aside_file


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
    own = "\n".join(folder.joinpath(name).read_text("utf-8") for name in names)
    return Script(library()), Script(own)


def save_chart(chart: Chart, path: str | os.PathLike[str]) -> Path:
    """Write a chart as a page that opens by itself, offline.

    Raises
    ------
    BadInput
        If the name does not end in ``.html`` or the file cannot be written.
    """
    target = check_chart(path)
    page = (
        templates()
        .get_template("chart.html.j2")
        .render(
            title=chart.title,
            said=chart.caption,
            chart=chart_html(chart, "alone"),
            scripts=scripts("charts.js"),
        )
    )
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
