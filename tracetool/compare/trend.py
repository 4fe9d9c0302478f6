"""Find drift or a step in a figure over its last runs, too slow for any pairwise check to see.

References
----------
.. [1] D. M. Hawkins, "Testing a Sequence of Observations for a Shift in Location", JASA 72(357), 1977:
   the largest two-sample statistic over all places of a step.
.. [2] H. B. Mann, "Nonparametric Tests Against Trend", Econometrica 13(3), 1945.
.. [3] P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63(324), 1968.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from tracetool.compare.significance import ALPHA
from tracetool.core.arrays import Floats

_LEAST = 6  # runs; fewer show no trend
_LEAST_CHANGE = 0.005  # share; smaller steps and drifts are not worth telling


@dataclass(frozen=True)
class Trend:
    """Step and drift of a history of runs.

    ``step_at`` is the first run of the new level (None without a step) and ``step`` its relative change;
    ``drift`` is the relative change over the whole history by its median slope, 0 without significance.
    """

    runs: int
    step_at: int | None = None
    step: float = 0.0
    drift: float = 0.0

    def sentence(self) -> str:
        """Return the sentence on the step or the drift, empty without one."""
        if self.step_at is not None:
            return f"a step of {100 * self.step:+.1f} % at run {self.step_at + 1} of {self.runs}"
        if self.drift:
            return f"a drift of {100 * self.drift:+.1f} % over {self.runs} runs"
        return ""


def find_trend(values: Floats) -> Trend:
    """Return the step or drift in a history, oldest first.

    Parameters
    ----------
    values : array, shape (n,)
        Positive figures.

    Examples
    --------
    >>> find_trend(np.array([100.0, 100.5, 99.6, 100.2, 104.1, 103.8, 104.4, 104.0])).step_at
    4
    >>> find_trend(np.array([100.0, 100.5, 99.6, 100.2, 99.9, 100.3, 100.1])).sentence()
    ''
    """
    logs = np.log(np.asarray(values, np.float64))
    n = logs.size
    if n < _LEAST:
        return Trend(n)
    at, shift, p_value = _step(logs)
    slope, slope_p_value = _slope(logs)
    drift = math.expm1(slope * (n - 1))
    if p_value <= ALPHA and abs(math.expm1(shift)) >= _LEAST_CHANGE and p_value <= slope_p_value:
        return Trend(n, at, math.expm1(shift))
    if slope_p_value <= ALPHA and abs(drift) >= _LEAST_CHANGE:
        return Trend(n, drift=drift)
    if p_value <= ALPHA and abs(math.expm1(shift)) >= _LEAST_CHANGE:
        return Trend(n, at, math.expm1(shift))
    return Trend(n)


def _step(logs: Floats) -> tuple[int, float, float]:
    """Return the likeliest place of a step, its size and its p_value, corrected for all places."""
    n = logs.size
    best = (0, 0.0, 1.0)
    for k in range(2, n - 1):
        before, after = logs[:k], logs[k:]
        within_sum = ((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()
        error = math.sqrt(max(within_sum, 1e-18) / (n - 2) * (1.0 / k + 1.0 / (n - k)))
        shift = float(after.mean() - before.mean())
        p_value = min(2.0 * float(special.stdtr(n - 2, -abs(shift) / error)) * (n - 3), 1.0)
        if p_value < best[2]:
            best = (k, shift, p_value)
    return best


def _slope(logs: Floats) -> tuple[float, float]:
    """Return the median slope per run and the two-sided p_value of such an order without any."""
    n = logs.size
    i, j = np.triu_indices(n, 1)
    steps = logs[j] - logs[i]
    score = float(np.sign(steps).sum())
    variance = n * (n - 1) * (2 * n + 5) / 18.0
    z = (abs(score) - 1.0) / math.sqrt(variance)
    return float(np.median(steps / (j - i))), 2.0 * float(special.ndtr(-max(z, 0.0)))
