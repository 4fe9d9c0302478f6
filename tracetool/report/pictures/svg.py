"""Drawings as SVG: elements, how wide a text is in them, and colors that any color vision distinguishes.

References
----------
.. [1] Advance widths of DejaVu Sans 2.37, the widest of the faces ``system-ui`` usually stands for.
.. [2] P. Tol, "Color Schemes", SRON technical note EPS-TN-09-002, scheme "muted".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tracetool.core import escape


def _attributes(attributes: dict[str, object]) -> str:
    attribute_texts = []
    for key, value in attributes.items():
        if value is None:
            continue
        shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        attribute_texts.append(f' {key.rstrip("_").replace("_", "-")}="{escape.html(shown)}"')
    return "".join(attribute_texts)


@dataclass
class Drawing:
    """An SVG picture under construction; ``title`` and ``description`` are read to those who cannot see."""

    width: float
    height: float
    title: str
    description: str
    parts: list[str] = field(default_factory=list)

    def mark(self, element: str, tooltip: str = "", /, **attributes: object) -> None:
        """Add an element; ``tooltip`` becomes its tooltip."""
        inner = f"<title>{escape.html(tooltip, 400)}</title>" if tooltip else ""
        self.parts.append(f"<{element}{_attributes(attributes)}>{inner}</{element}>")

    def text(self, x: float, y: float, text: str, **attributes: object) -> None:
        """Add a text."""
        attribute_text = _attributes({"x": float(x), "y": float(y), **attributes})
        self.parts.append(f"<text{attribute_text}>{escape.html(text, 200)}</text>")

    def label(self, box: tuple[float, float, float, float], text: str, **attributes: object) -> None:
        """Add a line of text at the top of a box (x, y, width, height), clipped to it whatever the face."""
        x, y, width, height = (float(v) for v in box)
        place = _attributes({"x": x, "y": y, "width": width, "height": height})
        attribute_text = _attributes({"x": 4.0, "y": 13.0, **attributes})
        self.parts.append(f"<svg{place}><text{attribute_text}>{escape.html(text, 200)}</text></svg>")

    def svg(self) -> str:
        """Return the picture."""
        name = "picture-" + re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img"'
            f' aria-labelledby="{name}-t {name}-d" preserveAspectRatio="xMidYMid meet">'
            f'<title id="{name}-t">{escape.html(self.title, 300)}</title>'
            f'<desc id="{name}-d">{escape.html(self.description, 1000)}</desc>{"".join(self.parts)}</svg>'
        )


#: Size of the letters. [px]
_SIZE: Final = 12.0
#: Widths in units of the letters' size. [1]
_WIDTHS: Final = {
    letter: width
    for letters, width in (
        ("ijl I'|", 0.30), (" .,:;·", 0.34), ("f()[]{}/\\-t", 0.40), ("r", 0.42), ("_*\"s", 0.53),
        ("cz", 0.56),
        ("kvxyL", 0.60), ("abdeghnopqu0123456789FPTYETS?$&", 0.64), ("ABKRVXZ", 0.70), ("CGDHNOQU", 0.79),
        ("w<>=+~#^", 0.84), ("M%@…", 1.0), ("mW", 1.0),
    )
    for letter in letters
}  # fmt: skip
_UNKNOWN: Final = 1.1
_BOLD: Final = 1.12
#: Fewer letters of a shortened name identify nothing.
_FEWEST: Final = 8


def text_width(text: str, *, bold: bool = False) -> float:
    """Return the width of a text. [px]

    >>> text_width("ill") < text_width("MMM"), text_width("gemm") < text_width("gemm", bold=True)
    (True, True)
    """
    return _SIZE * (_BOLD if bold else 1.0) * sum(_WIDTHS.get(letter, _UNKNOWN) for letter in text)


def label_that_fits(text: str, width: float, *, bold: bool = False) -> str:
    """Return a label of at most ``width`` pixels, cut in the middle; empty where too little would remain.

    >>> label_that_fits("gemm", 100.0), label_that_fits("gemm_kernel_of_128x128", 30.0)
    ('gemm', '')
    """
    if text_width(text, bold=bold) <= width:
        return text
    letters = len(text) - 1
    while letters >= _FEWEST:
        shorter = escape.shorten(text, letters)
        over = text_width(shorter, bold=bold) - width
        if over <= 0:
            return shorter
        letters -= max(int(over / 14.0), 1)
    return ""


def share_label(name: str, share: str, width: float) -> str:
    """Return a name with its share in at most ``width`` pixels: the name is cut, never the share.

    A share alone, where no name fits; the color then tells which.

    >>> share_label("oversized clock", "9.4 %", 200.0), share_label("oversized clock", "9.4 %", 46.0)
    ('oversized clock 9.4 %', '9.4 %')
    """
    fitting = label_that_fits(name, width - text_width(f" {share}"))
    label = f"{fitting} {share}" if fitting else share
    return label if text_width(label) <= width else ""


_QUALITATIVE: Final = (
    "#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499", "#44aa99", "#332288", "#999933", "#882255",
)  # fmt: skip
#: Color of every family beyond the first nine, and of what has no family.
OTHER: Final = "#bbbbbb"


def family_colors(families: Sequence[str]) -> dict[str, str]:
    """Return a color per family, distinct for the first nine, which should be the most important ones.

    >>> family_colors(["gemm", "softmax"])
    {'gemm': '#88ccee', 'softmax': '#cc6677'}
    """
    return {f: _QUALITATIVE[i] if i < len(_QUALITATIVE) else OTHER for i, f in enumerate(families)}


def ink_on(color: str) -> str:
    """Return black or white, whichever is read better on ``color`` (WCAG 2 contrast).

    >>> ink_on("#88ccee"), ink_on("#332288")
    ('#000', '#fff')
    """
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#fff"
