"""From base to head: what each cause added or took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracetool.report.columns import number
from tracetool.report.pictures.svg import Drawing, Scale, tick_text


def waterfall(base: float, factors: Mapping[str, float], head: float, *, unit: str) -> str:
    """Return the picture: bars from the base's energy over each cause to the head's."""
    steps = [("base", 0.0, base), *_steps(base, factors), ("head", 0.0, head)]
    width, left, bar = 640.0, 150.0, 24.0
    height = 40.0 + len(steps) * (bar + 8)
    ends = np.array([v for _, a, b in steps[1:-1] for v in (a, b)] + [base, head])
    reach = max(float(ends.max() - ends.min()), 1e-3 * max(abs(base), abs(head), 1e-12))
    low = 0.0 if ends.min() < 4 * reach else float(ends.min()) - 0.4 * reach
    x = Scale(low, float(ends.max()) + 0.15 * reach, left, width - 90)
    said = "; ".join(f"{k} {number(v, 3)}" for k, v in factors.items())
    drawing = Drawing(
        width, height, "Why the energy changed", f"From {number(base)} to {number(head)} {unit}: {said}."
    )
    for value in x.ticks(5):
        at = float(x.place(value))
        drawing.mark("line", x1=at, x2=at, y1=6.0, y2=height - 34, class_="grid")
        drawing.text(at, height - 18, tick_text(value), text_anchor="middle")
    drawing.text((left + width - 90) / 2, height - 2, unit, text_anchor="middle", class_="axis")
    for i, (name, start, end) in enumerate(steps):
        y = 8 + i * (bar + 8)
        whole = name in ("base", "head")
        first, last = sorted(float(x.place(max(v, low))) for v in (start, end))
        change = end - start
        kind = "total" if whole else "more" if change > 0 else "less"
        drawing.text(left - 8, y + 16, name, text_anchor="end")
        drawing.mark(
            "rect",
            f"{name}: {number(change)} {unit}",
            x=first,
            y=y,
            width=max(last - first, 1.0),
            height=bar,
            class_=kind,
        )
        shown = number(change, 3) if whole else f"{change:+.3g}"
        drawing.text(last + 6, y + 16, shown)
    return drawing.svg()


def _steps(base: float, factors: Mapping[str, float]) -> list[tuple[str, float, float]]:
    made, at = [], base
    for name, change in factors.items():
        made.append((name, at, at + change))
        at += change
    return made
