"""Predicted against measured: on the diagonal both agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.figures import number
from tracetool.report.pictures.charts import INK, SOFT, Chart, blank, hover, limits, plain
from tracetool.report.pictures.colors import OTHER

_BAND = 1.1  # a tenth to either side of the diagonal


def scatter(
    measured: Floats,
    predicted: Floats,
    names: Sequence[str],
    families: Sequence[str],
    colors: Mapping[str, str],
    *,
    quantity: str,
    unit: str,
) -> Chart:
    """Return the chart of n kernels, one mark each.

    Parameters
    ----------
    measured, predicted : array, shape (n,)
        The two figures; marks without two positive ones are left out.
    names, families : sequence of str, length n
        For tooltips and colors.
    colors : mapping of str to str
        Color per family.
    quantity, unit : str
        What the axes show, e.g. ``time`` and ``ms``.
    """
    good = np.flatnonzero(np.isfinite(measured) & np.isfinite(predicted) & (measured > 0) & (predicted > 0))
    rows = [int(i) for i in good]
    x, y = measured[good], predicted[good]
    inside = int((np.maximum(y / x, x / y) <= _BAND).sum())
    ends = limits(np.concatenate([x, y]), log=True)
    labels = (f"measured {quantity} [{unit}]", f"predicted {quantity} [{unit}]")
    chart = blank(ends, ends, labels, height=440, width=560, log=True)
    reach = np.array([ends[0] / 10, ends[1] * 10])  # beyond the frame, for those who zoom out
    chart.patch([*reach, *reach[::-1]], [*(reach / _BAND), *(reach[::-1] * _BAND)], fill_color=SOFT,
               fill_alpha=0.18, line_color=None)  # fmt: skip
    chart.line(reach, reach, line_color=INK, line_width=1.5)
    dots = chart.scatter(
        x="x", y="y", size=8, fill_color="fill", fill_alpha=0.85, line_color=INK, line_width=0.7,
        source={
            "x": x, "y": y,
            "fill": [colors.get(families[i], OTHER) for i in rows],
            "name": [plain(names[i], 200) for i in rows],
            "family": [plain(families[i]) for i in rows],
            "measured": [f"{number(float(v))} {unit}" for v in x],
            "predicted": [
                f"{number(float(b))} {unit} ({100 * (b / a - 1):+.0f} %)" for a, b in zip(x, y, strict=True)
            ],
        },
    )  # fmt: skip
    tooltip = [("", "name"), ("family", "family"), ("measured", "measured"), ("predicted", "predicted")]
    hover(chart, tooltip, [dots])
    return Chart(
        f"Predicted against measured {quantity}",
        f"{good.size} kernels; {inside} lie within a tenth of the diagonal.",
        chart,
    )
