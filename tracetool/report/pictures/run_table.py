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
from tracetool.core.arrays import Floats
from tracetool.core.number_text import number
from tracetool.report.pictures.svg import Drawing, family_colors, label_that_fits

_WIDTH: Final = 920.0
_LEFT: Final = 70.0
_RIGHT: Final = 250.0
_TOP: Final = 24.0
_HEIGHT: Final = 380.0
#: Series that have a color and a name of their own.
_NAMED: Final = 9
_TICKS: Final = (1.0, 2.0, 5.0)
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
            drawing.text(at, _TOP + _HEIGHT + 18, number(value, 2), **_SMALL, text_anchor="middle")
        for value in _ticks(*self.y):
            at = self.down(value)
            drawing.mark(
                "line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at, stroke="currentColor", stroke_opacity=0.15
            )
            drawing.text(_LEFT - 6, at + 4, number(value, 2), **_SMALL, text_anchor="end")
        middle = 0.5 * (_LEFT + _WIDTH - _RIGHT)
        drawing.text(middle, _TOP + _HEIGHT + 38, labels[0], **_SMALL, text_anchor="middle")
        drawing.text(0.0, 12.0, labels[1], **_SMALL)

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
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [t * 10.0**d for d in decades for t in _TICKS if low <= t * 10.0**d <= high]
    return ticks if len(ticks) <= 2 * len(_TICKS) + 2 else [t for t in ticks if f"{t:e}".startswith("1")]


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
    differing = [c for c in ("model", "task", "precision", "parallel") if curves[c].n_unique() > 1]
    return [
        ", ".join(
            [
                f"{row['gpus']:.0f}x{row['gpu']}",
                *(_short(str(row[c])) for c in differing if row[c] is not None),
            ]
        )
        for row in curves.to_dicts()
    ]


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
