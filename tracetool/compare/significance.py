"""Is a change between two sets of runs real? The run is the unit of replication, not the iteration.

References
----------
.. [1] Y. Benjamini, Y. Hochberg, "Controlling the False Discovery Rate", JRSS B 57(1), 1995.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from scipy import special

from tracetool.compare.spread import PRIOR, Spread, moderate, usable
from tracetool.vocabulary.arrays import Bools, Floats
from tracetool.vocabulary.interval import LEVEL

Verdict = Literal["regressed", "improved", "unchanged", "inconclusive"]

#: One-sided level of a regression: the 90 % interval then excludes no change.
ALPHA: Final = (1.0 - LEVEL) / 2.0
#: Chance of finding a change as large as the minimum detectable one.
POWER: Final = 0.80
#: Changes below this are no change, whatever the statistics: figures of one run repeat to about this. [1]
FLOOR: Final = 0.001


@dataclass(frozen=True)
class Judging:
    """How figures are judged: what they rest on, what is known of their spread, and the threshold."""

    basis: str  # measured, anchored or predicted
    spread: Spread = PRIOR
    limit: float = 0.02
    within: Floats | None = None  # (k,) relative variance the steps of a run leave in its mean


@dataclass(frozen=True)
class Effects:
    """Relative changes of k figures with their 90 % intervals, shape (k,) each.

    ``change`` is head over base minus one; ``p_worse`` is the one-sided chance of a change as large upward
    between runs of the same code, ``p_better`` downward; ``error`` the standard error. ``single`` marks
    figures of single runs without a known spread. Figures that cannot be stated
    are NaN.
    """

    change: Floats
    low: Floats
    high: Floats
    p_worse: Floats
    p_better: Floats
    error: Floats
    freedom: Floats
    single: Bools
    basis: str

    def __len__(self) -> int:
        return self.change.size


def compare_means(
    base: Floats, head: Floats, spread: Spread = PRIOR, within: Floats | None = None
) -> Effects:
    r"""Return the changes from base runs to head runs.

    Parameters
    ----------
    base, head : array, shape (n, k) and (m, k)
        Per run, k figures, e.g. joules; what is not positive in every run of both sides has no change.
    spread : Spread
        Knowledge of the run-to-run spread.
    within : array, shape (k,), optional
        Relative variance that the steps of a run leave in its mean.

    Notes
    -----
    On logarithms, with the variance :math:`\tilde s^2` of :func:`tracetool.compare.spread.moderate`,

    .. math:: t = \frac{\overline{\ln y} - \overline{\ln x}}{\tilde s \sqrt{1/n + 1/m}}

    with the degrees of freedom of :math:`\tilde s^2`.

    Examples
    --------
    >>> base, head = np.array([[100.0], [101.0], [99.0]]), np.array([[105.0], [104.0], [106.0]])
    >>> made = compare_means(base, head)
    >>> float(made.change[0].round(3)), bool(made.low[0] > 0)
    (0.05, True)
    """
    base, head = np.atleast_2d(np.asarray(base, np.float64)), np.atleast_2d(np.asarray(head, np.float64))
    n, m = base.shape[0], head.shape[0]
    good = usable(base, head)
    x, y = np.log(np.where(good, base, 1.0)), np.log(np.where(good, head, 1.0))
    shift = np.where(good, y.mean(axis=0) - x.mean(axis=0), np.nan)
    found = moderate(base, head, spread, within)
    # a lone run may be set beside three or more that show the spread, or beside a known spread
    lone = min(n, m) < 2 and max(n, m) < 3
    single = ~(found.fits & spread.alone) if lone else np.zeros(shift.shape, np.bool_)
    error = np.sqrt(found.variance * (1.0 / n + 1.0 / m))
    basis = f"the runs and {spread.source}" if n + m > 2 else spread.source
    return _effects(shift, error, found.freedom, single, basis)


def _effects(shift: Floats, error: Floats, freedom: Floats, single: Bools, basis: str) -> Effects:
    """Return effects from shifts of logarithms, their errors and degrees of freedom."""
    known = (error > 0) & (freedom > 0)
    d = np.where(known, np.minimum(freedom, 1e6), 1.0)
    reach = np.where(known, special.stdtrit(d, (1.0 + LEVEL) / 2.0) * error, 0.0)
    ratio = np.divide(shift, error, out=np.zeros_like(shift), where=known)
    certain = np.where(shift == 0, 0.5, (shift < 0).astype(np.float64))
    nowhere = (freedom <= 0) | np.isnan(shift)
    return Effects(
        np.expm1(shift),
        np.where(nowhere, np.nan, np.expm1(shift - reach)),
        np.where(nowhere, np.nan, np.expm1(shift + reach)),
        np.where(nowhere, np.nan, np.where(known, special.stdtr(d, -ratio), certain)),
        np.where(nowhere, np.nan, np.where(known, special.stdtr(d, ratio), 1.0 - certain)),
        error,
        freedom,
        np.asarray(single, np.bool_),
        basis,
    )


def given_error(change: Floats, error: Floats, basis: str) -> Effects:
    """Return the effects of relative changes whose standard errors are known (a model's). Shape (k,)."""
    shift = np.log1p(np.maximum(change, -1 + 1e-12))
    scaled = error / np.maximum(1.0 + change, 1e-12)
    endless = np.full(shift.shape, 1e6)
    return _effects(shift, scaled, endless, np.zeros(shift.shape, np.bool_), basis)


def widened(effects: Effects, error: Floats, basis: str) -> Effects:
    """Return effects with another independent relative error beside their own (a model's). Shape (k,)."""
    both = np.hypot(effects.error, error)
    return _effects(
        np.log1p(effects.change), both, effects.freedom, effects.single, f"{effects.basis} and {basis}"
    )


def effects_of(base: Floats, head: Floats, judging: Judging, model_error: Floats | None = None) -> Effects:
    """Return the effects on k figures: from runs, from the model's error, or both.

    Parameters
    ----------
    base, head : array, shape (runs, k)
        Figures per run.
    judging : Judging
        ``predicted`` figures have no run-to-run spread: their error is the model's alone.
    model_error : array, shape (k,), optional
        Standard error the model adds, relative to the base.
    """
    error = np.zeros(base.shape[1]) if model_error is None else model_error
    if judging.basis == "predicted":
        x, y = base.mean(axis=0), head.mean(axis=0)
        change = np.divide(y, x, out=np.full_like(x, np.nan), where=x > 0) - 1.0
        return given_error(change, error, "the model's error")
    made = compare_means(base, head, judging.spread, judging.within)
    return made if model_error is None or not error.any() else widened(made, error, "the model's error")


def stack(groups: Sequence[Effects]) -> Effects:
    """Return effects side by side, to be judged together; the basis is the first one's."""

    def joined(name: str) -> Any:
        return np.concatenate([getattr(g, name) for g in groups])

    return Effects(
        change=joined("change"),
        low=joined("low"),
        high=joined("high"),
        p_worse=joined("p_worse"),
        p_better=joined("p_better"),
        error=joined("error"),
        freedom=joined("freedom"),
        single=joined("single"),
        basis=groups[0].basis,
    )


def corrected(p: Floats | Sequence[float]) -> Floats:
    """Return Benjamini-Hochberg adjusted chances, in the order given. Shape (n,); NaN stays NaN.

    >>> corrected([0.01, 0.04, 0.03]).round(3)
    array([0.03, 0.04, 0.04])
    """
    values = np.asarray(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    made = np.full(values.shape, np.nan)
    if known.size:
        order = known[np.argsort(values[known])]
        scaled = values[order] * known.size / np.arange(1, known.size + 1)
        made[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return made


def corrected_among(p: Floats, heavy: Bools) -> Floats:
    """Return adjusted chances: the heavy figures corrected among themselves, the light ones among all.

    What a figure weighs is known before its change is tested, so choosing by it keeps the rate of false
    alarms among the heavy ones, and hundreds of light ones do not drown them. Shape (n,) each.

    >>> corrected_among(np.array([0.01, 0.03, 0.5, 0.9]), np.array([True, False, False, True])).round(3)
    array([0.02 , 0.06 , 0.667, 0.9  ])
    """
    made = corrected(p)
    made[heavy] = corrected(p[heavy])
    return made


def detectable(effects: Effects, limit: Floats | float, tests: int = 1) -> Floats:
    """Return the smallest true changes that would be called regressions four times in five. Shape (k,).

    Parameters
    ----------
    effects : Effects
        Of the comparison made.
    limit : float or array, shape (k,)
        The threshold a regression must pass as well. [1]
    tests : int
        Comparisons made together; the first of them must pass the level divided by their number.
    """
    d = np.where(effects.freedom > 0, np.minimum(effects.freedom, 1e6), np.nan)
    needed = special.stdtrit(d, 1.0 - ALPHA / max(tests, 1)) * effects.error
    bar = np.maximum(needed, np.log1p(limit))
    found = np.expm1(bar + float(special.ndtri(POWER)) * effects.error)
    return np.where(effects.single | np.isnan(effects.change), np.nan, found)


def judge(
    effects: Effects, limit: Floats | float, *, together: bool = True, heavy: Bools | None = None
) -> list[Verdict]:
    """Return the verdicts on figures where more is worse.

    Parameters
    ----------
    effects : Effects
        The changes.
    limit : float or array, shape (k,)
        Thresholds: a change must pass its own *and* be significant. [1]
    together : bool
        Whether the figures are looked at together: chances are then corrected for their number.
    heavy : array of bool, shape (k,), optional
        Those of some weight, see :func:`corrected_among`; by default all.
    """
    worse = np.where(effects.single, np.nan, effects.p_worse)
    better = np.where(effects.single, np.nan, effects.p_better)
    if together:
        few = np.ones(len(effects), np.bool_) if heavy is None else heavy
        worse, better = corrected_among(worse, few), corrected_among(better, few)
    with np.errstate(invalid="ignore"):
        known = ~(effects.single | np.isnan(effects.low))
        none = (np.abs(effects.change) <= FLOOR) & (effects.single | (effects.error == 0))
        regressed = known & (effects.change > limit) & (worse <= ALPHA)
        improved = known & (effects.change < -np.asarray(limit)) & (better <= ALPHA)
        unchanged = none | (known & (effects.low >= -np.asarray(limit)) & (effects.high <= limit))
    made = np.select([regressed, improved, unchanged], ["regressed", "improved", "unchanged"], "inconclusive")
    return [str(v) for v in made]  # type: ignore[misc]
