"""Pictures of measured runs: energy against time, energy against batch, and what differences are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.compare.run_tables.batch_curve import CURVE, BatchCurves, curve_energy
from tracetool.compare.run_tables.contrasts import Contrast, median_parts
from tracetool.compare.run_tables.factors import FACTORS
from tracetool.core import escape
from tracetool.core.arrays import Floats
from tracetool.core.number_text import number
from tracetool.report.pictures.svg import Drawing, family_colors, label_that_fits

_WIDTH: Final = 980.0
_LEFT: Final = 70.0
_RIGHT: Final = 310.0
_TOP: Final = 24.0
_HEIGHT: Final = 380.0
_DEGREES: Final = {
    "tensor_parallel": "TP", "expert_parallel": "EP", "data_parallel": "DP", "ulysses_degree": "Ulysses",
    "ring_degree": "ring",
}  # fmt: skip
#: Letters of a model in a legend that holds more than models.
_MODEL: Final = 20
#: Series that have a color and a name of their own.
_NAMED: Final = 9
#: Values of a decade that are marked, and those where an axis is so short that they would be too few.
_TICKS: Final = (1.0, 2.0, 5.0)
_FINE_TICKS: Final = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_FEWEST_TICKS: Final = 3
_MOST_TICKS: Final = 8
_POINTS: Final = 60


class _LogPlot:
    """A plot of two logarithmic axes."""

    def __init__(self, drawing: Drawing, x: Floats, y: Floats, labels: tuple[str, str]) -> None:
        self.drawing = drawing
        self.x, self.y = (_ends(v) for v in (x, y))
        for value in _ticks(*self.x):
            at = self.across(value)
            drawing.mark(
                "line", x1=at, x2=at, y1=_TOP, y2=_TOP + _HEIGHT, stroke="currentColor", stroke_opacity=0.15
            )
            drawing.text(at, _TOP + _HEIGHT + 18, f"{value:,g}", **_SMALL, text_anchor="middle")
        for value in _ticks(*self.y):
            at = self.down(value)
            drawing.mark(
                "line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at, stroke="currentColor", stroke_opacity=0.15
            )
            drawing.text(_LEFT - 6, at + 4, f"{value:,g}", **_SMALL, text_anchor="end")
        middle = 0.5 * (_LEFT + _WIDTH - _RIGHT)
        drawing.text(middle, _TOP + _HEIGHT + 38, f"{labels[0]}, log scale", **_SMALL, text_anchor="middle")
        drawing.text(0.0, 12.0, f"{labels[1]}, log scale", **_SMALL)

    def across(self, value: float) -> float:
        """Return the position of a value from left to right. [px]"""
        return _LEFT + _log_fraction(value, *self.x) * (_WIDTH - _RIGHT - _LEFT)

    def down(self, value: float) -> float:
        """Return the position of a value from top to bottom. [px]"""
        return _TOP + (1.0 - _log_fraction(value, *self.y)) * _HEIGHT

    def point(self, x: float, y: float, color: str, tooltip: str, *, hollow: bool = False) -> None:
        """Draw a point."""
        self.drawing.mark(
            "circle", tooltip, cx=self.across(x), cy=self.down(y), r=4, stroke=color, stroke_width=1.5,
            fill="none" if hollow else color, fill_opacity=0.8,
        )  # fmt: skip

    def line(self, x: Floats, y: Floats, color: str, tooltip: str) -> None:
        """Draw a line through points."""
        points = " ".join(
            f"{self.across(float(a)):.1f},{self.down(float(b)):.1f}" for a, b in zip(x, y, strict=True)
        )
        self.drawing.mark("polyline", tooltip, points=points, fill="none", stroke=color, stroke_width=1.5)


_SMALL: Final[dict[str, Any]] = {"font_size": 12, "fill": "currentColor"}


def _log_fraction(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _ends(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return low / 1.15, max(high * 1.15, low * 1.5)


def _ticks(low: float, high: float) -> list[float]:
    """Return round values in a range: powers of ten in a wide one, also values between in a narrow one.

    >>> _ticks(0.5, 3000.0), _ticks(3.0, 40.0), _ticks(80.0, 170.0)
    ([1.0, 10.0, 100.0, 1000.0], [5.0, 10.0, 20.0], [80.0, 100.0, 120.0, 150.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    wide, usual, narrow = (
        [float(f"{t * 10.0**d:g}") for d in decades for t in steps if low <= t * 10.0**d <= high]
        for steps in ((1.0,), _TICKS, _FINE_TICKS)
    )
    return narrow if len(usual) < _FEWEST_TICKS else usual if len(usual) <= _MOST_TICKS else wide


def _legend(drawing: Drawing, entries: Sequence[tuple[str, str]]) -> None:
    for i, (name, color) in enumerate(entries):
        y = _TOP + 16.0 * i
        drawing.mark("rect", x=_WIDTH - _RIGHT + 14, y=y, width=10, height=10, fill=color)
        drawing.text(_WIDTH - _RIGHT + 30, y + 9, label_that_fits(name, _RIGHT - 34), **_SMALL)


def _short(model: str) -> str:
    return model.rsplit("/", 1)[-1]


def _colors(models: pl.Series) -> dict[str, str]:
    order = models.value_counts(sort=True).sort("count", models.name, descending=[True, False])
    return family_colors(order[models.name].to_list())


def front_picture(runs: pl.DataFrame, unit: str) -> str | None:
    """Return energy of a unit against time of a step, a line per GPU under it all; or None."""
    rows = runs.filter((pl.col("unit") == unit) & (pl.col("step_s") > 0))
    if rows.height < 2:
        return None
    step = "time between tokens" if unit == "token" else "time of a batch"
    drawing = Drawing(
        _WIDTH, _TOP + _HEIGHT + 48, f"Energy of one {unit} against time",
        f"Energy of one {unit} against the {step}; {rows.height} configurations",
    )  # fmt: skip
    time, energy = rows["step_s"].to_numpy(), rows["energy_j"].to_numpy()
    label = f"{step} [s]"
    plot = _LogPlot(drawing, time, energy, (label, f"energy of one {unit} [J]"))
    gpus = rows["gpu"].unique().sort().to_list()
    for gpu in gpus:
        points = rows.filter(pl.col("gpu") == gpu).sort("step_s", "energy_j")
        best = points.filter(pl.col("energy_j") < pl.col("energy_j").cum_min().shift(1).fill_null(math.inf))
        text = f"{gpu}: no configuration is both faster and takes less energy"
        plot.line(best["step_s"].to_numpy(), best["energy_j"].to_numpy(), "currentColor", text)
    colors = _colors(rows["family"])
    for row in rows.to_dicts():
        tooltip = (
            f"{row['model']}, {row['task']}, {row['gpus']:.0f}x{row['gpu']}, batch {number(row['batch'], 3)}:"
            f" {number(row['energy_j'])} J, {number(row['step_s'], 3)} s"
        )
        hollow = row["gpu"] != gpus[0]
        plot.point(row["step_s"], row["energy_j"], colors[row["family"]], tooltip, hollow=hollow)
    entries = [(_short(m), c) for m, c in colors.items()][:_NAMED]
    _legend(drawing, entries)
    y = _TOP + 16.0 * len(entries) + 20.0
    kinds = f"filled: {gpus[0]}" + (f"; rings: {', '.join(gpus[1:])}" if len(gpus) > 1 else "")
    drawing.text(_WIDTH - _RIGHT + 14, y, label_that_fits(kinds, _RIGHT - 16), **_SMALL)
    return drawing.svg()


def batch_picture(runs: pl.DataFrame, curves: BatchCurves, unit: str) -> str | None:
    """Return energy of a unit against the batch, measured points on fitted curves; or None."""
    if not curves.frame.height:
        return None
    shown = curves.frame.filter(pl.col("unit") == unit).sort("batches", descending=True).head(_NAMED)
    if not shown.height:
        return None
    drawing = Drawing(
        _WIDTH, _TOP + _HEIGHT + 48, f"Energy of one {unit} against the batch",
        f"{shown.height} curves of most batches: per step / B + partly shared / sqrt(B) + per {unit}",
    )  # fmt: skip
    points = runs.join(shown.select(CURVE), on=list(CURVE), how="semi", nulls_equal=True)
    plot = _LogPlot(
        drawing, points["batch"].to_numpy(), points["energy_j"].to_numpy(),
        ("batch (running together)", f"energy of one {unit} [J]"),
    )  # fmt: skip
    names = _distinct_names(shown)
    colors = list(family_colors([str(i) for i in range(len(names))]).values())
    for row, name, color in zip(shown.to_dicts(), names, colors, strict=True):
        batch = np.geomspace(row["smallest_batch"], row["largest_batch"], _POINTS)
        coefficients = np.array([row["per_step_j"], row["partly_shared_j"], row["per_unit_j"]])
        plot.line(batch, curve_energy(coefficients, batch), color, name)
        for point in points.filter(pl.all_horizontal([pl.col(c) == row[c] for c in CURVE])).to_dicts():
            tooltip = f"{name}, batch {number(point['batch'], 3)}: {number(point['energy_j'])} J"
            plot.point(point["batch"], point["energy_j"], color, tooltip)
    _legend(drawing, list(zip(names, colors, strict=True)))
    return drawing.svg()


def _distinct_names(curves: pl.DataFrame) -> list[str]:
    """Return names of curves: what they all share is left out, GPUs stay."""
    differing = [c for c in ("model", "task", "precision") if curves[c].n_unique() > 1]
    degrees = [set(str(text).split()) for text in curves["parallel"]]
    shared = set.intersection(*degrees)
    return [
        ", ".join(
            [
                f"{row['gpus']:.0f}x{row['gpu']}",
                *(escape.shorten(_short(str(row[c])), _MODEL) for c in differing if row[c] is not None),
                *(_degree(d) for d in str(row["parallel"]).split() if d not in shared),
            ]
        )
        for row in curves.to_dicts()
    ]


def _degree(text: str) -> str:
    """Return a degree of parallelism as a legend has place for it.

    >>> _degree("tensor_parallel=4"), _degree("ring_degree=2"), _degree("tp=8")
    ('TP 4', 'ring 2', 'tp 8')
    """
    name, _, value = text.partition("=")
    return f"{_DEGREES.get(name, name)} {value}"


def factor_picture(contrasts: Sequence[Contrast]) -> str | None:
    """Return one bar per comparison, of its median ratio: what each latent factor adds or takes; or None."""
    if not contrasts:
        return None
    step, plot_left = 34.0, 330.0
    drawing = Drawing(
        _WIDTH, _TOP + step * len(contrasts) + 60.0, "What differences in energy are made of",
        "Energy that each latent factor adds or takes, in the pair of a comparison's median ratio",
    )  # fmt: skip
    colors = family_colors(FACTORS)
    shares = [{f: 100.0 * part for f, part in median_parts(c.pairs).items()} for c in contrasts]
    low = min(sum(min(v, 0.0) for v in s.values()) for s in shares)
    high = max(sum(max(v, 0.0) for v in s.values()) for s in shares)
    bounded_low, bounded_high = max(low, -100.0), min(max(high, 50.0), 300.0)
    scale = (_WIDTH - plot_left - 120.0) / (bounded_high - bounded_low)
    zero = plot_left - bounded_low * scale
    drawing.mark(
        "line", x1=zero, x2=zero, y1=_TOP - 6, y2=_TOP + step * len(contrasts), stroke="currentColor"
    )
    for i, (contrast, share) in enumerate(zip(contrasts, shares, strict=True)):
        y = _TOP + step * i
        name = f"{contrast.head} against {contrast.base}, per {contrast.per}"
        drawing.text(0.0, y + 15, label_that_fits(name, plot_left - 10), **_SMALL)
        ends = {-1: 0.0, 1: 0.0}
        for factor, value in share.items():
            side = -1 if value < 0 else 1
            start, ends[side] = ends[side], ends[side] + value
            a, b = (min(max(v, bounded_low), bounded_high) for v in sorted((start, ends[side])))
            tooltip = f"{name}: {factor} {value:+.1f} % of the energy of {contrast.base}"
            drawing.mark(
                "rect", tooltip, x=zero + a * scale, y=y, width=max(b - a, 0.0) * scale, height=22,
                fill=colors[factor],
            )  # fmt: skip
        ratio = 1.0 + sum(share.values()) / 100.0
        at = zero + min(max(ends[1], 0.0), bounded_high) * scale + 6
        cut = " (cut)" if ends[1] > bounded_high else ""
        drawing.text(at, y + 15, f"x {number(ratio, 3)}{cut}", **_SMALL)
    used = [f for f in FACTORS if any(abs(s[f]) > 0.05 for s in shares)]
    x = 0.0
    for factor in used:
        y = _TOP + step * len(contrasts) + 24
        drawing.mark("rect", x=x, y=y, width=10, height=10, fill=colors[factor])
        drawing.text(x + 15, y + 9, factor, **_SMALL)
        x += 26.0 + 7.6 * len(factor)
    return drawing.svg()
