"""Markdown for a job summary, a comment or a page; under a comment's length limit for reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tracetool.core import escape
from tracetool.report.columns import show_columns, with_entries
from tracetool.report.renderer import Renderer
from tracetool.report.view import Block, Drawing, Grid, Line, View

#: A GitHub comment holds 65,536 characters; leave space for what a bot adds.
COMMENT_LIMIT = 64_000


def markdown_text(view: View) -> str:
    """Return a report as Markdown.

    A report made of blocks stays under :data:`COMMENT_LIMIT`: folds that would pass it are left out
    and said to be. A bare table is written whole.
    """
    if not view.blocks:
        return (
            "\n".join([f"## {escape.markdown(view.title, cell=False)}", "", *_grid(Grid(view.table))]) + "\n"
        )
    texts: list[str] = []
    used = 0
    for block in view.blocks:
        text = "\n".join(_block(block)) + "\n"
        size = len(text.encode("utf-8"))
        if used + size > COMMENT_LIMIT - 200:
            texts.append("*Truncated; the JSON, Parquet and HTML outputs hold the rest.*\n")
            break
        texts.append(text)
        used += size
    return "\n".join(texts)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Line):
        text = escape.markdown_line(block.text)
        text = f"{block.symbol} {text}" if block.symbol else text
        yield {"headline": f"### {text}", "warning": f"> ⚠️ {text}", "note": f"*{text}*"}.get(block.kind, text)
    elif isinstance(block, Grid):
        yield from _grid(block)
    elif isinstance(block, Drawing):
        yield f"*Picture, in the HTML output: {escape.markdown_line(block.caption)}*"
    else:
        yield f"<details><summary>{escape.html(block.title, 300)}</summary>"
        yield ""
        for inner in block.blocks:
            yield from _block(inner)
            yield ""
        yield "</details>"


def _grid(grid: Grid) -> Iterator[str]:
    if grid.title:
        yield f"**{escape.markdown(grid.title, cell=False)}**"
        yield ""
    frame = grid.frame if grid.limit is None else grid.frame.head(grid.limit)
    columns = with_entries(show_columns(frame, grid.headers, escape.NAME_WIDTH))
    if not columns:
        return
    yield "| " + " | ".join(escape.markdown(c.heading) or " " for c in columns) + " |"
    yield "|" + "|".join("--:" if c.numeric else "---" for c in columns) + "|"
    cells = [c.cells if c.numeric else [escape.markdown(t) for t in c.cells] for c in columns]
    for row in zip(*cells, strict=True):
        yield "| " + " | ".join(row) + " |"
    if frame.height < grid.frame.height and not grid.folded:
        yield ""
        yield f"*{grid.frame.height - frame.height:,} more rows in the data outputs.*"


def _write(view: View, path: Path) -> None:
    path.write_text(markdown_text(view), "utf-8")


RENDERER = Renderer(".md", "for a job summary, a comment or a page", _write)
