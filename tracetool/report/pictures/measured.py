"""Pictures of measurements: a log against what explains it, and energy per class with error bars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tracetool.report import escape
from tracetool.report.columns import number
from tracetool.report.pictures.svg import Drawing, Scale
from tracetool.tables.write import aside_file
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.errors import BadInput

_STYLE: Final = (
    "svg{font:12px system-ui,sans-serif;background:#fff}text{fill:#333}.axis{font-weight:600}"
    ".grid{stroke:#e3e3e3}.dot{opacity:.45}.band{fill:#2a6fbb;opacity:.18}.curve{fill:none;stroke-width:1.8}"
    ".guide{stroke:#888;stroke-dasharray:4 3}.bar{fill:#2a6fbb}.whisker{stroke:#222;stroke-width:1.4}"
)
#: Points beyond this are thinned: no screen shows more.
_MOST = 4000


def save_svg(svg: str, path: str | os.PathLike[str]) -> Path:
    """Write a picture as a file that opens by itself.

    Raises
    ------
    BadInput
        If the name does not end in ``.svg`` or the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() != ".svg":
        raise BadInput.in_file(target, "pictures are written as .svg", "name it so")
    whole = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    cut = whole.index(">") + 1
    with aside_file(target) as temporary:
        temporary.write_text(f"{whole[:cut]}<style>{_STYLE}</style>{whole[cut:]}", "utf-8")
    return target


def points_of(x: Floats, y: Floats) -> str:
    """Return places as an SVG points list, thinned to what a screen shows."""
    step = max(1, len(x) // _MOST)
    good = np.isfinite(x) & np.isfinite(y)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[good][::step], y[good][::step], strict=True))


def log_picture(time_s: Floats, shown_w: Floats, explained_w: Floats, title: str) -> str:
    """Return the log against the power that explains it.

    Parameters
    ----------
    time_s : array, shape (n,)
        Readings' times. [s]
    shown_w, explained_w : array, shape (n,)
        What the sensor showed, and what the attribution says it should have. [W]
    title : str
        What it is about.
    """
    x = Scale.over(time_s, 64.0, 748.0, margin=0.01)
    y = Scale.over(np.concatenate([shown_w, explained_w]), 300.0, 16.0)
    miss = float(np.sqrt(np.mean((shown_w - explained_w) ** 2))) if len(time_s) else 0.0
    drawing = Drawing(
        760.0, 342.0, title, f"{len(time_s)} readings; the explanation is off by {miss:.1f} W (RMS)."
    )
    drawing.axes(x, y, "time [s]", "power shown [W]")
    places = x.place(time_s)
    drawing.mark("polyline", points=points_of(places, y.place(shown_w)), class_="curve", stroke="#b5651d")
    drawing.mark("polyline", points=points_of(places, y.place(explained_w)), class_="curve", stroke="#2a6fbb")
    drawing.text(70, 14, "log", fill="#b5651d")
    drawing.text(104, 14, "explained", fill="#2a6fbb")
    return drawing.svg()


def energy_bars(names: Sequence[str], energy_j: Floats, low_j: Floats, high_j: Floats) -> str:
    """Return energy per class as bars with 90 % intervals, in the order given. [J]"""
    count = len(names)
    height = 40.0 + 24.0 * count
    reach = np.nan_to_num(np.concatenate([[0.0], high_j, energy_j]))
    x = Scale(0.0, max(float(reach.max()) * 1.04, 1e-12), 300.0, 748.0)
    drawing = Drawing(
        760.0, height + 30, "Measured energy per class", f"{count} classes, bars with 90 % intervals."
    )
    for value in x.ticks():
        at = float(x.place(value))
        drawing.mark("line", x1=at, x2=at, y1=8.0, y2=height, class_="grid")
        drawing.text(at, height + 16, number(value, 3), text_anchor="middle")
    drawing.text(524, height + 30, "energy [J]", text_anchor="middle", class_="axis")
    for i, name in enumerate(names):
        top = 14.0 + 24.0 * i
        shown = escape.name(name, 44)
        drawing.text(292, top + 12, shown, text_anchor="end")
        width = max(float(x.place(energy_j[i])) - 300.0, 0.0)
        ends_j = f"{number(float(low_j[i]))} to {number(float(high_j[i]))}"
        told = f"{shown}: {number(float(energy_j[i]))} J, {ends_j}"
        drawing.mark("rect", told, x=300.0, y=top, width=width, height=16.0, class_="bar")
        ends = x.place(np.array([low_j[i], high_j[i]]))
        drawing.mark("line", x1=float(ends[0]), x2=float(ends[1]), y1=top + 8, y2=top + 8, class_="whisker")
    return drawing.svg()
