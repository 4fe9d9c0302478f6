"""Power over time with the kernels under it."""

from __future__ import annotations

from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section

_BUTTONS = (
    ("tl-in", "Zoom in"), ("tl-out", "Zoom out"), ("tl-left", "Earlier"), ("tl-right", "Later"),
    ("tl-all", "Whole run"),
)  # fmt: skip


def timeline(page: RunPage) -> Section | None:
    """Return the canvas the page's script draws on, and its buttons."""
    if page.timeline is None:
        return None
    buttons = "".join(f'<button type="button" id="{key}">{text}</button>' for key, text in _BUTTONS)
    merged = page.timeline.merged
    note = f" {merged:,} short launches share a bar with a neighbour." if merged else ""
    lanes = len(page.timeline.packed["lanes"])
    return Section(
        "timeline",
        "Power and kernels over time",
        "Lines: measured power and what the kernels' joules below add up to. Bars: launches, coloured by"
        f" family.{note} Drag to pan, Ctrl + wheel or the buttons to zoom; with the picture in focus:"
        " + − ← → 0.",
        f'<div class="buttons" role="group" aria-label="Timeline view">{buttons}</div>'
        f'<canvas id="tl" tabindex="0" role="img" aria-describedby="tl-said" data-lanes="{lanes}"'
        ' aria-label="Power and kernels over time"></canvas>'
        '<p id="tl-said" class="note" aria-live="polite"></p>'
        "<noscript><p>The timeline needs scripts.</p></noscript>",
    )
