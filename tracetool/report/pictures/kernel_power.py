"""Fine-grain power of several kernels side by side: means of each component, and over an execution."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.number_text import counted, number
from tracetool.measure.fingrav.side_by_side import SideBySide
from tracetool.report.pictures.charts import (
    INK,
    MEASURED,
    MODEL,
    Chart,
    blank,
    hover,
    legend,
    limits,
    plain,
)
from tracetool.report.pictures.svg import family_colors
from tracetool.report.sentences import shorten_names

_SAID: Final = {"sse": "steady execution (SSE)", "ssp": "steady power (SSP)"}
_COLORS: Final = {"sse": MODEL, "ssp": MEASURED}
_MARKERS: Final = {"sse": "circle", "ssp": "square"}
#: Kernels with a line each over the time of an execution; means are drawn of all. [1] For legibility.
_MOST_LINES: Final = 9
#: Ticks that two charts beside one another have place for on a telephone. [1] For legibility.
_TICKS: Final = 3


def kernel_power(of: SideBySide) -> Chart:
    """Return the chart of a comparison: a row per component, then power by what ran before.

    Left: mean power of each kernel at steady execution and steady power, with 90 % intervals. Right: power at
    steady power over the time of one execution, which is 0 to 1 for every kernel.
    """
    from bokeh.layouts import column, row

    short = shorten_names([plain(p.kernel, 200) for p in of.profiles], 28)
    names = {
        p.kernel: f"{i}. {plain(text, 28)}"
        for i, (p, text) in enumerate(zip(of.profiles, short, strict=True), 1)
    }
    rows = [
        row(_means(of, component, names), _courses(of, component, names), sizing_mode="stretch_width")
        for component in of.components
    ]
    if of.contexts is not None:
        rows.append(_by_context(of.contexts, names))
    caption = f"{counted(len(of.profiles), 'kernel')}; " + "; ".join(of.sentences)
    return Chart(
        "Power of kernels side by side", plain(caption, 900), column(*rows, sizing_mode="stretch_width")
    )


def _beside(
    x: tuple[float, float], y: tuple[float, float] | list[str], labels: tuple[str, str], height: int
) -> Any:
    """Return an empty chart with another beside it."""
    chart = blank(x, y, labels, height=height)
    chart.xaxis.ticker.desired_num_ticks = _TICKS
    return chart


def _means(of: SideBySide, component: str, names: dict[str, str]) -> Any:
    rows = of.frame.filter(pl.col("component") == component)
    ends = np.append(rows["mean_high_w"].to_numpy(), 0.0)
    factors = list(reversed(names.values()))
    height = 100 + 30 * len(names)
    chart = _beside(limits(ends), factors, (f"mean {plain(component, 20)} [W]", ""), height=height)
    for kind in ("sse", "ssp"):
        part = rows.filter(pl.col("kind") == kind)
        source = {
            "name": [(names[k], 0.12 if kind == "sse" else -0.12) for k in part["kernel"]],
            "w": part["mean_w"].to_list(),
            "low": part["mean_low_w"].to_list(),
            "high": part["mean_high_w"].to_list(),
            "of_total": [f"{s:.0%}" for s in part["of_total"].fill_null(float("nan"))],
        }
        chart.segment("low", "name", "high", "name", source=source, line_color=_COLORS[kind], line_width=2.0)
        marks = chart.scatter("w", "name", source=source, size=9, marker=_MARKERS[kind], line_color=None,
                              fill_color=_COLORS[kind], legend_label=_SAID[kind])  # fmt: skip
        hover(
            chart,
            [("W", "w{0.0}"), ("from", "low{0.0}"), ("to", "high{0.0}"), ("of total", "of_total")],
            [marks],
        )
    if component == of.components[0]:
        legend(chart)
    else:
        chart.legend.visible = False
    return chart


def _courses(of: SideBySide, component: str, names: dict[str, str]) -> Any:
    drawn = of.profiles[:_MOST_LINES]
    curves = [(p.kernel, p.profile.curve("ssp", component)) for p in drawn]
    watts = limits(np.concatenate([np.zeros(1), *(w for _, c in curves for w in (c.low_w, c.high_w))]))
    height = 100 + 30 * len(names)
    chart = _beside(
        (0.0, 1.0),
        watts,
        ("time [executions]", f"{plain(component, 20)} power [W]"),
        height=max(height, 220),
    )
    colors = family_colors([kernel for kernel, _ in curves])
    for kernel, curve in curves:
        color = colors[kernel]
        chart.varea(curve.phase, curve.low_w, curve.high_w, fill_color=color, fill_alpha=0.18)
        chart.line(curve.phase, curve.power_w, line_color=color, line_width=2.0, legend_label=names[kernel])
    if component == of.components[0]:
        legend(chart)
    else:
        chart.legend.visible = False
    return chart


def _by_context(contexts: pl.DataFrame, names: dict[str, str]) -> Any:
    """Return mean power by what ran before, a line per kernel and context."""
    rows = contexts.filter(pl.col("mean_w").is_finite())
    factors = [f"{names[k]}, {c}" for k, c in rows.select("kernel", "context").iter_rows()]
    ends = limits(np.append(rows["mean_high_w"].to_numpy(), 0.0))
    chart = blank(
        ends,
        list(reversed(factors)),
        ("mean power by what ran before [W]", ""),
        height=100 + 24 * len(factors),
    )
    source = {
        "name": factors,
        "w": rows["mean_w"].to_list(),
        "low": rows["mean_low_w"].to_list(),
        "high": rows["mean_high_w"].to_list(),
        "ratio": [number(r) if np.isfinite(r) else "" for r in rows["of_isolated"].fill_null(float("nan"))],
    }
    chart.segment("low", "name", "high", "name", source=source, line_color=INK, line_width=2.0)
    marks = chart.scatter("w", "name", source=source, size=9, fill_color=INK, line_color=None)
    hover(
        chart, [("W", "w{0.0}"), ("from", "low{0.0}"), ("to", "high{0.0}"), ("of isolated", "ratio")], [marks]
    )
    return chart
