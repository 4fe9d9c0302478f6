"""The roofline section.

References
----------
.. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
   Multicore Architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.number_text import counted, number, share
from tracetool.report.pictures.charts import INK, LINE, SOFT, Chart, blank, chart_html, hover, limits, plain
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html

_MOST_DOTS = 400
_LISTED = 40


def roof(page: RunPage) -> Section | None:
    """Return the roofline, where operations and bytes could be counted.

    Sizes inferred from the measured time would put a kernel where that time says: it has no point.
    """
    shaped = page.rows.filter(pl.col("predicted_from") == "shapes")
    rows = shaped.filter((pl.col("flops") > 0) & (pl.col("dram_bytes") > 0) & (pl.col("time_ms") > 0))
    if not rows.height or not page.ceilings.bytes_per_s:
        return None
    total = page.run_energy_j() or 1.0
    rows = rows.head(_MOST_DOTS).with_columns(
        (pl.col("flops") / pl.col("dram_bytes")).alias("intensity"),
        (pl.col("flops") * pl.col("launches") / (pl.col("time_ms") / 1e3)).alias("rate"),
        (pl.col("energy_j") / total).alias("share"),
    )
    unknown = page.rows.filter(pl.col("predicted_from") != "shapes")
    of_run = share(100.0 * float(unknown["energy_j"].sum()) / total)
    count = f"{counted(unknown.height, 'kernel')} ({of_run} % of the run)"
    left_out = f" Without a point: {count} whose shapes are not known." if unknown.height else ""
    chart = roofline(
        rows["intensity"].to_numpy(),
        rows["rate"].to_numpy(),
        rows["power_w"].cast(pl.Float64).to_numpy(),
        rows["share"].cast(pl.Float64).to_numpy(),
        rows["name"].to_list(),
        peaks_flops_per_s=page.ceilings.flops_per_s,
        bytes_per_s=page.ceilings.bytes_per_s,
    )
    return Section(
        "roofline",
        "Roofline",
        "Rates are counted operations over measured times; bytes are the model's counts. Size is energy,"
        f" color is power. Ceilings at {page.recorded_mhz:.0f} MHz.{left_out}",
        chart_html(chart, "roofline")
        + _size_key()
        + f"<details><summary>Figures</summary>{table_html(_listed(rows), 'Most energy first')}</details>",
    )


def _size(share: Floats) -> Floats:
    """Return the diameter of marks by their share of the run's energy. [px]"""
    return 8 + 20 * np.sqrt(np.maximum(np.nan_to_num(share), 0.0))


def _size_key() -> str:
    """Return which size is which share of the run's energy."""
    shares = np.array([0.01, 0.05, 0.25])
    items = "".join(
        f'<li><span class="swatch" style="width:{px:.0f}px;height:{px:.0f}px;border-radius:50%;'
        f'background:#888888"></span>{100 * of_run:.0f} % of the run</li>'
        for of_run, px in zip(shares.tolist(), _size(shares).tolist(), strict=True)
    )
    return f'<ul class="legend" aria-label="Sizes">{items}</ul>'


def _listed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.head(_LISTED).select(
        pl.col("name").alias("kernel"),
        pl.col("intensity").alias("FLOP per byte"),
        (pl.col("rate") / 1e12).alias("TFLOP/s"),
        "power_w",
        (100.0 * pl.col("share")).alias("share_pct"),
    )


def roofline(
    intensity: Floats,
    flops_per_s: Floats,
    power_w: Floats,
    share: Floats,
    names: Sequence[str],
    *,
    peaks_flops_per_s: Mapping[str, float],
    bytes_per_s: float,
) -> Chart:
    """Return the chart of n kernels under the GPU's ceilings.

    Parameters
    ----------
    intensity : array, shape (n,)
        Useful operations per byte of device-memory traffic. [FLOP/B]
    flops_per_s : array, shape (n,)
        Delivered rate. [FLOP/s]
    power_w : array, shape (n,)
        Mean power, the color. [W]
    share : array, shape (n,)
        Share of the run's energy, the size. [1]
    names : sequence of str, length n
        For tooltips.
    peaks_flops_per_s : mapping of str to float
        Compute ceilings by unit. [FLOP/s]
    bytes_per_s : float
        Memory ceiling. [B/s]
    """
    good = np.isfinite(intensity) & np.isfinite(flops_per_s) & (intensity > 0) & (flops_per_s > 0)
    peaks = dict(sorted(((k, v) for k, v in peaks_flops_per_s.items() if v and v > 0), key=lambda p: -p[1]))
    ridges = np.array([v / bytes_per_s for v in peaks.values()]) if bytes_per_s > 0 else np.array([])
    x = limits(np.concatenate([intensity[good], ridges * 4]), log=True)
    tops = np.array([*peaks.values()])
    y = limits(np.concatenate([flops_per_s[good], tops * 1.5]) / 1e12, log=True)
    labels = ("FLOP per byte of memory traffic", "delivered rate [TFLOP/s]")
    chart = blank(x, y, labels, height=470, width=760, log=True)
    _ceilings(chart, x, y, peaks, bytes_per_s)
    _dots(chart, np.flatnonzero(good), intensity, flops_per_s, power_w, share, names)
    caption = f"{counted(int(good.sum()), 'kernel')} with counted operations, colored by power."
    return Chart("Roofline", caption, chart)


def _dots(
    chart: Any,
    good: Any,
    intensity: Floats,
    rate: Floats,
    power_w: Floats,
    share: Floats,
    names: Sequence[str],
) -> None:
    from bokeh.palettes import Cividis256
    from bokeh.transform import linear_cmap

    rows = good[np.argsort(-np.nan_to_num(share[good]), kind="stable")]  # small ones stay on top
    watts = power_w[rows]
    finite = watts[np.isfinite(watts)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    color = linear_cmap("watts", Cividis256, low, high if high > low else low + 1.0, nan_color="#888888")
    dots = chart.scatter(
        x="x", y="y", size="size", fill_color=color, fill_alpha=0.85, line_color=INK, line_width=0.7,
        source={
            "x": intensity[rows], "y": rate[rows] / 1e12, "watts": watts,
            "size": _size(share[rows]),
            "name": [plain(names[i], 200) for i in rows],
            "said": [
                f"{number(float(intensity[i]), 3)} FLOP/B, {number(float(rate[i]) / 1e12, 3)} TFLOP/s,"
                f" {number(float(power_w[i]), 3)} W,"
                f" {100 * float(np.nan_to_num(share[i])):.2g} % of the run's energy"
                for i in rows
            ],
        },
    )  # fmt: skip
    hover(chart, [("", "name"), ("", "said")], [dots])
    bar = dots.construct_color_bar(
        title="power [W]", height=10, background_fill_color=None, border_line_color=None,
        title_text_color=INK, title_text_font_size="12px",
        title_text_font_style="normal", major_label_text_color=INK, major_label_text_font_size="12px",
        padding=8,
        major_tick_line_color=None,
    )  # fmt: skip
    chart.add_layout(bar, "below")


def _ceilings(
    chart: Any, x: tuple[float, float], y: tuple[float, float], peaks: Mapping[str, float], bytes_per_s: float
) -> None:
    """Draw the ceilings; their names are on an axis of their own, outside the frame, over no point."""
    from bokeh.models import FixedTicker, LogAxis

    top = max(peaks.values(), default=y[1] * 1e12)
    far = 100.0  # beyond the frame, for those who zoom out
    if bytes_per_s > 0:
        ends = np.array([x[0] / far, top / bytes_per_s])
        chart.line(ends, ends * bytes_per_s / 1e12, line_color=INK, line_width=1.5)
    names: dict[float | str, Any] = {}
    for unit, peak in peaks.items():
        ridge = peak / bytes_per_s if bytes_per_s > 0 else x[0]
        chart.line([ridge, x[1] * far], [peak / 1e12] * 2, line_color=INK, line_width=1.5)
        # a name of its own only where it does not cover another's
        rates = [float(rate) * 1e12 for rate in names]
        if all(abs(math.log(peak / drawn)) > 0.045 * math.log(y[1] / y[0]) for drawn in rates):
            names[peak / 1e12] = f"{unit} {number(peak / 1e12, 3)}"
    ticks: Any = FixedTicker(ticks=[float(rate) for rate in names])
    axis = LogAxis(
        ticker=ticks, major_label_overrides=names,
        major_label_text_color=INK, major_label_text_font_size="12px", axis_line_color=LINE,
        major_tick_line_color=INK, minor_tick_line_color=None, axis_label_text_color=SOFT,
        axis_label=f"slope: memory, {number(bytes_per_s / 1e9)} GB/s" if bytes_per_s > 0 else "",
        axis_label_text_font_size="13px", axis_label_text_font_style="normal",
    )  # fmt: skip
    chart.add_layout(axis, "right")
