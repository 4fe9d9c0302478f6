"""Power over time with the kernels under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tracetool.core.number_text import counted, number
from tracetool.report.pictures.charts import MEASURED, MODEL, Chart, blank, chart_html, hover, legend
from tracetool.report.pictures.timeline import Timeline
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html

_BUTTONS = (
    ("tl-in", "Zoom in"), ("tl-out", "Zoom out"), ("tl-left", "Earlier"), ("tl-right", "Later"),
    ("tl-all", "Whole run"),
)  # fmt: skip
_HEADERS = {"power_w": "predicted [W]", "measured_w": "measured [W]"}

#: Lines of a legend that the chart's height has place for, and the height of each further one. [px]
_LINES: Final = 3
_LINE_PX: Final = 20


def timeline(page: RunPage) -> Section | None:
    """Return the chart the page's script fills, and its buttons."""
    if page.timeline is None:
        return None
    buttons = "".join(f'<button type="button" id="{key}">{text}</button>' for key, text in _BUTTONS)
    merged = page.timeline.merged
    note = f" {merged:,} short launches share a bar with a neighbor." if merged else ""
    predicted = "the power predicted for what runs at each moment, within the GPU's power limit"
    measured = bool(page.timeline.packed["power"])
    lines = (
        f"Lines: the log's readings, averaged and delayed by their sensor, and {predicted}"
        if measured
        else f"Line: {predicted}; the run has no power log"
    )
    return Section(
        "timeline",
        "Power and kernels over time",
        f"{lines}. Bars: launches, colored by family; those shorter than a pixel share one, of the"
        f" family with most of their time.{note} Drag to pan, Ctrl + wheel or the buttons to"
        " zoom; with the picture in focus:"
        " + − ← → 0.",
        f'<div class="buttons" role="group" aria-label="Timeline view">{buttons}</div>'
        + chart_html(timeline_chart(page.timeline), "timeline")
        + '<p id="tl-said" class="note" aria-live="polite"></p>'
        + _table(page),
    )


def _table(page: RunPage) -> str:
    """Return the picture's figures as a folded table."""
    if not page.power.height:
        return ""
    shown = page.power if page.power["measured_w"].is_not_null().any() else page.power.drop("measured_w")
    several = len(page.timeline.packed["model"]) if page.timeline else 1
    title = "Mean power over equal parts of the run" + (f", sum of {several} GPUs" if several > 1 else "")
    table = table_html(shown, title, _HEADERS)
    return f"<details><summary>Power over time as a table</summary>{table}</details>"


_LEFT = 92  # px; both parts begin at the same place


def timeline_chart(timeline: Timeline) -> Chart:
    """Return the chart; its data sources are named ``tl-bars`` and, for each GPU, ``tl-model-0`` onwards."""
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, Range1d

    packed = timeline.packed
    span = packed["span_ns"] / 1e6
    tops = [max(p["power_w"], default=0.0) for p in packed["power"]]
    most = max([*tops, *(m["highest_w"] for m in packed["model"])], default=0.0)
    power = blank((0.0, span), (0.0, 1.05 * max(most, 1.0)), ("", "power [W]"), height=250, drag="width")
    power.x_range = Range1d(start=0.0, end=span, bounds=(0.0, span), name="tl-range")
    power.y_range.name = "tl-watts"
    for i, series in enumerate(packed["model"]):
        empty = ColumnDataSource({"x": [], "y": []}, name=f"tl-model-{i}")
        named = " ".join(filter(None, ("predicted", _device(packed["model"], series))))
        power.line(x="x", y="y", source=empty, line_color=MODEL, line_width=1.5,
                   line_dash="solid" if i == 0 else "dashed", legend_label=named)  # fmt: skip
    for i, series in enumerate(packed["power"]):
        field = " ".join(filter(None, ("measured", series["label"], _device(packed["power"], series))))
        power.line(series["time_ms"], series["power_w"], line_color=MEASURED, line_width=1.5,
                   line_dash="solid" if i == 0 else "dashed", legend_label=field)  # fmt: skip
    power.height += _LINE_PX * max(sum(len(item.items) for item in power.legend) - _LINES, 0)
    legend(power)
    lanes = _lanes(packed, power.x_range)
    for series in (power, lanes):
        series.min_border_left, series.min_border_right = _LEFT, 14
    caption = (
        f"{packed['count']:,} bars over {number(span)} ms in {len(packed['lanes'])} lanes. What the"
        " part in view holds is said below it."
    )
    return Chart(
        "Power and kernels over time", caption, column(power, lanes, sizing_mode="stretch_width", spacing=0)
    )


def _device(parts: Sequence[dict[str, Any]], part: dict[str, Any]) -> str:
    several = len({p["device"] for p in parts}) > 1
    return f"GPU {part['device']}" if several else ""


def _lanes(packed: dict[str, Any], x_range: Any) -> Any:
    from bokeh.models import ColumnDataSource

    names = list(dict.fromkeys(packed["lanes"]))
    chart = blank((0.0, 1.0), names[::-1], ("time [ms]", ""), height=64 + 24 * len(names), drag="width")
    chart.x_range = x_range
    chart.grid.grid_line_color = None
    source = ColumnDataSource(
        {k: [] for k in ("left", "right", "lane", "fill", "name", "said")}, name="tl-bars"
    )
    bars = chart.hbar(y="lane", left="left", right="right", height=0.8, fill_color="fill", line_color="fill",
                     line_width=0.6, source=source)  # fmt: skip
    hover(chart, [("", "name"), ("", "said")], [bars])
    return chart


def gaps(page: RunPage) -> Section | None:
    """Return the gaps by length, and the longest ones."""
    gap_lengths = page.gaps
    if not gap_lengths.count:
        return None
    joules = page.idle_w * gap_lengths.total_ms / 1e3
    share = 100 * gap_lengths.total_ms / gap_lengths.span_ms if gap_lengths.span_ms else 0.0
    intro = (
        f"The device waits {counted(gap_lengths.count, 'time')}, {number(gap_lengths.total_ms)} ms in all"
        f" ({share:.1f} % of the run); at {number(page.idle_w, 3)} W idle that is about"
        f" {number(joules, 3)} J."
    )
    body = table_html(gap_lengths.lengths, "Gaps by length") + table_html(gap_lengths.largest, "Longest gaps")
    return Section("gaps", "Gaps", intro, body)
