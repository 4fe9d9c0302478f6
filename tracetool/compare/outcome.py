"""Outcome of a comparison of two sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.significance import Effects, Verdict, detectable

#: Threshold of the verdicts where none is asked for; it fails no check.
DEFAULT_LIMIT: Final = 0.02
UNITS: Final = {"energy": "J", "time": "s", "power": "W", "edp": "J·s"}


@dataclass(frozen=True)
class Metric:
    """One judged figure: of the whole (empty ``scope``), a family or a name pattern."""

    name: str
    scope: str
    base: float
    head: float
    change: float
    low: float
    high: float
    limit: float
    has_limit: bool
    verdict: Verdict
    detectable: float
    p_value: float
    basis: str
    tests: int = 1  # figures whose intervals hold together

    @property
    def unit(self) -> str:
        """Unit of ``base`` and ``head``."""
        return UNITS[self.name]


@dataclass(frozen=True)
class RunDiff:
    """The comparison of two sides.

    Parameters
    ----------
    verdict : str
        Of the figures with a threshold; of the energy where none was asked.
    reasons : tuple of str
        One sentence per figure that decided it.
    metrics : tuple of Metric
        Judged figures, the whole run's first.
    factors : mapping of str to float
        The energy change by cause; sums to it. [J]
    table : DataFrame
        The ``changes`` table.
    unit : str
        ``step`` or ``run``.
    basis : str
        What the energies are: ``measured``, ``anchored`` (modeled from measured times), ``predicted``.
    """

    base: tuple[str, ...]
    head: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    metrics: tuple[Metric, ...]
    factors: Mapping[str, float]
    table: pl.DataFrame
    unit: str
    basis: str
    setting: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    by: tuple[str, ...] = ()  # what rows of level ``group`` are by
    modeled_pct: float | None = None  # change the model sees from the same times, beside a measured one

    def level(self, name: str) -> pl.DataFrame:
        """Return the rows of one level."""
        return self.table.filter(pl.col("level") == name)

    @property
    def failed(self) -> bool:
        """Whether a threshold that was asked for is broken."""
        return any(m.has_limit and m.verdict == "regressed" for m in self.metrics)

    @property
    def undecided(self) -> bool:
        """Whether a threshold that was asked for could not be decided."""
        return any(m.has_limit and m.verdict == "inconclusive" for m in self.metrics)


def metric_of(
    key: tuple[str, str],
    means: tuple[float, float],
    effects: Effects,
    verdict: Verdict,
    *,
    limit: float,
    has_limit: bool,
) -> Metric:
    """Return one judged figure; ``key`` is its name and scope."""
    return Metric(
        *key,
        *means,
        change=float(effects.change[0]),
        low=float(effects.low[0]),
        high=float(effects.high[0]),
        limit=limit,
        has_limit=has_limit,
        verdict=verdict,
        detectable=float(detectable(effects, limit)[0]),
        p_value=float(np.minimum(effects.p_worse * effects.tests, 1.0)[0]),
        basis=effects.basis,
        tests=int(effects.tests[0]),
    )


def stated_limit(metric: Metric) -> str:
    """Return the limit of a figure in words; the verdict's own threshold where none was set."""
    return f"{'limit' if metric.has_limit else 'threshold'} {100 * metric.limit:g} %"


def reason(metric: Metric) -> str:
    """Return the sentence on one judged figure."""
    of = f" of {metric.scope}" if metric.scope else ""
    change = "?" if np.isnan(metric.change) else f"{100 * metric.change:+.1f} %"
    together = f" of {metric.tests} together" if metric.tests > 1 else ""
    between = (
        ""
        if np.isnan(metric.low)
        else f" (90 % interval{together} {100 * metric.low:+.1f} to {100 * metric.high:+.1f} %)"
    )
    least = (
        ""
        if np.isnan(metric.detectable)
        else f"; smallest detectable change: {100 * metric.detectable:.1f} %"
    )
    return f"{metric.name}{of} {change}{between}, {stated_limit(metric)}{least}"


def not_comparable(differing: Mapping[str, tuple[str, str]]) -> str:
    """Return the sentence on what the two sides differ in."""
    differences = "; ".join(f"{k}: {a} and {b}" for k, (a, b) in differing.items())
    return f"the two sides are not comparable ({differences})"
