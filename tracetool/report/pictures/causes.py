"""From base to head: what each cause added or took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracetool.core.figures import number
from tracetool.report.pictures.charts import INK, MEASURED, MODEL, SOFT, Chart, blank, hover


def waterfall(base: float, factors: Mapping[str, float], head: float, *, unit: str) -> Chart:
    """Return the chart: bars from the base's energy over each cause to the head's."""
    steps = [("base", 0.0, base), *_steps(base, factors), ("head", 0.0, head)]
    ends = np.array([v for _, a, b in steps[1:-1] for v in (a, b)] + [base, head])
    reach = max(float(ends.max() - ends.min()), 1e-3 * max(abs(base), abs(head), 1e-12))
    low = 0.0 if ends.min() < 4 * reach else float(ends.min()) - 0.4 * reach
    sentence = "; ".join(f"{k} {number(v, 3)}" for k, v in factors.items())
    names = [name for name, _, _ in steps]
    chart = blank(
        (low, float(ends.max()) + 0.35 * reach),
        names[::-1],
        (unit, ""),
        height=60 + 34 * len(steps),
        width=720,
    )
    start, end = (np.maximum([step[i] for step in steps], low) for i in (1, 2))
    whole = np.array([n in ("base", "head") for n in names])
    change = np.array([b - a for _, a, b in steps])
    shown = [number(c, 3) if w else f"{c:+.3g}" for c, w in zip(change, whole, strict=True)]
    source = {
        "name": names,
        "left": np.minimum(start, end),
        "right": np.maximum(start, end),
        "fill": np.where(whole, SOFT, np.where(change > 0, MEASURED, MODEL)),
        "said": shown,
    }
    for color in (SOFT, MEASURED, MODEL):
        rows = np.flatnonzero(source["fill"] == color)
        part = {k: np.asarray(v)[rows] for k, v in source.items() if k != "fill"}
        bars = chart.hbar(y="name", left="left", right="right", height=0.7, fill_color=color, line_color=None,
                         source=part)  # fmt: skip
        hover(chart, [("", "name"), ("", "said")], [bars])
        chart.text(x="right", y="name", text="said", source=part, x_offset=6, text_baseline="middle",
                  text_color=INK, text_font_size="12px")  # fmt: skip
    chart.ygrid.grid_line_color = None
    return Chart(
        "Why the energy changed", f"From {number(base)} to {number(head)} {unit}: {sentence}.", chart
    )


def _steps(base: float, factors: Mapping[str, float]) -> list[tuple[str, float, float]]:
    steps, at = [], base
    for name, change in factors.items():
        steps.append((name, at, at + change))
        at += change
    return steps
