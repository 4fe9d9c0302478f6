"""The time budget as a picture: one bar of time, one of joules, cut into the same parts."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.number_text import number
from tracetool.replay.time_budget import TimeBudget
from tracetool.replay.time_parts import PARTS
from tracetool.report.pictures.charts import Chart
from tracetool.report.pictures.measured import energy_bars
from tracetool.report.pictures.svg import Drawing, family_colors, ink_on, share_label

_WIDTH: Final = 960.0
_LEFT: Final = 70.0
_BAR: Final = 46.0
_GAP: Final = 14.0


def part_colors() -> dict[str, str]:
    """Return the color of each part of a time budget."""
    return family_colors(PARTS)


def budget_picture(budget: TimeBudget) -> str:
    """Return the parts of a run as two bars of one length: time, and energy where there is any."""
    rows = budget.together().filter(pl.col("part") != "run")
    bars = [("time", rows["time_ms"].to_numpy(), "ms")]
    if rows["energy_j"].null_count() == 0:
        bars.append(("energy", rows["energy_j"].to_numpy(), "J"))
    colors = part_colors()
    drawing = Drawing(
        _WIDTH, len(bars) * (_BAR + _GAP), "Time and energy budget", "; ".join(budget_sentences(budget))
    )
    for i, (what, values, unit) in enumerate(bars):
        y, x, total = i * (_BAR + _GAP), _LEFT, float(values.sum())
        drawing.text(0.0, y + 0.6 * _BAR, what, font_size=13, fill="currentColor")
        for part, value in zip(rows["part"].to_list(), values, strict=True):
            width = (_WIDTH - _LEFT) * float(value) / total if total > 0 else 0.0
            if width <= 0.0:
                continue
            share = f"{100 * value / total:.1f} %"
            tooltip = f"{part}: {number(float(value))} {unit}, {share}"
            drawing.mark("rect", tooltip, x=x, y=y, width=width, height=_BAR, fill=colors[part])
            label = share_label(part, share, width - 8)
            if label:
                drawing.label((x, y + 12, width, _BAR - 12), label, fill=ink_on(colors[part]), font_size=12)
            x += width
    return drawing.svg()


def budget_sentences(budget: TimeBudget) -> list[str]:
    """Return a sentence per part that took any time."""
    sentences = []
    for row in budget.together().filter(pl.col("time_ms") > 0).iter_rows(named=True):
        text = f"{row['part']} {number(row['time_ms'])} ms"
        if row["energy_j"] is not None:
            text += f", {number(row['energy_j'])} J {row['source']}"
        sentences.append(text)
    return sentences


def budget_chart(budget: TimeBudget) -> Chart:
    """Return the energy of each part as bars with intervals; without energies their time."""
    rows = budget.together().filter((pl.col("part") != "run") & (pl.col("time_ms") > 0))
    ends = [rows[c].fill_null(np.nan).to_numpy() for c in ("energy_j", "energy_low_j", "energy_high_j")]
    return energy_bars(
        rows["part"].to_list(), ends[0], ends[1], ends[2], title="Energy by what it was spent on"
    )
