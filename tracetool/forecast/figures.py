"""The figures of a forecast, each with the ends of its 90 % interval, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracetool.core.interval import Z90
from tracetool.forecast.pricing import Row
from tracetool.forecast.steps import Step

#: Columns of a forecast, each with ``_low`` and ``_high``, in the order they are written.
FIGURES = (
    "step_ms",
    "ttft_ms",
    "itl_ms",
    "tokens_per_s",
    "power_w",
    "energy_per_token_j",
    "energy_per_item_j",
    "memory_gib",
)


#: What is called so waits: no kernel runs.
IDLE = "(idle)"
#: Relative half-width beyond which the lower end falls as its inverse. [1] Continuity with a straight end.
_WIDE = 0.5


@dataclass(frozen=True)
class Figure:
    """A value and the ends of its 90 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, down: float, up: float) -> Figure:
        """Return a value with relative half-widths; a wide one below is taken as a factor: no end is zero."""
        below = 1.0 - down if down < _WIDE else (1.0 - _WIDE) * _WIDE / down
        return cls(value, value * below, value * (1.0 + up))


@dataclass(frozen=True)
class Widths:
    """Relative half-widths of time, power and energy, below and above."""

    time: tuple[float, float]
    power: tuple[float, float]
    energy: tuple[float, float]

    @classmethod
    def of(cls, weighted_steps: Sequence[tuple[float, Step]], time_sd: float, power_sd: float) -> Widths:
        r"""Return the widths of steps mixed by weights of their time.

        Parameters
        ----------
        weighted_steps : sequence of (weight, Step)
            Steps and the share of the time each has.
        time_sd, power_sd : float
            What steps of one kind err by in common, of time and of power. [ln]

        Notes
        -----
        Power errs by itself and where the time does: the same counts in a longer time cost the base alone
        more, with :math:`b` its share of the energy.

        .. math:: w_E^2 = w_P^2 + \left(\tfrac{1 + b}{2} w_t\right)^2, \quad
            w_{\bar P}^2 = w_P^2 + \left(\tfrac{1 - b}{2} w_t\right)^2
        """
        total_weight = sum(weight for weight, _ in weighted_steps) or 1.0
        joules = sum(w * step.power_w for w, step in weighted_steps) or 1.0
        base = sum(w * step.idle_w for w, step in weighted_steps) / joules

        def mean(name: str) -> float:
            return float(sum(weight * getattr(step, name) for weight, step in weighted_steps) / total_weight)

        ends = []
        for sides in (("time_down", "power_down"), ("time_up", "power_up")):
            time = float(np.hypot(mean(sides[0]), Z90 * time_sd))
            power = float(np.hypot(mean(sides[1]), Z90 * power_sd))
            joined = float(np.hypot(power, (1.0 - base) / 2.0 * time))
            energy = float(np.hypot(power, (1.0 + base) / 2.0 * time))
            ends.append((time, joined, energy))
        (t0, p0, e0), (t1, p1, e1) = ends
        return cls((t0, t1), (p0, p1), (e0, e1))

    def timed(self, value: float) -> Figure:
        """Return a figure that grows with the time."""
        return Figure.of(value, *self.time)

    def rated(self, value: float) -> Figure:
        """Return a figure that is something over the time: its ends are those over the time's ends."""
        time = Figure.of(1.0, *self.time)
        return Figure(value, value / time.high, value / time.low)

    def powered(self, value: float, cap: float) -> Figure:
        """Return a power, its upper end no higher than the cap in force, unless the power itself is. [W]"""
        figure = Figure.of(value, *self.power)
        return figure if value > cap else Figure(value, figure.low, min(figure.high, cap))

    def spent(self, value: float) -> Figure:
        """Return an energy."""
        return Figure.of(value, *self.energy)


@dataclass(frozen=True)
class Part:
    """Operator rows of one GPU, with the time and energy they add to the figures."""

    name: str
    row: Row
    family: str
    basis: str
    launches: float
    time_s: float
    energy_j: float
    low: float = 1.0  # 90 % of the time, as factors
    high: float = 1.0


@dataclass(frozen=True)
class Forecast:
    """Forecast of one case; figures that do not apply are absent."""

    figures: Mapping[str, Figure]
    covered: float
    clock_mhz: float
    gpus: int
    largest_batch: float | None = None
    parts: tuple[Part, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, float | None]:
        """Return the columns of a table of forecasts."""
        values: dict[str, float | None] = {}
        for name in FIGURES:
            figure = self.figures.get(name)
            ends = (None, None, None) if figure is None else (figure.value, figure.low, figure.high)
            values |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        return {**values, "largest_batch": self.largest_batch, "covered": self.covered}


def parts_of(step: Step, weight: float) -> list[Part]:
    """Return the operators of a step that runs ``weight`` times, and its idle time."""
    rows = zip(step.priced.rows, step.priced.family, step.priced.basis, strict=True)
    operators = _operators(rows, step, weight)
    if not step.waiting_s:
        return operators
    waiting_s = weight * step.waiting_s
    return [Part(IDLE, {"op": IDLE}, IDLE, "", weight, waiting_s, step.idle_w * waiting_s), *operators]


def _operators(rows: Iterable[Any], step: Step, weight: float) -> list[Part]:
    return [
        Part(
            str(row.get("module", row["op"])),
            row,
            str(family),
            str(basis),
            float(step.priced.counts[i]) * weight,
            float(step.row_s[i]) * weight,
            float(step.row_j[i]) * weight,
            float(step.priced.low[i]),
            float(step.priced.high[i]),
        )
        for i, (row, family, basis) in enumerate(rows)
    ]
