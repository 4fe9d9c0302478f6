"""Scales, axes and marks of inline SVG pictures."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tracetool.report import escape
from tracetool.vocabulary.arrays import Floats

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """Values to places along one axis.

    Parameters
    ----------
    low, high : float
        Values at the ends; for a logarithmic scale both above 0.
    start, end : float
        Places of the ends. [px]
    log : bool
        Whether equal ratios, rather than equal differences, take equal room.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Floats, start: float, end: float, *, log: bool = False, margin: float = 0.05
    ) -> Scale:
        """Return a scale that holds all finite values with a margin; with none, from 1 to 10."""
        usable = values[np.isfinite(values) & ((values > 0) | (not log))]
        if not usable.size:
            return cls(1.0, 10.0, start, end, log)
        low, high = float(usable.min()), float(usable.max())
        if log:
            spread = max(math.log10(high / low), 0.3)
            middle = math.sqrt(low) * math.sqrt(high)
            reach = 10 ** (spread * (0.5 + margin))
            return cls(middle / reach, middle * reach, start, end, log)
        spread = (high - low) or abs(high) or 1.0
        return cls(low - margin * spread, high + margin * spread, start, end, log)

    def place(self, values: Floats | float) -> Floats:
        """Return the places of values; what lies outside lands outside."""
        v = np.asarray(values, dtype=np.float64)
        if self.log:
            share = np.log(np.maximum(v, 1e-300) / self.low) / math.log(self.high / self.low)
        else:
            share = (v - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start), dtype=np.float64)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values for tick marks, at most about ``most``.

        >>> Scale(0.0, 10.0, 0.0, 1.0).ticks(5)
        [0.0, 2.5, 5.0, 7.5, 10.0]
        >>> Scale(0.5, 2000.0, 0.0, 1.0, log=True).ticks()
        [1.0, 10.0, 100.0, 1000.0]
        """
        if self.log and self.high / self.low >= 20:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            step = max(1, math.ceil((last - first + 1) / most))
            return [10.0**e for e in range(first, last + 1, step)]
        raw = (self.high - self.low) / max(most - 1, 1)
        size = 10.0 ** math.floor(math.log10(raw))
        step_size = next(s * size for s in _STEPS if s * size >= raw * 0.999)
        return [
            i * step_size
            for i in range(
                math.ceil(self.low / step_size - 1e-9), math.floor(self.high / step_size + 1e-9) + 1
            )
        ]


def tick_text(value: float) -> str:
    """Return a tick's label: no digit that says nothing.

    >>> tick_text(2500.0), tick_text(0.1), tick_text(1e7)
    ('2,500', '0.1', '1e7')
    """
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def _attributes(given: dict[str, object]) -> str:
    parts = []
    for key, value in given.items():
        if value is None:
            continue
        shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape.html(shown)}"')
    return "".join(parts)


@dataclass
class Drawing:
    """An SVG picture under construction; ``title`` and ``description`` are read to those who cannot see."""

    width: float
    height: float
    title: str
    description: str
    parts: list[str] = field(default_factory=list)

    def mark(self, element: str, said: str = "", /, **attributes: object) -> None:
        """Add an element; ``said`` becomes its tooltip."""
        inner = f"<title>{escape.html(said, 400)}</title>" if said else ""
        self.parts.append(f"<{element}{_attributes(attributes)}>{inner}</{element}>")

    def text(self, x: float, y: float, text: str, **attributes: object) -> None:
        """Add a text."""
        given = _attributes({"x": float(x), "y": float(y), **attributes})
        self.parts.append(f"<text{given}>{escape.html(text, 200)}</text>")

    def axes(self, x: Scale, y: Scale, x_label: str, y_label: str) -> None:
        """Add grid lines, tick labels and axis titles."""
        left, right, top, bottom = x.start, x.end, min(y.start, y.end), max(y.start, y.end)
        for value in x.ticks():
            at = float(x.place(value))
            self.mark("line", x1=at, x2=at, y1=top, y2=bottom, class_="grid")
            self.text(at, bottom + 16, tick_text(value), text_anchor="middle")
        for value in y.ticks():
            at = float(y.place(value))
            self.mark("line", x1=left, x2=right, y1=at, y2=at, class_="grid")
            self.text(left - 6, at + 4, tick_text(value), text_anchor="end")
        self.text((left + right) / 2, bottom + 34, x_label, text_anchor="middle", class_="axis")
        middle = (top + bottom) / 2
        self.text(
            13, middle, y_label, text_anchor="middle", class_="axis", transform=f"rotate(-90 13 {middle:g})"
        )

    def svg(self) -> str:
        """Return the picture."""
        name = "picture-" + re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img"'
            f' aria-labelledby="{name}-t {name}-d" preserveAspectRatio="xMidYMid meet">'
            f'<title id="{name}-t">{escape.html(self.title, 300)}</title>'
            f'<desc id="{name}-d">{escape.html(self.description, 1000)}</desc>{"".join(self.parts)}</svg>'
        )
