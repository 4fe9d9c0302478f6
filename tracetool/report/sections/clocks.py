"""Time and energy at other clocks."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracetool.replay.operating_points import front, least
from tracetool.replay.sweep import gain_interval
from tracetool.report.pictures.charts import chart_html
from tracetool.report.pictures.pareto import pareto
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, table_html


def clocks(page: RunPage) -> Section | None:
    """Return the Pareto picture of energy and time over clocks."""
    sweep = page.clocks
    if sweep is None or sweep.clock_mhz.size < 2:
        return None
    marks = sweep.marks(page.recorded_mhz)
    start = int(np.argmin(np.abs(sweep.clock_mhz - page.recorded_mhz)))
    best = least(sweep.energy_j, sweep.time_ms)
    at_best, at_start = (
        {"energy_j": sweep.energy_j[i], "energy_low_j": sweep.low_j[i], "energy_high_j": sweep.high_j[i]}
        for i in (best, start)
    )
    saved, low, high = (100 * share for share in gain_interval(at_best, at_start))
    slower = 100 * (sweep.time_ms[best] / sweep.time_ms[start] - 1)
    word = "more" if slower >= 0 else "less"
    sentence = (
        f"Predicted: at {sweep.clock_mhz[best]:.0f} MHz this run would take {saved:.1f} % less energy"
        f" (90 %: {low:.1f} to {high:.1f} %) than at {sweep.clock_mhz[start]:.0f} MHz"
        f" and {abs(slower):.1f} % {word} time."
        if best != start
        else f"Predicted: the recorded clock, {sweep.clock_mhz[start]:.0f} MHz, takes the least energy."
    )
    on_front = front(sweep.time_ms, sweep.energy_j)
    rows = pl.DataFrame(
        {
            "clock_mhz": sweep.clock_mhz,
            "time_ms": sweep.time_ms,
            "energy_j": sweep.energy_j,
            "energy_low_j": sweep.low_j,
            "energy_high_j": sweep.high_j,
            "power_w": sweep.energy_j / np.maximum(sweep.time_ms / 1e3, 1e-12),
            "note": [marks.get(i, "" if on_front[i] else "beaten") for i in range(sweep.clock_mhz.size)],
        }
    )
    body = chart_html(pareto(sweep, marks), "clocks")
    details = (
        f"<details><summary>All clocks</summary>{table_html(rows, 'The whole run at each clock')}</details>"
    )
    return Section("clocks", "Other clocks", sentence + " Gaps on the host are kept.", body + details)
