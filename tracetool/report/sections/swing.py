"""The swing of power: over time, by window and by frequency."""

from __future__ import annotations

from tracetool.core.number_text import number
from tracetool.report.pictures.power_swing import MEASURED_INK, PREDICTED_INK, swing_picture
from tracetool.report.run_page import RunPage
from tracetool.report.sections.section import Section, legend_html, picture_html, table_html
from tracetool.report.terminal.power_swing import swing_rows, swing_sentence


def swing(page: RunPage) -> Section | None:
    """Return power over time and its spectrum as a picture, peaks and ramps as a table."""
    over_time = page.over_time
    if over_time is None or not over_time.records or not over_time.records[0]["windows"]:
        return None
    record = over_time.records[0]
    intro = (
        f"Predicted at {record['clock_mhz']:g} MHz, mean {number(record['mean_w'], 3)} W. The power drawn is "
        "shown, averaged over the stated windows alone: no sensor's averaging is in it. "
        f"{swing_sentence(record)}."
    )
    colors = [("predicted", PREDICTED_INK)]
    if over_time.frame["measured_w"].null_count() < over_time.frame.height:
        colors.append(("measured: the log's readings, with their sensor's averaging", MEASURED_INK))
    picture = picture_html(swing_picture(over_time.frame, record), "Power over time and its spectrum")
    table = table_html(
        swing_rows([record]), "Peaks and ramps of the mean power over a window (90 % interval)"
    )
    return Section("swing", "Power swings", intro, picture + legend_html(colors) + table)
