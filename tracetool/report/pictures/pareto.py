"""Energy against time over clocks, the best clocks marked."""

from __future__ import annotations

import numpy as np

from tracetool.core.number_text import counted, number
from tracetool.replay.operating_points import Clocks, front
from tracetool.replay.sweep import Swept
from tracetool.report.pictures.charts import (
    BACK,
    INK,
    MEASURED,
    MODEL,
    SOFT,
    Chart,
    blank,
    hover,
    legend,
    limits,
)


def swept_chart(swept: Swept) -> Chart:
    """Return the picture of energy against time of a sweep."""
    clocks = swept.clocks()
    return pareto(clocks, clocks.marks(swept.info.get("reference_mhz")))


def pareto(clocks: Clocks, marks: dict[int, str]) -> Chart:
    """Return the chart: a point per clock with its interval; ``marks`` names some of them."""
    order = np.argsort(clocks.clock_mhz)
    time, energy = clocks.time_ms[order], clocks.energy_j[order]
    low, high = clocks.low_j[order], clocks.high_j[order]
    chart = blank(
        limits(time), limits(np.concatenate([energy, low, high])),
        ("time of the whole run [ms]", "energy [J]"),
        height=440, width=760,
    )  # fmt: skip
    chart.line(time, energy, line_color=SOFT, line_width=1.5)
    chart.segment(time, low, time, high, line_color=SOFT, line_alpha=0.7)
    best = front(time, energy)
    source = {
        "x": time, "y": energy,
        "clock": [f"{c:.0f} MHz" for c in clocks.clock_mhz[order]],
        "said": [
            f"{number(float(t))} ms, {number(float(e))} J ({number(float(a), 3)} to {number(float(b), 3)})"
            for t, e, a, b in zip(time, energy, low, high, strict=True)
        ],
        "note": [marks.get(int(i), "") for i in order],
    }  # fmt: skip
    over = []
    for rows, fill, name in (
        (best, MODEL, "Pareto-optimal"),
        (~best, BACK, "another takes less time and energy"),
    ):
        if rows.any():
            chosen = {k: np.asarray(v)[rows] for k, v in source.items()}
            over.append(chart.scatter(x="x", y="y", size=9, fill_color=fill, line_color=MODEL, line_width=1.5,
                                     source=chosen, legend_label=name))  # fmt: skip
    shapes = ("star", "diamond", "square")
    for (i, text), shape in zip(sorted(marks.items()), shapes, strict=False):
        at = int(np.flatnonzero(order == i)[0])
        over.append(
            chart.scatter(
                x="x", y="y", size=17, marker=shape, fill_color=MEASURED, line_color=INK,
                source={k: np.asarray(v)[[at]] for k, v in source.items()},
                legend_label=f"{clocks.clock_mhz[i]:.0f} MHz: {text}",
            )
        )  # fmt: skip
    hover(chart, [("", "clock"), ("", "said"), ("", "note")], over)
    legend(chart)
    caption = "; ".join(f"{text} at {clocks.clock_mhz[i]:.0f} MHz" for i, text in sorted(marks.items()))
    return Chart(
        "Energy and time over clocks", f"{counted(clocks.clock_mhz.size, 'clock')}; {caption}.", chart
    )
