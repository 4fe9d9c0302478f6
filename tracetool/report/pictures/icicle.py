"""Joules of nested groups as an icicle: each level under its parent, widths in proportion."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from tracetool.core import escape
from tracetool.core.number_text import number
from tracetool.replay.groups import JOINT
from tracetool.replay.module_paths import BACKWARD_SUFFIX

#: Boxes below this share of the whole are left out, and boxes drawn at most.
_LEAST: Final = 0.0005
_MOST: Final = 600
#: Height of a level. [px]
_LEVEL_PX: Final = 30
#: A dot between names, not one within brackets.
_BETWEEN: Final = re.compile(r"\.(?![^(\[<{]*[)\]>}])")
#: Colors of the outermost groups, light enough for dark text.
_COLORS: Final = (
    "#a6cee3", "#fdcc8a", "#b2df8a", "#cab2d6", "#fbb4ae", "#d9d0b0", "#9fd8cb", "#f3c6e0",
)  # fmt: skip
_PLAIN: Final = "#d0d0d0"


@dataclass
class Box:
    """One group and those inside it. [J]"""

    name: str
    path: str
    own_j: float = 0.0
    own: str = ""  # its own energy with interval, where it has any
    inside: dict[str, Box] = field(default_factory=dict)

    @property
    def energy_j(self) -> float:
        """Energy of the group and of all inside it. [J]"""
        return self.own_j + sum(box.energy_j for box in self.inside.values())


def nested(groups: pl.DataFrame) -> Box:
    """Return groups as boxes, by the parts of their names; the run is the outermost.

    Parameters
    ----------
    groups : DataFrame
        Rows of the ``energy_by`` table without the run's.
    """
    run_box = Box("run", "run")
    columns = ("name", "energy_j", "energy_low_j", "energy_high_j", "source")
    for name, energy_j, low_j, high_j, source in groups.select(columns).iter_rows():
        box = run_box
        for segment in _segments(name):
            box = box.inside.setdefault(segment, Box(segment, f"{box.path} › {segment}"))
        box.own_j += max(energy_j or 0.0, 0.0)
        ends = "" if low_j is None else f" ({number(low_j, 3)} to {number(high_j, 3)})"
        box.own = f"{number(energy_j or 0.0)} J{ends}, {source}"
    return run_box


def _segments(name: str) -> list[str]:
    segments: list[str] = []
    for piece in name.split(JOINT):
        if piece.endswith(BACKWARD_SUFFIX):  # a tree of its own
            segments += ["backward", *_BETWEEN.split(piece.removesuffix(BACKWARD_SUFFIX))]
        else:
            segments += _BETWEEN.split(piece)
    return segments


def icicle(run_box: Box, title: str) -> str:
    """Return the icicle as HTML; ``icicle.js`` makes it zoom.

    Notes
    -----
    A box states its place as shares of the whole (``data-x``, ``data-w``), from which the script computes
    places when a box is made the full width.
    """
    total_j = run_box.energy_j
    if total_j <= 0:
        return ""
    rows = list(_placed(run_box, 0.0, 0, total_j, _PLAIN))
    rows.sort(key=lambda row: -row[2])
    shown = sorted(rows[:_MOST], key=lambda row: (row[3], row[1]))
    height = _LEVEL_PX * (1 + max(row[3] for row in shown))
    boxes = "".join(_html(row, total_j) for row in shown)
    return (
        f'<div class="icicle" role="group" aria-label="{escape.html(title)}" style="height:{height}px">'
        f'{boxes}</div><p class="icicle-detail" aria-live="polite">Click a box, or move with the arrow keys'
        " and press Enter, to make it the full width; Escape returns to the run.</p>"
    )


_Row = tuple[Box, float, float, int, str]  # box, place and width as shares, level, color


def _placed(box: Box, x: float, level: int, total_j: float, color: str) -> Iterable[_Row]:
    width = box.energy_j / total_j
    if width < _LEAST:
        return
    yield (box, x, width, level, color)
    inside = sorted(box.inside.values(), key=lambda b: (b.name == "(idle)", -b.energy_j, b.name))
    for number_, child in enumerate(inside):
        fill = _COLORS[number_ % len(_COLORS)] if level == 0 else color
        if child.name.startswith("("):
            fill = _PLAIN
        yield from _placed(child, x, level + 1, total_j, fill)
        x += child.energy_j / total_j


def _html(row: _Row, total_j: float) -> str:
    box, x, width, level, color = row
    text = f"{escape.name(box.path, 400)}: {number(box.energy_j)} J, {100 * box.energy_j / total_j:.1f} %"
    if box.own:
        text += f"; {'of its own ' if box.inside else ''}{box.own}"
    detail = escape.html(text, 600)
    position = f'data-x="{x:.6f}" data-w="{width:.6f}" data-l="{level}"'
    place = f"left:{100 * x:.4f}%;width:{100 * width:.4f}%;top:{level * _LEVEL_PX}px"
    return (
        f'<button type="button" class="box" tabindex="{-1 if level else 0}" {position} title="{detail}"'
        f' aria-label="{detail}" style="{place};background:{color}">'
        f"<span>{escape.html(escape.name(box.name, 120))}</span>"
        f"<small>{number(box.energy_j, 3)} J</small></button>"
    )
