"""Power over time with the kernels under it: the empty chart, which the page's script fills as one zooms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetool.core.figures import number
from tracetool.report.pictures.charts import MEASURED, MODEL, Chart, blank, hover, legend
from tracetool.report.pictures.timeline import Timeline

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
    for i, part in enumerate(packed["model"]):
        empty = ColumnDataSource({"x": [], "y": []}, name=f"tl-model-{i}")
        named = " ".join(filter(None, ("predicted", _device(packed["model"], part))))
        power.line(x="x", y="y", source=empty, line_color=MODEL, line_width=1.5,
                   line_dash="solid" if i == 0 else "dashed", legend_label=named)  # fmt: skip
    for i, part in enumerate(packed["power"]):
        field = " ".join(filter(None, ("measured", part["label"], _device(packed["power"], part))))
        power.line(part["time_ms"], part["power_w"], line_color=MEASURED, line_width=1.5,
                   line_dash="solid" if i == 0 else "dashed", legend_label=field)  # fmt: skip
    legend(power)
    lanes = _lanes(packed, power.x_range)
    for part in (power, lanes):
        part.min_border_left, part.min_border_right = _LEFT, 14
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
