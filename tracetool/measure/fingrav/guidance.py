"""Number of runs, samples and executions for a fine-grain profile."""

from __future__ import annotations

import math
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
