"""Charts of the pages as SVG: lines and bars with 90 % intervals, drawn from results of the tool, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 960, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 44, 52
#: Colors that stay apart for readers who confuse red and green. (P. Tol, "Colour Schemes")
COLORS = ("#4477aa", "#ee6677", "#228833", "#aa3377")
STYLE = "text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .soft { fill: #57606a } .title { font-weight: 600 }"


@dataclass(frozen=True)
class Axis:
    """A range of values, where it is drawn [px], and whether by its logarithm."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return where a value is drawn. [px]"""
        scale = log10 if self.logarithmic else float
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Return round values within the range."""
        if self.logarithmic:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            marks = [f * 10.0**d for d in decades for f in (1, 2, 5)]
        else:
            rough = (self.high - self.low) / 6
            unit = 10.0 ** floor(log10(rough))
            step = next(f * unit for f in (1, 2, 5, 10) if f * unit >= rough)
            marks = [step * k for k in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [mark for mark in marks if self.low <= mark <= self.high]


@dataclass
class Chart:
    """A picture with two axes, what is drawn in it, and what it is called."""

    title: str
    describes: str
    x: Axis
    y: Axis
    drawn: list[str] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def over(
        cls, title: str, describes: str, x: tuple[float, float], y: tuple[float, float], *, log: bool = False
    ) -> Chart:
        """Return an empty chart over ranges of x and y."""
        return cls(title, describes, Axis(*x, LEFT, WIDTH - RIGHT), Axis(*y, HEIGHT - BOTTOM, TOP, log))

    def line(
        self, points: Sequence[tuple[float, float]], color: str, name: str = "", width: float = 1.5
    ) -> None:
        """Draw points joined by a line."""
        places = " ".join(f"{self.x.place(x)},{self.y.place(y)}" for x, y in points)
        self.drawn.append(
            f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="{width}"/>'
        )
        if name:
            self.names.append((name, color))

    def band(self, rows: Sequence[tuple[float, float, float]], color: str) -> None:
        """Shade between a low and a high end over x."""
        edge = [(x, high) for x, _, high in rows] + [(x, low) for x, low, _ in reversed(rows)]
        places = " ".join(f"{self.x.place(x)},{self.y.place(y)}" for x, y in edge)
        self.drawn.append(f'<polygon points="{places}" fill="{color}" fill-opacity="0.18"/>')

    def interval(self, x: float, low: float, value: float, high: float, color: str) -> None:
        """Draw a value with its interval."""
        at, ends = self.x.place(x), (self.y.place(low), self.y.place(high))
        self.drawn.append(f'<path d="M{at},{ends[0]}V{ends[1]}" stroke="{color}" stroke-width="3"/>')
        self.drawn.append(f'<circle cx="{at}" cy="{self.y.place(value)}" r="5" fill="{color}"/>')

    def mark(self, x: float, y: float, text: str, *, above: bool = True) -> None:
        """Write beside a point."""
        down = -10 if above else 20
        self.drawn.append(
            f'<text x="{self.x.place(x)}" y="{self.y.place(y) + down}" text-anchor="middle">{escape(text)}</text>'
        )

    def svg(self, x_title: str, y_title: str, names_of_x: dict[float, str] | None = None) -> str:
        """Return the picture."""
        grid = []
        for value in self.y.ticks():
            at = self.y.place(value)
            grid.append(f'<path d="M{LEFT},{at}H{WIDTH - RIGHT}" stroke="#d0d7de"/>')
            grid.append(
                f'<text class="soft" x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{value:,.4g}</text>'
            )
        for value, text in (names_of_x or {v: f"{v:,.4g}" for v in self.x.ticks()}).items():
            at = self.x.place(value)
            grid.append(
                f'<text class="soft" x="{at}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{escape(text)}</text>'
            )
        key = []
        for index, (name, color) in enumerate(self.names):
            at = LEFT + 240 * index
            key.append(f'<path d="M{at},30h24" stroke="{color}" stroke-width="3"/>')
            key.append(f'<text x="{at + 30}" y="34">{escape(name)}</text>')
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.describes)}</desc><style>{STYLE}</style>"
            '<rect width="100%" height="100%" fill="#fff"/>'
        )
        titles = [
            f'<text class="title" x="{LEFT}" y="16">{escape(self.title)}</text>',
            f'<text class="soft" x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">{escape(x_title)}</text>',
            f'<text class="soft" x="{LEFT}" y="{HEIGHT - 10}">{escape(y_title)}</text>',
        ]
        return "\n".join([head, *titles, *grid, *key, *self.drawn, "</svg>"]) + "\n"
