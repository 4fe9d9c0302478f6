"""The fine-grain profile of a kernel: over a whole run, and over one execution with its bands."""

from __future__ import annotations

import numpy as np

from tracetool.measure.fingrav.interleaving import Interleaving
from tracetool.measure.fingrav.profile import Curve, FineProfile
from tracetool.report import escape
from tracetool.report.pictures.measured import points_of
from tracetool.report.pictures.svg import Drawing, Scale

_COLOURS = {"sse": "#2a6fbb", "ssp": "#c0392b", "outlier": "#7d7d7d"}
_CONTEXT_COLOURS = {
    "isolated": "#555555",
    "after-alike": "#1b7f5c",
    "after-heavy": "#b45f06",
    "after-light": "#6a3d9a",
}
_SAID = {"sse": "steady execution (SSE)", "ssp": "steady power (SSP)", "outlier": "outliers"}


def _one(drawing: Drawing, curve: Curve, x: Scale, y: Scale, *, span_us: float, dots: bool) -> None:
    colour = _COLOURS[curve.kind]
    if dots:
        step = max(1, len(curve.sample_w) // 600)
        places = zip(curve.sample_phase[::step], curve.sample_w[::step], strict=True)
        for phase, power in places:
            drawing.mark(
                "circle", cx=float(x.place(phase * span_us)), cy=float(y.place(power)), r=1.8,
                fill=colour, class_="dot",
            )  # fmt: skip
    across = x.place(curve.phase * span_us)
    band = points_of(
        np.concatenate([across, across[::-1]]),
        np.concatenate([y.place(curve.low_w), y.place(curve.high_w)[::-1]]),
    )
    drawing.mark("polygon", points=band, fill=colour, class_="band")
    drawing.mark("polyline", points=points_of(across, y.place(curve.power_w)), class_="curve", stroke=colour)


def power_profile(kernel: str, found: FineProfile, among: Interleaving | None = None) -> str:
    """Return the picture of a fine-grain profile.

    Left: samples of all golden runs over the time of a run, the degree-4 trend, and markers where
    execution time (SSE) and power (SSP) grow steady. Right: the course of one execution, and its mean
    power by what ran before, with its interval.
    """
    curves = [c for c in found.curves if c.component == "total"]
    values = [c.power_w for c in curves] + [c.sample_w for c in curves] + [found.run_trend.sample_w]
    contexts = [c for c in among.contexts if np.isfinite(c.mean_w)] if among is not None else []
    values += [np.array([c.low_w, c.high_w]) for c in contexts]
    everything = np.concatenate(values)
    drawing = Drawing(
        960.0,
        372.0,
        f"Power profile of {escape.name(kernel, 80)}",
        f"{int(found.golden.sum())} golden runs; "
        + "; ".join(f"{_SAID[c.kind]}: {c.mean_w:.1f} W from {c.samples} samples" for c in curves),
    )
    y = Scale.over(everything, 316.0, 28.0)
    trend = found.run_trend
    left = Scale.over(np.append(trend.sample_time_s, 0.0) * 1e3, 64.0, 470.0, margin=0.02)
    drawing.axes(left, y, "time in the run [ms]", "power [W]")
    step = max(1, len(trend.sample_w) // 1500)
    for at, power in zip(trend.sample_time_s[::step], trend.sample_w[::step], strict=True):
        drawing.mark(
            "circle", cx=float(left.place(at * 1e3)), cy=float(y.place(power)), r=1.5,
            fill="#888", class_="dot",
        )  # fmt: skip
    if len(trend.time_s):
        across = left.place(trend.time_s * 1e3)
        drawing.mark(
            "polyline", points=points_of(across, y.place(trend.power_w)), class_="curve", stroke="#222"
        )
    for kind, position in (("sse", found.sse), ("ssp", found.ssp)):
        at = float(left.place(position * found.duration_s * 1e3))
        drawing.mark("line", x1=at, x2=at, y1=28.0, y2=316.0, stroke=_COLOURS[kind], class_="guide")
        drawing.text(at + 3, 40 if kind == "sse" else 54, kind.upper(), fill=_COLOURS[kind])
    drawing.text(66, 40, "warm-up" if found.sse else "", fill="#666")
    span = found.duration_s * 1e6
    right = Scale(0.0, span, 540.0, 948.0)
    drawing.axes(right, y, "time of interest [us]", "")
    for i, curve in enumerate(curves):
        _one(drawing, curve, right, y, span_us=span, dots=curve.kind != "outlier")
        drawing.text(546 + 150 * i, 20, _SAID[curve.kind], fill=_COLOURS[curve.kind])
    for i, one in enumerate(contexts):
        at = 948.0 - 14.0 * (len(contexts) - i)
        low, mid, high = (float(y.place(w)) for w in (one.low_w, one.mean_w, one.high_w))
        drawing.mark("line", x1=at, x2=at, y1=low, y2=high, class_="whisker")
        drawing.mark("circle", cx=at, cy=mid, r=3.2, fill=_CONTEXT_COLOURS[one.context])
        drawing.text(546 + 100 * i, 40, one.context, fill=_CONTEXT_COLOURS[one.context])
    return drawing.svg()
