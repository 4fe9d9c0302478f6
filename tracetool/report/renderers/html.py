"""One self-contained page that opens offline."""

from __future__ import annotations

from pathlib import Path

from tracetool.report.page import page_text
from tracetool.report.renderer import Renderer
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    path.write_text(page_text(view), "utf-8")


RENDERER = Renderer(".html", "a page that opens offline", _write)
