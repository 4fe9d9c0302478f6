"""Predicted against measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.core.arrays import Floats
from tracetool.core.number_text import number
from tracetool.families.names import UNKNOWN
from tracetool.report.accuracy import headline, whole_line
from tracetool.report.pictures.charts import INK, SOFT, Chart, blank, chart_html, hover, limits, plain
from tracetool.report.pictures.svg import OTHER, family_colors
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, line_html, table_html
from tracetool.report.sentences import coverage_line


def agreement(page: RunPage) -> Section:
    """Return the scatter of energies (or of times, without a power log) and the families' errors."""
    accuracy = page.accuracy
    rows = accuracy.table.filter((pl.col("level") == "signature") & (pl.col("compared_pct") > 0))
    colors = family_colors(page.families)
    pictures, drawn = [], set[str]()
    for quantity, unit, column in (("energy", "J", "energy{}_j"), ("time", "ms", "time{}_ms")):
        measured, predicted = column.format(""), column.format("_predicted")
        shown = rows.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
        shown = shown.sort(measured, descending=True).head(MOST_DOTS)
        if not shown.height:
            continue
        chart = scatter(
            shown[measured].to_numpy(),
            shown[predicted].to_numpy(),
            shown["name"].to_list(),
            shown["family"].fill_null(UNKNOWN).to_list(),
            colors,
            quantity=quantity,
            unit=unit,
            bounds=_bounds(shown, quantity, unit),
        )
        drawn |= set(shown["family"].fill_null(UNKNOWN))
        pictures.append(chart_html(chart, f"agreement-{quantity}"))
    listed = pl.col("level").is_in(["total", "family"]) & (pl.col("compared_pct") > 0)
    family_rows = accuracy.table.filter(listed | (pl.col("level") == "gap")).select(
        "name",
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        "energy_predicted_j",
        "energy_predicted_low_j",
        "energy_predicted_high_j",
        pl.col("energy_error_pct").round(1),
        "agrees",
        "kernel_share_pct",
        "time_ms",
        pl.col("time_error_pct").round(1),
    )
    family_rows = family_rows.select(
        c for c in family_rows.columns if family_rows[c].null_count() < family_rows.height
    )
    lines = line_html(coverage_line(accuracy.coverage))
    lines += "".join(line_html(w, "warning") for w in (*accuracy.breaches, *accuracy.warnings))
    families = table_html(family_rows, "Errors by family, worst first")
    known = [(family, color) for family, color in colors.items() if color != OTHER and family in drawn]
    key = legend_html([*known, ("other families", OTHER)] if drawn - {f for f, _ in known} else known)
    return Section(
        "agreement",
        "Predicted (unanchored) against measured",
        f"{headline(accuracy)}. {whole_line(accuracy)}. On the diagonal both agree; the band is a tenth to"
        " either side. Bars are 90 % intervals, colors families.",
        f'{lines}<div class="pair">{"".join(pictures)}</div>{key}{families}',
    )


#: Kernels shown at most, the largest first.
MOST_DOTS = 600
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
    bounds: Mapping[str, Floats] | None = None,
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
    bounds : mapping of str to array, shape (n,), optional
        Ends of 90 % intervals: ``x_low`` and ``x_high`` of what was measured, ``y_low`` and ``y_high`` of
        what was predicted; a bar is drawn where both are positive.
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
    for axis, at in (("x", y), ("y", x)):
        if bounds is None or f"{axis}_low" not in bounds:
            continue
        low, high = bounds[f"{axis}_low"][good], bounds[f"{axis}_high"][good]
        bar = np.isfinite(low) & np.isfinite(high) & (low > 0)
        starts, stops = (low[bar], at[bar]), (high[bar], at[bar])
        if axis == "y":
            starts, stops = starts[::-1], stops[::-1]
        chart.segment(*starts, *stops, line_color=SOFT, line_width=1.0, line_alpha=0.6)
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


def _bounds(rows: pl.DataFrame, quantity: str, unit: str) -> dict[str, Floats]:
    """Return the ends of the intervals that a table of kernels has, by axis of the picture."""
    names = {
        f"{axis}_{end}": f"{quantity}{stem}_{end}_{unit.lower()}"
        for axis, stem in (("x", ""), ("y", "_predicted"))
        for end in ("low", "high")
    }
    return {
        key: rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for key, name in names.items()
        if name in rows.columns
    }


def accuracy_scatter(accuracy: Accuracy) -> Chart:
    """Return the chart of a run's kernels: energies where the log has them, else times."""
    rows = accuracy.table.filter((pl.col("level") == "signature") & (pl.col("compared_pct") > 0))
    quantity, unit = ("energy", "J") if rows["energy_j"].is_not_null().any() else ("time", "ms")
    measured, predicted = f"{quantity}_{unit.lower()}", f"{quantity}_predicted_{unit.lower()}"
    shown = rows.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
    shown = shown.sort(measured, descending=True).head(MOST_DOTS)
    families = shown["family"].fill_null(UNKNOWN).to_list()
    return scatter(
        shown[measured].to_numpy(),
        shown[predicted].to_numpy(),
        shown["name"].to_list(),
        families,
        family_colors(list(dict.fromkeys(families))),
        quantity=quantity,
        unit=unit,
        bounds=_bounds(shown, quantity, unit),
    )
