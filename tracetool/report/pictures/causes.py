"""The joules of a run by cause as a picture: one bar, cut where the causes end."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from tracetool.core.number_text import number
from tracetool.report.pictures.svg import OTHER, Drawing, family_colors, ink_on, share_label

_WIDTH: Final = 960.0
_BAR: Final = 46.0
_TICKS: Final = 18.0
#: What no cause took: drawn gray.
_USEFUL: Final = "useful"


def cause_colors(totals: pl.DataFrame) -> dict[str, str]:
    """Return the color of each cause of a run, useful work gray."""
    names = [name for name in totals["cause"][:-1].to_list() if name != _USEFUL]
    colors = family_colors(names)
    return {name: colors.get(name, OTHER) for name in totals["cause"][:-1].to_list()}


def causes_picture(totals: pl.DataFrame) -> str:
    """Return the causes of a run, largest first, as parts of one bar.

    Parameters
    ----------
    totals : DataFrame
        ``cause``, ``energy_j``, ``share``; the run last.
    """
    *causes, run_row = totals.iter_rows(named=True)
    shown = [row for row in causes if row["energy_j"] > 0]
    length = sum(row["energy_j"] for row in shown)
    drawing = Drawing(_WIDTH, _BAR + _TICKS, "Joules by cause", "; ".join(map(_sentence, shown)))
    colors, x = cause_colors(totals), 0.0
    for row in shown:
        width = _WIDTH * row["energy_j"] / length
        color = colors[row["cause"]]
        drawing.mark("rect", _sentence(row), x=x, y=0.0, width=width, height=_BAR, fill=color)
        label = share_label(row["cause"], f"{100 * row['share']:.1f} %", width - 8)
        if label:
            drawing.label((x, 12, width, _BAR - 12), label, fill=ink_on(color), font_size=12)
        x += width
    drawing.text(0.0, _BAR + 13, "0 J", font_size=12, fill="currentColor")
    total = f"{number(run_row['energy_j'])} J"
    drawing.text(_WIDTH, _BAR + 13, total, font_size=12, fill="currentColor", text_anchor="end")
    return drawing.svg()


def _sentence(row: dict[str, Any]) -> str:
    return f"{row['cause']} {number(row['energy_j'])} J, {100 * row['share']:.1f} %"
