"""Where the device waits."""

from __future__ import annotations

from tracetool.core.figures import counted, number
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html


def gaps(page: RunPage) -> Section | None:
    """Return the gaps by length, and the longest ones."""
    found = page.gaps
    if not found.count:
        return None
    joules = page.idle_w * found.total_ms / 1e3
    share = 100 * found.total_ms / found.span_ms if found.span_ms else 0.0
    intro = (
        f"The device waits {counted(found.count, 'time')}, {number(found.total_ms)} ms in all"
        f" ({share:.1f} % of the run); at {number(page.idle_w, 3)} W idle that is about"
        f" {number(joules, 3)} J."
    )
    body = table_html(found.lengths, "Gaps by length") + table_html(found.largest, "Longest gaps")
    return Section("gaps", "Gaps", intro, body)
