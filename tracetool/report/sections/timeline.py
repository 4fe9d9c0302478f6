"""Power over time with the kernels under it."""

from __future__ import annotations

from tracetool.report.pictures.charts import chart_html
from tracetool.report.pictures.timeline_chart import timeline_chart
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html

_BUTTONS = (
    ("tl-in", "Zoom in"), ("tl-out", "Zoom out"), ("tl-left", "Earlier"), ("tl-right", "Later"),
    ("tl-all", "Whole run"),
)  # fmt: skip
_HEADERS = {"power_w": "predicted [W]", "measured_w": "measured [W]"}


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
        f"Lines: measured power and {predicted}"
        if measured
        else f"Line: {predicted}; the run has no power log"
    )
    return Section(
        "timeline",
        "Power and kernels over time",
        f"{lines}. Bars: launches, colored by family.{note} Drag to pan, Ctrl + wheel or the buttons to"
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
