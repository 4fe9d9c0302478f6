"""What other clocks would bring."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.replay.operating_points import front, least
from tracetool.report.pictures.charts import chart_html
from tracetool.report.pictures.pareto import pareto
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html


def clocks(page: RunPage) -> Section | None:
    """Return the Pareto picture of energy and time over clocks."""
    found = page.clocks
    if found is None or found.clock_mhz.size < 2:
        return None
    marks = found.marks(page.recorded_mhz)
    here = int(np.argmin(np.abs(found.clock_mhz - page.recorded_mhz)))
    best = least(found.energy_j, found.time_ms)
    saved = 100 * (1 - found.energy_j[best] / found.energy_j[here])
    slower = 100 * (found.time_ms[best] / found.time_ms[here] - 1)
    said = (
        f"At {found.clock_mhz[best]:.0f} MHz this run would take {saved:.1f} % less energy than at"
        f" {found.clock_mhz[here]:.0f} MHz and {abs(slower):.1f} % {'more' if slower >= 0 else 'less'} time,"
        " says the model."
        if best != here
        else f"The recorded clock, {found.clock_mhz[here]:.0f} MHz, takes the least energy, says the model."
    )
    on_front = front(found.time_ms, found.energy_j)
    rows = pl.DataFrame(
        {
            "clock_mhz": found.clock_mhz,
            "time_ms": found.time_ms,
            "energy_j": found.energy_j,
            "energy_low_j": found.low_j,
            "energy_high_j": found.high_j,
            "power_w": found.energy_j / np.maximum(found.time_ms / 1e3, 1e-12),
            "note": [marks.get(i, "" if on_front[i] else "beaten") for i in range(found.clock_mhz.size)],
        }
    )
    body = chart_html(pareto(found, marks), "clocks")
    details = (
        f"<details><summary>All clocks</summary>{table_html(rows, 'The whole run at each clock')}</details>"
    )
    return Section("clocks", "Other clocks", said + " Gaps on the host are kept.", body + details)
