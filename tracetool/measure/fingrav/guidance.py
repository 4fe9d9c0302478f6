"""Number of runs, samples and executions for a fine-grain profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Guidance:
    """Runs and samples to collect for a kernel of one duration."""

    runs: int
    samples: int  # samples of interest wanted
    margin: float  # width of the golden bin, relative to the shortest execution in it


#: Upper end of the execution time [s], runs, seconds per sample of interest, binning margin.
_TABLE = (
    (50e-6, 400, 5e-6, 0.05),
    (200e-6, 200, 10e-6, 0.05),
    (1e-3, 200, 10e-6, 0.02),
    (math.inf, 200, 10e-6, 0.02),
)


def guidance(duration_s: float) -> Guidance:
    """Return the guidance for an execution time.

    Parameters
    ----------
    duration_s : float
        Median execution time. [s]

    Notes
    -----
    Table I of Singhania, Aga and Ibrahim, "Methodology for Fine-Grain GPU Power Visibility and
    Insights" (FinGraV), measured from 25 us up; below, its first row is used.

    Examples
    --------
    >>> guidance(100e-6)
    Guidance(runs=200, samples=10, margin=0.05)
    """
    _, runs, per_sample, margin = next(row for row in _TABLE if duration_s <= row[0])
    return Guidance(runs, max(5, math.ceil(duration_s / per_sample - 1e-9)), margin)


def runs_wanted(missing: int, duration_s: float, period_s: float, golden_share: float) -> int:
    """Return how many further runs the missing samples of interest take.

    Parameters
    ----------
    missing : int
        Samples of interest still wanted.
    duration_s, period_s : float
        Execution time and the sampler's period: one run's execution overlaps a sample with probability
        ``duration / period``. [s]
    golden_share : float
        Share of runs whose execution time falls in the golden bin, measured so far.

    Examples
    --------
    >>> runs_wanted(4, 100e-6, 1e-3, 0.5)
    80
    """
    if missing <= 0:
        return 0
    chance = min(1.0, duration_s / max(period_s, 1e-12)) * max(golden_share, 0.01)
    return math.ceil(missing / chance - 1e-9)


def next_executions(tried: Sequence[tuple[int, float]], tolerance: float = 0.02) -> int | None:
    """Return how many executions per run to try next on the way to steady power, None when found.

    Parameters
    ----------
    tried : sequence of (executions, power of the last execution [W])
        Trials so far, in any order; start with 4.
    tolerance : float
        Relative change below which power no longer varies.

    Notes
    -----
    Doubles until the last two agree, then halves the interval down to the fewest executions whose
    power agrees with the steady one; ``steady_executions`` of the trials is then the answer.
    """
    if not tried:
        return 4
    trials = sorted(tried)
    if len(trials) == 1:
        return 2 * trials[0][0]
    steady = trials[-1][1]
    if abs(trials[-2][1] / steady - 1) > tolerance and len(trials) < 12:
        unsteady = [n for n, p in trials if abs(p / steady - 1) > tolerance]
        if unsteady and unsteady[-1] == trials[-2][0]:
            return 2 * trials[-1][0]
    fewest = steady_executions(trials, tolerance)
    below = [n for n, p in trials if n < fewest]
    low = below[-1] if below else 1
    return (low + fewest) // 2 if fewest - low > 1 else None


def steady_executions(tried: Sequence[tuple[int, float]], tolerance: float = 0.02) -> int:
    """Return the fewest executions tried from which on power agrees with the last trial's."""
    trials = sorted(tried)
    steady = trials[-1][1]
    fewest = trials[-1][0]
    for n, power in reversed(trials):
        if abs(power / steady - 1) > tolerance:
            break
        fewest = n
    return fewest
