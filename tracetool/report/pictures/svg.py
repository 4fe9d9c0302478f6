"""Marks of inline SVG pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracetool.core import escape


def _attributes(attributes: dict[str, object]) -> str:
    parts = []
    for key, value in attributes.items():
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
