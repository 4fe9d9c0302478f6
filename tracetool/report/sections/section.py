"""Sections of a page, and the pieces they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from tracetool.core import escape
from tracetool.report.columns import show_columns, with_entries


@dataclass(frozen=True)
class Section:
    """One section: its anchor, heading, the sentence under it, and its body as HTML."""

    key: str
    title: str
    intro: str
    body: str


def table_html(frame: pl.DataFrame, caption: str, headers: Mapping[str, str] | None = None) -> str:
    """Return a small table."""
    columns = with_entries(show_columns(frame, headers or {}, 200))
    head = "".join(f'<th scope="col" class="{c.style}">{escape.html(c.heading)}</th>' for c in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{c.style}">{escape.html(cell)}</td>' for c, cell in zip(columns, row, strict=True)
        )
        + "</tr>"
        for row in zip(*(c.cells for c in columns), strict=True)
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape.html(caption)}">'
        f"<table><caption>{escape.html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def picture_html(svg: str, label: str) -> str:
    """Return a picture in a frame that scrolls where the screen is narrow."""
    return (
        f'<div class="picture" role="region" tabindex="0" aria-label="{escape.html(label)}, picture">'
        f"{svg}</div>"
    )


def legend_html(colors: Iterable[tuple[str, str]]) -> str:
    """Return which color is which family."""
    items = "".join(
        f'<li><span class="swatch" style="background:{escape.html(color)}"></span>'
        f"{escape.html(name, 60)}</li>"
        for name, color in colors
    )
    return f'<ul class="legend" aria-label="Colors">{items}</ul>'


def line_html(text: str, style: str = "note") -> str:
    """Return a paragraph."""
    return f'<p class="{style}">{escape.html(text)}</p>'
