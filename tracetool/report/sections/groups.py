"""Energy by what the run names: an icicle to zoom, and the largest groups."""

from __future__ import annotations

import polars as pl

from tracetool.report.pictures.icicle import icicle, nested
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html

_MOST = 20


def groups(page: RunPage) -> Section | None:
    """Return the energy by module, or by what ``--by`` asked for."""
    grouped = page.groups
    if grouped is None or not grouped.frame.height:
        return None
    by = ", ".join(grouped.keys)
    rows = grouped.frame[:-1].filter(pl.col("energy_j").is_not_null())
    if not rows.height:
        return None
    source = grouped.frame["source"][-1] or "predicted"
    intro = (
        f"Widths are joules, {source}; a box holds those below it, and idle time inside them is theirs."
        " Groups sum to the run."
    )
    shown = rows.head(_MOST).select(
        "name",
        "energy_j",
        "energy_low_j",
        "energy_high_j",
        (100.0 * pl.col("share")).alias("share_pct"),
        pl.col("time_ms").alias("device_time_ms"),
        "idle_ms",
        "power_w",
        "launches",
    )
    caption = f"Energy by {by}, largest first" + (
        f" ({_MOST} of {rows.height})" if rows.height > _MOST else ""
    )
    title = f"Energy by {by}"
    return Section("groups", title, intro, icicle(nested(rows), title) + table_html(shown, caption))
