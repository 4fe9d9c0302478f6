"""The fine-grain profile of a kernel: over a whole run, and over one execution with its bands."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetool.core.number_text import counted
from tracetool.measure.fingrav.curves import Curve, FineProfile
from tracetool.measure.fingrav.interleaving import ContextPower, Interleaving
from tracetool.report.pictures.charts import (
    INK,
    MEASURED,
    MODEL,
    SOFT,
    Chart,
    blank,
    hover,
    legend,
    limits,
    plain,
)
from tracetool.report.pictures.measured import thinned

_COLORS = {"sse": MODEL, "ssp": MEASURED, "outlier": SOFT}
_DASHES = {"sse": "solid", "ssp": "dashed", "outlier": "dotted"}
_MARKERS = {
    "isolated": "circle",
    "after-alike": "square",
    "after-heavy": "triangle",
    "after-light": "inverted_triangle",
}
_SAID = {"sse": "steady execution (SSE)", "ssp": "steady power (SSP)", "outlier": "outliers"}


def power_profile(kernel: str, profile: FineProfile, among: Interleaving | None = None) -> Chart:
    """Return the chart of a fine-grain profile.

    Above: samples of all golden runs over the time of a run, the degree-4 trend, and markers where
    execution time (SSE) and power (SSP) grow steady. Below: the profile of one execution with its bands,
    and its mean power by what ran before, with its interval.
    """
    from bokeh.layouts import column

    curves = [c for c in profile.curves if c.component == "total"]
    values = [w for c in curves for w in (c.low_w, c.high_w, c.sample_w)]
    contexts = [c for c in among.contexts if np.isfinite(c.mean_w)] if among is not None else []
    values += [np.array([c.low_w, c.high_w]) for c in contexts]
    watts = limits(np.concatenate(values))
    over_run = limits(np.concatenate([*values, profile.run_trend.sample_w]))
    caption = "; ".join(
        f"{_SAID[c.kind]}: {c.mean_w:.1f} W from {counted(c.samples, 'sample')}" for c in curves
    )
    return Chart(
        f"Power profile of {plain(kernel, 80)}",
        f"{int(profile.golden.sum())} golden runs; {caption}",
        column(
            _run(profile, over_run), _execution(profile, curves, contexts, watts), sizing_mode="stretch_width"
        ),
    )


def _run(profile: FineProfile, watts: tuple[float, float]) -> Any:
    trend = profile.run_trend
    ends = limits(np.append(trend.sample_time_s, 0.0) * 1e3, margin=0.02)
    chart = blank(ends, watts, ("time in the run [ms]", "power [W]"), height=380)
    time, power = thinned(trend.sample_time_s * 1e3, trend.sample_w, most=1500)
    chart.scatter(
        time, power, size=3, fill_color=SOFT, line_color=None, fill_alpha=0.5, legend_label="samples"
    )
    if len(trend.time_s):
        chart.line(trend.time_s * 1e3, trend.power_w, line_color=INK, line_width=1.8, legend_label="trend")
    for kind, position in (("sse", profile.sse), ("ssp", profile.ssp)):
        chart.vspan(x=[position * profile.duration_s * 1e3], line_color=_COLORS[kind], line_width=1.5,
                   line_dash=_DASHES[kind], legend_label=f"{_SAID[kind]} from here")  # fmt: skip
    legend(chart)
    return chart


def _execution(
    profile: FineProfile, curves: list[Curve], contexts: list[ContextPower], watts: tuple[float, float]
) -> Any:
    span = profile.duration_s * 1e6
    chart = blank((0.0, span), watts, ("time of interest [µs]", "power [W]"), height=380)
    for curve in curves:
        color, across = _COLORS[curve.kind], curve.phase * span
        if curve.kind != "outlier":
            phase, power = thinned(curve.sample_phase * span, curve.sample_w, most=600)
            chart.scatter(phase, power, size=4, fill_color=color, line_color=None, fill_alpha=0.45)
        chart.varea(across, curve.low_w, curve.high_w, fill_color=color, fill_alpha=0.18)
        source = {"x": across, "y": curve.power_w, "low": curve.low_w, "high": curve.high_w}
        line = chart.line(x="x", y="y", source=source, line_color=color, line_width=1.8,
                         line_dash=_DASHES[curve.kind], legend_label=_SAID[curve.kind])  # fmt: skip
        rows = [("µs", "x{0.0}"), ("W", "y{0.0}"), ("from", "low{0.0}"), ("to", "high{0.0}")]
        hover(chart, rows, [line], mode="vline")
    for i, one in enumerate(contexts):
        at = span * (1.0 - 0.03 * (len(contexts) - i))
        chart.segment([at], [one.low_w], [at], [one.high_w], line_color=INK, line_width=1.4)
        chart.scatter([at], [one.mean_w], size=9, marker=_MARKERS[one.context], fill_color=INK,
                     line_color=None, legend_label=f"{one.context}: {one.mean_w:.1f} W")  # fmt: skip
    legend(chart)
    return chart
