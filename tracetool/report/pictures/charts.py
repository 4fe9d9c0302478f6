"""Common parts of charts: one look, one way into a page, and the library they are drawn by."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from tracetool.core import escape
from tracetool.core.arrays import Floats
from tracetool.core.errors import MissingPart

#: Colors of the light page; the page's script puts the reader's theme in their place (``charts.js``).
INK: Final = "#1b1f24"
SOFT: Final = "#57606a"
LINE: Final = "#d0d7de"
BACK: Final = "#ffffff"
MEASURED: Final = "#c2410c"
MODEL: Final = "#1d4ed8"

_FONT: Final = "system-ui, sans-serif"
#: Leading digits of ticks on a log scale of one to two decades, where the library puts them at equal
#: steps, all in the upper half. [1] By definition.
_LEADING: Final = (1, 2, 5)
#: What starts a formula in a text; the formulas' own library is not in the page.
_FORMULAS: Final = (("$$", "$ $"), ("\\[", "\\ ["), ("\\(", "\\ ("))


@dataclass(frozen=True)
class Chart:
    """A chart, and its text for those who cannot see it."""

    title: str
    caption: str
    model: Any


def need_bokeh() -> None:
    """Make sure that the chart library is there.

    Raises
    ------
    MissingPart
        If it is not, with the command that installs it.
    """
    try:
        import bokeh.plotting  # noqa: F401
    except ImportError:
        raise MissingPart("charts need the package bokeh", "pip install bokeh") from None


def plain(text: str, width: int = escape.NAME_WIDTH) -> str:
    r"""Return a name as a chart may show it: printable, short, and never taken for a formula.

    >>> plain("f<$$x$$>")
    'f<$ $x$ $>'
    """
    shown = escape.name(text, width)
    for opens, apart in _FORMULAS:
        shown = shown.replace(opens, apart)
    return shown


def limits(values: Floats, *, log: bool = False, margin: float = 0.05) -> tuple[float, float]:
    """Return ends of an axis that include all finite values with a margin; with none, 1 and 10.

    >>> limits(np.array([0.0, 10.0, np.nan]), margin=0.1)
    (-1.0, 11.0)
    """
    usable = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not usable.size:
        return 1.0, 10.0
    low, high = float(usable.min()), float(usable.max())
    if log:
        middle = 0.5 * (math.log10(low) + math.log10(high))
        reach = max(math.log10(high) - math.log10(low), 0.3) * (0.5 + margin)
        return 10.0 ** (middle - reach), 10.0 ** (middle + reach)
    spread = (high - low) or abs(high) or 1.0
    return low - margin * spread, high + margin * spread


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a log scale of one to two decades and of those around it, for readers who pan.

    There are none for other scales, where the library's serve.

    >>> [tick for tick in log_ticks(0.06, 4.0) if 0.06 <= tick <= 4.0], log_ticks(1.0, 5.0)
    ([0.1, 0.2, 0.5, 1.0, 2.0], [])
    """
    if not 1.0 <= math.log10(high / low) < 2.0:
        return []
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    return [float(f"{digit}e{decade}") for decade in decades for digit in _LEADING]


def blank(
    x: tuple[float, float],
    y: tuple[float, float] | list[str],
    labels: tuple[str, str],
    *,
    height: int,
    width: int | None = None,
    log: bool = False,
    drag: Literal["both", "width"] = "both",
) -> Any:
    """Return an empty chart.

    Parameters
    ----------
    x, y : (low, high), or names from bottom to top for ``y``
        Ends of the axes.
    labels : (str, str)
        Names of the axes with units.
    height, width : int
        Height, and the most it takes of the page's width. [px]
    log : bool
        Whether equal ratios take equal space.
    drag : {"both", "width"}
        Which way dragging and Ctrl + wheel move.
    """
    need_bokeh()
    from bokeh.models import FactorRange, FixedTicker, PanTool, PrintfTickFormatter, Range1d, WheelZoomTool
    from bokeh.plotting import figure

    kind: Literal["log", "linear"] = "log" if log else "linear"
    labels = (f"{labels[0]}, log scale", f"{labels[1]}, log scale") if log else labels
    chart = figure(
        height=height,
        sizing_mode="stretch_width",
        max_width=width,
        x_range=Range1d(start=x[0], end=x[1]),
        y_range=FactorRange(factors=y) if isinstance(y, list) else Range1d(start=y[0], end=y[1]),
        x_axis_type=kind,
        y_axis_type="auto" if isinstance(y, list) else kind,
        x_axis_label=labels[0],
        y_axis_label=labels[1],
        tools=[],
        toolbar_location=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=LINE,
    )
    wheel = WheelZoomTool(dimensions=drag, modifiers="ctrl")
    pan = PanTool(dimensions=drag)
    chart.add_tools(pan, wheel)
    chart.toolbar.active_scroll, chart.toolbar.active_drag = wheel, pan
    for axis in (*chart.xaxis, *chart.yaxis):
        axis.update(
            axis_label_text_font=_FONT, axis_label_text_font_size="13px", axis_label_text_font_style="normal",
            axis_label_text_color=SOFT, major_label_text_font=_FONT, major_label_text_font_size="12px",
            major_label_text_color=INK, axis_line_color=LINE, major_tick_line_color=SOFT,
            minor_tick_line_color=None,
        )  # fmt: skip
        if log:
            axis.formatter = PrintfTickFormatter(format="%.4g")  # without a precision 0.30000000000000004
            axis.ticker.desired_num_ticks = 4  # over less than two decades more of them would collide
    for axes, ends in ((chart.xaxis, x), (chart.yaxis, y)) if log else ():
        if isinstance(ends, tuple) and (ticks := log_ticks(*ends)):
            axes.ticker = FixedTicker(ticks=ticks)
    chart.grid.grid_line_color = LINE
    return chart


def legend(chart: Any, place: str = "above") -> None:
    """Give a chart with named marks a legend outside its frame, so that it hides nothing."""
    from bokeh.models.annotations import Legend

    for item in chart.legend:
        item.update(
            background_fill_color=None, border_line_color=None, label_text_color=INK, label_text_font=_FONT,
            label_text_font_size="12px", padding=0, margin=0, spacing=2, glyph_height=18, label_height=18,
        )  # fmt: skip
        if isinstance(item, Legend):
            chart.add_layout(item, place)


def hover(chart: Any, rows: list[tuple[str, str]], over: list[Any], **options: Any) -> None:
    """Tell what is under the pointer: a label and a column per row; the columns' texts stay texts."""
    from bokeh.models import HoverTool

    cells = "".join(f"<div><b>{label}</b> @{column}</div>" for label, column in rows)
    html = f'<div style="max-width:18rem;overflow-wrap:anywhere;font:12px {_FONT}">{cells}</div>'
    chart.add_tools(HoverTool(tooltips=html, renderers=over, **options))


def chart_html(chart: Chart, key: str) -> str:
    """Return a chart's place in a page, and its data beside it for ``charts.js`` to draw."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item

    place = f"chart-{key}"
    item = json.dumps(
        json_item(chart.model, ID(place)), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return (
        f'<div class="chart" id="{place}" role="img" tabindex="0"'
        f' aria-label="{escape.html(f"{chart.title}. {chart.caption}")}"></div>'
        f'<script type="application/json" class="chart-data">{escape.script(item)}</script>'
    )


def library() -> str:
    """Return the chart library's script, the part that draws plots."""
    need_bokeh()
    from bokeh.resources import Resources

    scripts = Resources(mode="inline", components=["bokeh"], minified=True, log_level="error").js_raw
    return "\n".join(scripts)
