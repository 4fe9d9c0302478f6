"""Where the joules go.

References
----------
.. [1] M. Bruls, K. Huizing, J. van Wijk, "Squarified Treemaps", Data Visualization 2000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tracetool.core import escape
from tracetool.core.number_text import number
from tracetool.report.pictures.svg import OTHER, Drawing, family_colors, ink_on, label_that_fits, text_width
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, picture_html, table_html
from tracetool.report.sentences import compact

_MOST_GROUPS = 30
_MOST_PARTS = 250
_SAID = {"family": "family", "operator": "operator", "range": "range"}


def where(page: RunPage) -> Section | None:
    """Return the treemaps by family, operator and range."""
    if not any(p.height for p in page.parts.values()):
        return None
    colors = family_colors(page.families)
    tabs, run_j = [], page.run_energy_j() or 1.0
    for i, (key, rows) in enumerate(page.parts.items()):
        largest_parts = _largest(rows)
        if not largest_parts:
            continue
        checked = " checked" if i == 0 else ""
        picture = treemap(largest_parts, colors, _SAID[key], total_j=run_j)
        tabs.append(
            f'<input type="radio" name="where" id="where-{key}"{checked}>'
            f'<label for="where-{key}">by {escape.html(_SAID[key])}</label>'
            f'<div class="tab">{picture_html(picture, f"Energy by {key}")}'
            f"{table_html(_groups(rows, key, run_j), f'Energy by {_SAID[key]}, largest first')}</div>"
        )
    shown = [(f, c) for f, c in colors.items() if c != OTHER]
    if len(shown) < len(colors):
        shown.append(("other families", OTHER))
    share = round(100 * float(page.rows["of_log_j"].sum()) / (page.energy_j() or 1.0), 2)
    known = f"{share:.0f} % of this energy was measured, the rest is predicted"
    if share in (0.0, 100.0):
        known = f"All of this energy {'was measured' if share else 'is predicted'}"
    return Section(
        "where",
        "Where the joules go",
        f"Areas are joules; idle gaps are not shown, and shares are of the run with them. {known}.",
        f'<div class="tabs">{"".join(tabs)}</div>{legend_html(shown)}',
    )


def _largest(rows: pl.DataFrame) -> list[Part]:
    sums = (
        rows.group_by("group", maintain_order=True)
        .agg(pl.col("energy_j").sum().alias("sum_j"))
        .sort("sum_j", descending=True)
    )
    largest = sums.head(_MOST_GROUPS)["group"].to_list()
    named = rows.with_columns(
        pl.when(pl.col("group").is_in(largest)).then("group").otherwise(pl.lit("(others)")).alias("group")
    )
    merged = named.group_by("group", "name", "family", maintain_order=True).agg(pl.col("energy_j").sum())
    ordered = merged.sort("energy_j", "name", descending=[True, False])
    head, tail = ordered.head(_MOST_PARTS), ordered.slice(_MOST_PARTS)
    remainder = (
        tail.group_by("group", "family", maintain_order=True)
        .agg(pl.col("energy_j").sum(), pl.len().alias("count"))
        .select("group", pl.format("{} more kernels", "count").alias("name"), "family", "energy_j")
    )
    both = pl.concat([head.select("group", "name", "family", "energy_j"), remainder])
    return [Part(*row) for row in both.iter_rows()]


def _groups(rows: pl.DataFrame, key: str, run_j: float) -> pl.DataFrame:
    return (
        rows.group_by("group", maintain_order=True)
        .agg(pl.col("energy_j").sum(), pl.col("name").n_unique().alias("kernels"))
        .sort("energy_j", "group", descending=[True, False])
        .head(15)
        .with_columns((100.0 * pl.col("energy_j") / run_j).alias("share_pct"))
        .select(pl.col("group").alias(key), "energy_j", "share_pct", "kernels")
    )


_TREEMAP_SIZE = (960.0, 460.0)  # width and height [px]
_MARGIN = 8.0  # left and right of a label together [px]
_LEAST = 1.5  # px; thinner cells are drawn without their border


@dataclass(frozen=True)
class Part:
    """One cell: what it is, its family and its energy. [J]"""

    group: str
    name: str
    family: str
    energy_j: float


Box = tuple[float, float, float, float]


def squarify(sizes: Sequence[float], box: Box) -> list[Box]:
    """Return a rectangle per size, areas in proportion, as square as row by row allows.

    Parameters
    ----------
    sizes : sequence of float
        Positive, largest first.
    box : (x, y, width, height)
        Space to fill. [px]

    Examples
    --------
    >>> squarify([2.0, 1.0, 1.0], (0.0, 0.0, 4.0, 2.0))
    [(0.0, 0.0, 2.0, 2.0), (2.0, 0.0, 2.0, 1.0), (2.0, 1.0, 2.0, 1.0)]
    """
    x, y, width, height = box
    total = sum(sizes)
    if not sizes or total <= 0:
        return []
    scale = width * height / total
    areas = [s * scale for s in sizes]
    placed: list[Box] = []
    start = 0
    while start < len(areas):
        side = min(width, height)
        stop, row, best = start + 1, areas[start], _worst(areas[start], areas[start], areas[start], side)
        while stop < len(areas):
            longer = row + areas[stop]
            ratio = _worst(longer, areas[start], areas[stop], side)
            if ratio > best:
                break
            row, best, stop = longer, ratio, stop + 1
        depth = row / side if side > 0 else 0.0
        along = x if width < height else y
        for area in areas[start:stop]:
            length = area / depth if depth > 0 else 0.0
            placed.append((along, y, length, depth) if width < height else (x, along, depth, length))
            along += length
        if width < height:
            y, height = y + depth, max(height - depth, 0.0)
        else:
            x, width = x + depth, max(width - depth, 0.0)
        start = stop
    return placed


def _worst(row: float, largest: float, smallest: float, side: float) -> float:
    if row <= 0 or side <= 0 or smallest <= 0:
        return float("inf")
    return max(side * side * largest / (row * row), row * row / (side * side * smallest))


def treemap(
    parts: Sequence[Part],
    colors: Mapping[str, str],
    by: str,
    *,
    total_j: float | None = None,
) -> str:
    """Return the picture of energies by group and, inside each group, by part.

    Shares are of ``total_j``, by default of all parts. [J]
    """
    groups: dict[str, list[Part]] = {}
    for part in parts:
        if part.energy_j > 0:
            groups.setdefault(part.group, []).append(part)
    ordered = sorted(groups.items(), key=lambda g: -sum(p.energy_j for p in g[1]))
    total = total_j or sum(p.energy_j for _, inside in ordered for p in inside)
    largest = "; ".join(
        f"{escape.name(name, 60)} {100 * sum(p.energy_j for p in inside) / total:.0f} %"
        for name, inside in ordered[:5]
    )
    drawing = Drawing(*_TREEMAP_SIZE, f"Energy by {by} and kernel", f"Largest first: {largest}.")
    boxes = squarify([sum(p.energy_j for p in inside) for _, inside in ordered], (0.0, 0.0, *_TREEMAP_SIZE))
    for (name, inside), box in zip(ordered, boxes, strict=True):
        inner = _heading(drawing, name, sum(p.energy_j for p in inside), total, box)
        _cells(drawing, sorted(inside, key=lambda p: -p.energy_j), inner, colors, total)
    return drawing.svg()


def _heading(drawing: Drawing, name: str, energy_j: float, total_j: float, box: Box) -> Box:
    x, y, w, h = box
    head = 18.0 if w > 40 and h > 40 else 0.0
    if head:
        shown, share = escape.name(name, 200), f"{100 * energy_j / total_j:.0f} %"
        labels = (f"{shown} · {number(energy_j, 3)} J · {share}", f"{shown} · {share}", shown)
        fitting = [text for text in labels if text_width(text, bold=True) <= w - _MARGIN]
        if label := fitting[0] if fitting else label_that_fits(shown, w - _MARGIN, bold=True):
            drawing.label((x, y, w, head), label, class_="group")
    return (x + 1, y + head, max(w - 2, 0.0), max(h - head - 1, 0.0))


def _cells(drawing: Drawing, inside: list[Part], box: Box, colors: Mapping[str, str], total_j: float) -> None:
    for part, cell in zip(inside, squarify([p.energy_j for p in inside], box), strict=True):
        cx, cy, cw, ch = cell
        if cw * ch < 0.5:
            continue
        fill = colors.get(part.family, OTHER)
        drawing.mark(
            "rect",
            f"{escape.name(part.name, 200)}: {number(part.energy_j)} J,"
            f" {100 * part.energy_j / total_j:.1f} % ({part.family})",
            x=cx,
            y=cy,
            width=cw,
            height=ch,
            fill=fill,
            class_="cell" if min(cw, ch) > _LEAST else None,
        )
        if cw > 46 and ch > 16:
            full_name = escape.name(part.name, 200)
            fits = text_width(full_name) <= cw - _MARGIN
            if label := full_name if fits else label_that_fits(compact(full_name), cw - _MARGIN):
                drawing.label(cell, label, fill=ink_on(fill))
