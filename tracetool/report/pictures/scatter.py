"""Predicted against measured: on the diagonal both agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracetool.report import escape
from tracetool.report.columns import number
from tracetool.report.pictures.colours import OTHER
from tracetool.report.pictures.svg import Drawing, Scale
from tracetool.vocabulary.arrays import Floats

_BAND = 1.1  # a tenth to either side of the diagonal


def scatter(
    measured: Floats,
    predicted: Floats,
    names: Sequence[str],
    families: Sequence[str],
    colours: Mapping[str, str],
    *,
    quantity: str,
    unit: str,
) -> str:
    """Return the picture of n kernels, one mark each.

    Parameters
    ----------
    measured, predicted : array, shape (n,)
        The two figures; marks without two positive ones are left out.
    names, families : sequence of str, length n
        For tooltips and colours.
    colours : mapping of str to str
        Colour per family.
    quantity, unit : str
        What the axes show, e.g. ``time`` and ``ms``.
    """
    size, left, bottom = 460.0, 64.0, 400.0
    good = np.isfinite(measured) & np.isfinite(predicted) & (measured > 0) & (predicted > 0)
    both = np.concatenate([measured[good], predicted[good]])
    x = Scale.over(both, left, size - 12, log=True)
    y = Scale(x.low, x.high, bottom, 12.0, log=True)
    inside = np.maximum(predicted[good] / measured[good], measured[good] / predicted[good]) <= _BAND
    drawing = Drawing(
        size,
        442,
        f"Predicted against measured {quantity}",
        f"{int(good.sum())} kernels; {int(inside.sum())} lie within a tenth of the diagonal.",
    )
    drawing.axes(x, y, f"measured {quantity} [{unit}]", f"predicted {quantity} [{unit}]")
    ends = np.array([x.low, x.high])
    across = x.place(ends)
    lower, upper = y.place(ends / _BAND), y.place(ends * _BAND)
    points = [(across[0], lower[0]), (across[1], lower[1]), (across[1], upper[1]), (across[0], upper[0])]
    drawing.mark("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points), class_="band")
    drawing.mark("line", x1=left, y1=bottom, x2=size - 12, y2=12.0, class_="guide")
    xs, ys = x.place(measured[good]), y.place(predicted[good])
    order = np.argsort(-measured[good])
    kept = np.flatnonzero(good)[order]
    for i, at in zip(kept, order, strict=True):
        ratio = predicted[i] / measured[i]
        drawing.mark(
            "circle",
            f"{escape.name(names[i], 200)}: {number(float(measured[i]))} {unit} measured,"
            f" {number(float(predicted[i]))} {unit} predicted ({100 * (ratio - 1):+.0f} %)",
            cx=float(xs[at]),
            cy=float(ys[at]),
            r=4,
            fill=colours.get(families[i], OTHER),
            class_="dot",
        )
    return drawing.svg()
