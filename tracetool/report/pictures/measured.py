"""Charts of measurements: a log against what explains it, and energy per class with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.number_text import counted, number
from tracetool.measure.timeline import ACTIVE_IDLE, IDLE
from tracetool.report.class_names import with_distinct_names
from tracetool.report.pictures.charts import (
    INK,
    MEASURED,
    MODEL,
    SOFT,
    Chart,
    blank,
    hover,
    legend,
    limits,
    plain,
)
from tracetool.report.sentences import shorten_names

if TYPE_CHECKING:
    from tracetool.measure.attribution import Attribution

#: Points beyond this are thinned: no screen shows more.
_MOST: Final = 4000
#: How opaque bars are, so that the line of an interval is seen on them, on light and dark pages.
_STRONG: Final = 0.6
_PALE: Final = 0.25
#: Bars beyond these are the smallest energies.
_MOST_BARS: Final = 25


def thinned(*columns: Floats, most: int = _MOST) -> list[Floats]:
    """Return columns of equal length at every so many points, at most about ``most``."""
    step = max(1, -(-len(columns[0]) // most))
    return [c[::step] for c in columns]


def log_picture(
    time_s: Floats,
    shown_w: Floats,
    explained_w: Floats,
    title: str,
    course: tuple[Floats, Floats] | None = None,
) -> Chart:
    """Return the log against the power that explains it.

    Parameters
    ----------
    time_s : array, shape (n,)
        Readings' times. [s]
    shown_w, explained_w : array, shape (n,)
        What the sensor showed, and what the attribution says it should have. [W]
    title : str
        What it is about.
    course : (time, power), each shape (m,), optional
        Power as reconstructed between readings, gain and offset undone. [s], [W]
    """
    miss = float(np.sqrt(np.mean((shown_w - explained_w) ** 2))) if len(time_s) else 0.0
    drawn = [shown_w, explained_w, *([] if course is None else [course[1]])]
    watts = limits(np.concatenate(drawn))
    chart = blank(limits(time_s, margin=0.01), watts, ("time [s]", "power [W]"), height=380, drag="width")
    time, shown, explained = thinned(time_s, shown_w, explained_w)
    if course is not None:
        label = "power reconstructed, gain undone"
        chart.step(*course, mode="center", line_color=SOFT, line_width=1.0, legend_label=label)
    chart.line(time, shown, line_color=MEASURED, line_width=1.5, legend_label="log, as the sensor shows it")
    chart.line(
        time,
        explained,
        line_color=MODEL,
        line_width=1.5,
        line_dash="dashed",
        legend_label="explained by classes",
    )
    legend(chart)
    caption = f"{len(time_s)} readings; residual {miss:.1f} W (RMS)."
    return Chart(plain(title, 300), caption, chart)


def attributed_log(attribution: Attribution) -> Chart:
    """Return the chart of an attribution's first log."""
    device, observation = next(iter(attribution.observations.items()))
    explained = attribution.classes[device].fitted_w
    times, shown = observation.readings.time_s, observation.readings.power_w
    return log_picture(
        times, shown, explained, f"Power log, {observation.field}", attribution.power_profile(device)
    )


def attributed_bars(energy: pl.DataFrame) -> Chart:
    """Return the chart of the classes of an attribution with most energy."""
    named = with_distinct_names(energy.filter(pl.col("duration_ns") > 0))
    rows = named.filter(pl.col("energy_j") > 0).sort("energy_j", descending=True).head(_MOST_BARS)
    ends = [rows[c].fill_null(np.nan).to_numpy() for c in ("energy_j", "energy_low_j", "energy_high_j")]
    is_idle = pl.col("class").is_in([ACTIVE_IDLE, IDLE])  # more than the gaps of the run
    rows = rows.with_columns(
        pl.when(is_idle).then(pl.col("class") + ", whole log").otherwise("class").alias("class")
    )
    names = rows["class"]
    if rows["device"].n_unique() > 1:
        names = rows.select(pl.format("GPU {}: {}", "device", "class")).to_series()
    return energy_bars(names.to_list(), ends[0], ends[1], ends[2], rows["identified"].to_list())


def energy_bars(
    names: Sequence[str],
    energy_j: Floats,
    low_j: Floats,
    high_j: Floats,
    identified: Sequence[bool] | None = None,
    title: str = "Measured energy per class",
) -> Chart:
    """Return energy per class as bars with 90 % intervals, in the order given; pale if not identified. [J]"""
    is_identified = [True] * len(names) if identified is None else list(identified)
    short = shorten_names([plain(name, 200) for name in names], 28)
    rows = [f"{i + 1}. {plain(name, 28)}" for i, name in enumerate(short)]  # numbered: names may repeat
    said_of_pale = "" if all(is_identified) else "\npale: not separated\nby the log"
    reach = float(np.nan_to_num(np.concatenate([[0.0], high_j, energy_j])).max())
    ends = (0.0, max(reach * 1.04, 1e-12))
    chart = blank(
        ends,
        rows[::-1] or [""],
        (f"energy [J]\nlines: 90 % intervals{said_of_pale}", ""),
        height=70 + 26 * len(rows),
    )
    full_names = [plain(name, 200) for name in names]
    figures = [
        f"{number(float(e))} J" + (f", {number(float(a))} to {number(float(b))}" if np.isfinite(a) else "")
        for e, a, b in zip(energy_j, low_j, high_j, strict=True)
    ]
    source = {
        "class": rows,
        "energy": energy_j,
        "low": low_j,
        "high": high_j,
        "name": full_names,
        "said": figures,
        "strength": [_STRONG if k else _PALE for k in is_identified],
    }
    bars = chart.hbar(y="class", right="energy", height=0.65, fill_color=MODEL, fill_alpha="strength",
                     line_color=None, source=source)  # fmt: skip
    chart.segment(x0="low", x1="high", y0="class", y1="class", line_color=INK, line_width=1.4, source=source)
    chart.ygrid.grid_line_color = None
    chart.xaxis.ticker.desired_num_ticks = 4  # beside the names a telephone leaves the bars little space
    hover(chart, [("", "name"), ("", "said")], [bars])
    sentence = "; ".join(
        f"{n}: {s}{'' if k else ' (not identified)'}"
        for n, s, k in zip(full_names, figures, is_identified, strict=True)
    )
    pale = "" if all(is_identified) else ", pale where the log does not separate a class from others"
    return Chart(
        title,
        f"{counted(len(rows), 'class', 'classes')}, bars with 90 % intervals{pale}. {sentence}",
        chart,
    )
