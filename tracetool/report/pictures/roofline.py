"""The roofline: delivered rate against intensity, coloured by power.

References
----------
.. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
   Multicore Architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracetool.report import escape
from tracetool.report.columns import number
from tracetool.report.pictures.colours import sequential
from tracetool.report.pictures.svg import Drawing, Scale
from tracetool.vocabulary.arrays import Floats


def roofline(
    intensity: Floats,
    flops_per_s: Floats,
    power_w: Floats,
    share: Floats,
    names: Sequence[str],
    *,
    peaks_flops_per_s: Mapping[str, float],
    bytes_per_s: float,
) -> str:
    """Return the picture of n kernels under the GPU's ceilings.

    Parameters
    ----------
    intensity : array, shape (n,)
        Useful operations per byte of device-memory traffic. [FLOP/B]
    flops_per_s : array, shape (n,)
        Delivered rate. [FLOP/s]
    power_w : array, shape (n,)
        Mean power, the colour. [W]
    share : array, shape (n,)
        Share of the run's energy, the size. [1]
    names : sequence of str, length n
        For tooltips.
    peaks_flops_per_s : mapping of str to float
        Compute ceilings by unit. [FLOP/s]
    bytes_per_s : float
        Memory ceiling. [B/s]
    """
    width, left, bottom = 600.0, 74.0, 340.0
    good = np.isfinite(intensity) & np.isfinite(flops_per_s) & (intensity > 0) & (flops_per_s > 0)
    peaks = dict(sorted(((k, v) for k, v in peaks_flops_per_s.items() if v and v > 0), key=lambda p: -p[1]))
    ridges = np.array([v / bytes_per_s for v in peaks.values()]) if bytes_per_s > 0 else np.array([])
    x = Scale.over(np.concatenate([intensity[good], ridges * 2]), left, width - 112, log=True)
    y = Scale.over(np.concatenate([flops_per_s[good], np.array([*peaks.values()])]), bottom, 20.0, log=True)
    drawing = Drawing(
        width, 420, "Roofline", f"{int(good.sum())} kernels with counted operations, coloured by power."
    )
    scaled = Scale(y.low / 1e12, y.high / 1e12, y.start, y.end, log=True)
    drawing.axes(x, scaled, "operations per byte of memory traffic [FLOP/B]", "delivered rate [TFLOP/s]")
    labels = _ceilings(drawing, x, y, peaks, bytes_per_s)
    watts = power_w[good]
    finite = watts[np.isfinite(watts)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    colours = sequential((watts - low) / ((high - low) or 1.0))
    xs, ys = x.place(intensity[good]), y.place(flops_per_s[good])
    kept = np.flatnonzero(good)
    for at in np.argsort(-np.nan_to_num(share[good])):
        i = kept[at]
        drawing.mark(
            "circle",
            f"{escape.name(names[i], 200)}: {number(float(intensity[i]), 3)} FLOP/B,"
            f" {number(float(flops_per_s[i]) / 1e12, 3)} TFLOP/s, {number(float(power_w[i]), 3)} W",
            cx=float(xs[at]),
            cy=float(ys[at]),
            r=float(4 + 10 * np.sqrt(max(float(np.nan_to_num(share[i])), 0.0))),
            fill=colours[at],
            class_="dot",
        )
    for at, text in labels:
        drawing.text(x.end + 5, at, text)
    _legend(drawing, left, 390.0, low, high)
    return drawing.svg()


def _ceilings(
    drawing: Drawing, x: Scale, y: Scale, peaks: Mapping[str, float], bytes_per_s: float
) -> list[tuple[float, str]]:
    labels: list[tuple[float, str]] = []
    top = max(peaks.values(), default=y.high)
    if bytes_per_s > 0:
        first, last = max(x.low, y.low / bytes_per_s), min(x.high, top / bytes_per_s)
        if last > first:
            xs, ys = x.place(np.array([first, last])), y.place(np.array([first, last]) * bytes_per_s)
            drawing.mark(
                "line",
                f"device memory, {number(bytes_per_s / 1e9)} GB/s",
                x1=float(xs[0]),
                y1=float(ys[0]),
                x2=float(xs[1]),
                y2=float(ys[1]),
                class_="roof",
            )
    for unit, peak in peaks.items():
        ridge = peak / bytes_per_s if bytes_per_s > 0 else x.low
        start, at = float(x.place(max(ridge, x.low))), float(y.place(peak))
        if start >= x.end:
            continue
        drawing.mark("line", x1=start, x2=x.end, y1=at, y2=at, class_="roof")
        if all(abs(at + 4 - other) > 12 for other, _ in labels):
            labels.append((at + 4, f"{unit} {number(peak / 1e12, 3)}"))
    return labels


def _legend(drawing: Drawing, left: float, top: float, low: float, high: float) -> None:
    steps = 24
    for i, colour in enumerate(sequential(np.linspace(0, 1, steps))):
        drawing.mark("rect", x=left + 72 + i * 8, y=top, width=8.5, height=10, fill=colour)
    drawing.text(left, top + 9, "power [W]")
    drawing.text(left + 72, top + 24, number(low, 3), text_anchor="middle")
    drawing.text(left + 72 + steps * 8, top + 24, number(high, 3), text_anchor="middle")
