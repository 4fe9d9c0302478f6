"""Power over time and its spectrum as one picture: predicted, and the log's readings on the same axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.number_text import number
from tracetool.report.pictures.charts import MEASURED, MODEL
from tracetool.report.pictures.svg import Drawing

#: Colors of the two curves: the page's, which suit its light and dark scheme.
PREDICTED_INK: Final = f"var(--model, {MODEL})"
MEASURED_INK: Final = f"var(--measured, {MEASURED})"
_WIDTH: Final = 960.0
_LEFT: Final = 64.0
_HEIGHT: Final = 200.0
_TOP: Final = 24.0
_APART: Final = 70.0
#: Points of a line at most; a longer one is drawn as means.
_POINTS: Final = 900
_TICKS: Final = 5


def swing_picture(frame: pl.DataFrame, record: Mapping[str, Any]) -> str:
    """Return power over time above its spectrum.

    Parameters
    ----------
    frame : DataFrame
        The ``power_over_time`` table at one clock; its GPUs are summed.
    record : mapping
        Peaks, ramps and spectrum of the same, as ``predict --power-over-time --json`` states them.
    """
    drawing = Drawing(
        _WIDTH,
        2.0 * (_TOP + _HEIGHT) + _APART + 44.0,
        "Power over time and its spectrum",
        f"mean {number(record['mean_w'], 3)} W; spectrum of the swing from 0.1 to 20 Hz",
    )
    gpus = frame["device"].n_unique()
    all_gpus = frame.group_by("time_ms", maintain_order=True).agg(
        pl.col("power_w").sum(),
        # a step counts where every GPU has a reading in it
        pl.when(pl.col("measured_w").null_count() == 0).then(pl.col("measured_w").sum()).alias("measured_w"),
    )
    _over_time(drawing, all_gpus, "power of all GPUs [W]" if gpus > 1 else "power [W]")
    _spectrum(drawing, record["spectrum"], 2.0 * _TOP + _HEIGHT + _APART)
    return drawing.svg()


def _over_time(drawing: Drawing, rows: pl.DataFrame, label: str) -> None:
    time, power = rows["time_ms"].to_numpy(), rows["power_w"].to_numpy()
    measured = rows["measured_w"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    measured_seconds = np.isfinite(measured)
    top = _round_up(float(max(power.max(initial=1.0), np.max(measured, where=measured_seconds, initial=1.0))))
    span = max(float(time[-1]), 1e-6)
    _frame(drawing, _TOP, top, label)
    for at in _ticks(span):
        drawing.text(
            _LEFT + at / span * (_WIDTH - _LEFT - 20), _TOP + _HEIGHT + 18, f"{number(at, 3)}",
            font_size=12, fill="currentColor", text_anchor="middle",
        )  # fmt: skip
    drawing.text(
        0.5 * _WIDTH,
        _TOP + _HEIGHT + 36,
        "time [ms]",
        font_size=12,
        fill="currentColor",
        text_anchor="middle",
    )
    for name, color, x, y in (
        ("predicted, drawn", PREDICTED_INK, *_means(time, power)),
        (
            "measured, with the sensor's averaging",
            MEASURED_INK,
            *_means(time[measured_seconds], measured[measured_seconds]),
        ),
    ):
        if not len(x):
            continue
        points = zip(_LEFT + x / span * (_WIDTH - _LEFT - 20), _TOP + _HEIGHT * (1 - y / top), strict=True)
        drawing.mark(
            "polyline", name, points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points), fill="none",
            stroke=color, stroke_width=1.5,
        )  # fmt: skip


def _spectrum(drawing: Drawing, spectrum: Mapping[str, Any], at: float) -> None:
    bands = spectrum["bands"]
    swings = [b["swing_w"] for b in bands]
    ends = [b["swing_high_w"] for b in bands if b["swing_high_w"] is not None]
    top = _round_up(max([1.0, *ends]))
    _frame(drawing, at, top, "swing per band [W rms]")
    width = (_WIDTH - _LEFT - 20) / len(bands)
    for i, (band, swing) in enumerate(zip(bands, swings, strict=True)):
        x = _LEFT + i * width
        if i % 3 == 0:
            drawing.text(
                x, at + _HEIGHT + 18, f"{band['from_hz']:.2g}",
                font_size=12, fill="currentColor", text_anchor="middle",
            )  # fmt: skip
        if swing is None:
            continue
        low, high = band["swing_low_w"], band["swing_high_w"]
        tooltip = (
            f"{band['from_hz']:.3g} to {band['to_hz']:.3g} Hz: {number(swing, 3)} W rms"
            f" ({number(low, 3)} to {number(high, 3)})"
        )
        height = _HEIGHT * swing / top
        drawing.mark(
            "rect",
            tooltip,
            x=x + 2,
            y=at + _HEIGHT - height,
            width=width - 4,
            height=height,
            fill=PREDICTED_INK,
        )
        drawing.mark(
            "line", tooltip, x1=x + 0.5 * width, x2=x + 0.5 * width, y1=at + _HEIGHT * (1 - low / top),
            y2=at + _HEIGHT * (1 - high / top), stroke="currentColor", stroke_width=1,
        )  # fmt: skip
    drawing.text(
        0.5 * _WIDTH, at + _HEIGHT + 36, "frequency [Hz], log scale", font_size=12, fill="currentColor",
        text_anchor="middle",
    )  # fmt: skip


def _frame(drawing: Drawing, at: float, top: float, label: str) -> None:
    """Draw the grid of one plot, its label above."""
    drawing.text(0.0, at - 8, label, font_size=12, fill="currentColor")
    for share in np.linspace(0.0, 1.0, _TICKS):
        y = at + _HEIGHT * (1.0 - share)
        drawing.mark("line", x1=_LEFT, x2=_WIDTH - 20, y1=y, y2=y, stroke="currentColor", stroke_opacity=0.2)
        drawing.text(
            _LEFT - 6, y + 4, f"{share * top:,g}", font_size=12, fill="currentColor", text_anchor="end"
        )


def _means(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return at most so many points: means of equal numbers of neighbors."""
    size = -(-len(x) // _POINTS)
    if size <= 1:
        return x, y
    starts = np.arange(0, len(x), size)
    counts = np.diff(np.append(starts, len(x)))
    return x[starts], np.asarray(np.add.reduceat(y, starts) / counts)


def _ticks(span: float) -> Floats:
    """Return round numbers from 0 to a span, about as many as there are lines of the grid.

    >>> _ticks(11747.0)
    array([    0.,  2500.,  5000.,  7500., 10000.])
    """
    decade = 10.0 ** float(np.floor(np.log10(span / _TICKS)))
    step = min((m * decade for m in (1.0, 2.0, 2.5, 5.0, 10.0)), key=lambda s: abs(np.log(s * _TICKS / span)))
    return np.asarray(np.arange(0.0, span * (1.0 + 1e-9), step))


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 5, 8, 10 times a power of ten.

    >>> _round_up(317.0), _round_up(0.09)
    (400.0, 0.1)
    """
    decade = 10.0 ** float(np.floor(np.log10(value)))
    return float(next(m * decade for m in (1, 2, 4, 5, 8, 10) if m * decade >= value * (1 - 1e-12)))
