"""Where the device waits."""

from __future__ import annotations

from tracetool.core.figures import counted, number
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html


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
