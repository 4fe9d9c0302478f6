"""Markdown for a job summary, a comment or a page; under a comment's length limit for reports."""

from __future__ import annotations

from pathlib import Path

from tracetool.report.markdown import markdown_text
from tracetool.report.renderer import Renderer
from tracetool.report.view import View


def _write(view: View, path: Path) -> None:
    path.write_text(markdown_text(view), "utf-8")


RENDERER = Renderer(".md", "for a job summary, a comment or a page", _write)
