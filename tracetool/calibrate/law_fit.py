"""Fit of one law to measured operators: coefficients moved, sizes and habits tried, some rows held back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from tracetool.calibrate.conformal import bands, held_inside, percent
from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Z90, Band
from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Law
from tracetool.families.pieces import duration_s
from tracetool.hardware.gpu import Gpu

#: Columns that make a shape; formats and clocks are not among them, so that one shape in two formats
#: is held back in both.
SHAPE_COLUMNS: Final = (
    "batch", "m", "n", "k", "channels", "height", "width", "filters", "kernel_h", "kernel_w", "q_len",
    "kv_len", "heads", "kv_heads", "tokens", "hidden", "intermediate", "top_k", "experts", "rows", "cols",
    "elements", "reads", "bytes", "ranks", "seq_len", "num_tokens", "num_k_heads", "num_v_heads", "nheads",
    "d_state",
)  # fmt: skip


def shape_groups(rows: OperatorColumns, columns: Sequence[str] = SHAPE_COLUMNS) -> Ints:
    """Return a number per row, the same for rows whose shape columns agree. Shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> table = OperatorColumns(np.array(["gemm"] * 3, dtype=object), {"m": np.array([1.0, 2.0, 1.0])})
    >>> shape_groups(table).tolist()
    [0, 1, 0]
    """
    table = np.stack([np.nan_to_num(rows.number(c), nan=-1.0) for c in columns], axis=1)
    _, group = np.unique(table, axis=0, return_inverse=True)
    return np.asarray(group.reshape(-1), dtype=np.int64)


#: Rows a fit looks at; more do not move the coefficients.
ROWS: Final = 1200
#: Rows that decide between sizes and habits.
CHOICE_ROWS: Final = 450
#: Fewer rows than this leave the coefficients as they are; fewer than these are drawn to those of an
#: implementation.
FEWEST_ROWS: Final = 5
LEAST_ROWS: Final = 100
#: Parts the shape groups fall into: each is held out once to measure the error.
FOLDS: Final = 3
#: A residual beyond this counts as an outlier: ln of a factor.
ROBUST: Final = 0.06
#: A size or habit is another where the cost falls below this share. [1] A setting of the method.
WORTH: Final = 0.995
#: A coefficient is claimed where the rows removed this share of its prior's variance. [1] A prior.
CLAIMED: Final = 0.15
#: Costs this near, as a share, are one but for rounding. [1] By definition: far below ``WORTH``.
_SAME_COST: Final = 1e-9
#: Pull of each coefficient towards its prior: residuals per e-fold.
PULL: Final = 0.15


@dataclass(frozen=True)
class LawFit:
    """One law's coefficients, their uncertainty, and the error on held-out rows."""

    values: Mapping[str, float]
    low: Mapping[str, float]  # 90 % bounds of each fitted coefficient
    high: Mapping[str, float]
    #: 90 % band of ln(measured / predicted), held back: of all rows under "", and by kind of row.
    spread: Mapping[str, Band]
    rows: int
    mape_percent: float  # held back
    mdape_percent: float
    coverage_percent: float  # of the bands, on groups of shapes neither fitted to nor used for them
    #: MAPE, MdAPE and coverage of each kind of row. [%]
    of_kind: Mapping[str, tuple[float, float, float]]
    #: Coefficients that stayed what was believed before: the rows say less than :data:`CLAIMED` of them.
    from_prior: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LawRows:
    """Measured rows of one law."""

    rows: OperatorColumns
    measured_s: Floats
    hertz: Floats  # (n, 1)
    group: Ints  # rows of one shape share a number

    def take(self, chosen: Ints) -> LawRows:
        """Return the rows at these places."""
        return LawRows(
            self.rows.take(chosen), self.measured_s[chosen], self.hertz[chosen], self.group[chosen]
        )


def fit_law(law: Law, law_rows: LawRows, gpu: Gpu, start_values: Mapping[str, float]) -> LawFit:
    """Return the fit of one law, begun from the coefficients given or its priors."""
    fold = folds(law_rows.group)
    prior = {k: float(start_values.get(k, c.value)) for k, c in law.priors.items()}
    # a floor far below every row would leave no slope to follow
    least = float(np.quantile(law_rows.measured_s[fold > 0], 0.02)) * 1e6
    prior |= {
        k: float(np.clip(least, law.priors[k].low, law.priors[k].high))
        for k in prior
        if k.startswith("floor")
    }
    first, error = prior, np.zeros(len(law_rows.measured_s))
    for test_fold in range(fold.max() + 1):
        fit_rows, test_rows = (
            law_rows.take(np.flatnonzero(fold != test_fold)),
            law_rows.take(np.flatnonzero(fold == test_fold)),
        )
        if test_fold == 0:
            first = choose(law, sample(fit_rows, CHOICE_ROWS), gpu, prior)
            first, _ = fit_coefficients(law, sample(fit_rows, ROWS), gpu, first, 16)
            fold_values = first
        else:
            fold_values, _ = fit_coefficients(law, sample(fit_rows, ROWS), gpu, first, 8)
        error[fold == test_fold] = -residuals(law, test_rows, gpu, fold_values)
    kind = law.kind(law_rows.rows)
    inside = held_inside(error, law_rows.group, kind, law.kinds)
    final, sd = fit_coefficients(law, sample(law_rows, ROWS), gpu, first, 12)
    off = np.abs(np.expm1(-error)) * 100.0
    low = {k: max(final[k] * np.exp(-Z90 * s), law.priors[k].low) for k, s in sd.items()}
    high = {k: min(final[k] * np.exp(Z90 * s), law.priors[k].high) for k, s in sd.items()}
    return LawFit(
        final, low, high, bands(error, law_rows.group, kind, law.kinds), len(law_rows.measured_s),
        float(off.mean()), float(np.median(off)), percent(inside),
        {
            name: (float(off[of_kind].mean()), float(np.median(off[of_kind])), percent(inside[of_kind]))
            for number, name in enumerate(law.kinds) if (of_kind := kind == number).any()
        },
    )  # fmt: skip


def folds(group: Ints) -> Ints:
    """Return the cross-validation fold of each row, one fold per group of shapes. Shape (n,)."""
    groups, place = np.unique(group, return_inverse=True)
    fold = np.arange(len(groups)) % min(FOLDS, len(groups))
    return np.asarray(np.random.default_rng(0).permutation(fold)[place], dtype=np.int64)


def residuals(law: Law, law_rows: LawRows, gpu: Gpu, values: Mapping[str, float]) -> Floats:
    """Return ln(predicted / measured). Shape (n,)."""
    pieces = law.parts(law_rows.rows, gpu, values)
    return np.asarray(np.log(duration_s(pieces, law_rows.hertz)[:, 0] / law_rows.measured_s))


def misfits(law: Law, law_rows: LawRows, gpu: Gpu, values: Mapping[str, float]) -> Floats:
    """Return the residual a fit minimizes: ln(predicted / measured) before steps of graphs. Shape (n,).

    Steps leave no slope to follow, and are as often above a time as below it.
    """
    pieces = law.parts(law_rows.rows, gpu, values)
    begun_s = duration_s(replace(pieces, graph_step_s=np.zeros(len(law_rows.measured_s))), law_rows.hertz)[
        :, 0
    ]
    return np.asarray(np.log(begun_s / law_rows.measured_s))


def sample(law_rows: LawRows, count: int) -> LawRows:
    """Return at most ``count`` rows drawn at random, the same ones every time."""
    if len(law_rows.measured_s) <= count:
        return law_rows
    return law_rows.take(np.random.default_rng(1).permutation(len(law_rows.measured_s))[:count])


def choose(law: Law, law_rows: LawRows, gpu: Gpu, values: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients with the best sizes and habits, begun from those given and each library's."""
    starts = [dict(values), *({**values, **habits} for habits in law.habits)]
    chosen = [_chosen_from(law, law_rows, gpu, start) for start in starts]
    if (
        len(chosen) > 1
    ):  # the searches end after unequal numbers of steps: fit each further before they are compared
        chosen = [fit_coefficients(law, law_rows, gpu, values, 8)[0] for values in chosen]
    return min(chosen, key=lambda values: _cost(law, law_rows, gpu, values))


def _chosen_from(law: Law, law_rows: LawRows, gpu: Gpu, values: Mapping[str, float]) -> dict[str, float]:
    def fit(start: Mapping[str, float], steps: int) -> tuple[dict[str, float], float]:
        fitted = fit_coefficients(law, law_rows, gpu, start, steps)[0] if steps else dict(start)
        return fitted, _cost(law, law_rows, gpu, fitted)

    if not any(c.choices for c in law.priors.values()):
        return dict(values)
    return best_choices(law, values, fit, trial_steps=3)[0]


def best_choices(
    law: Law,
    start: Mapping[str, float],
    fit: Callable[[Mapping[str, float], int], tuple[dict[str, float], float]],
    trial_steps: int,
) -> tuple[dict[str, float], float]:
    """Return the coefficients with the best sizes and habits, tried one after another, and their cost.

    Parameters
    ----------
    law : Law
        The law whose choices are tried.
    start : mapping of str to float
        All its coefficients.
    fit : callable
        From coefficients and a number of steps, or none, to those fitted further, choices as they are, and
        their cost.
    trial_steps : int
        Steps each choice is given to show its worth.
    """
    best, cost = fit(start, 5)
    for _ in range(2):
        before = cost
        for name, coefficient in law.priors.items():
            for value in coefficient.choices:
                if value == best[name] or value in coefficient.stated_choices:
                    continue
                # a choice no row separates from the best is none: a few steps more would make it look better
                if abs(fit({**best, name: value}, 0)[1] - cost) <= _SAME_COST * cost:
                    continue
                candidate, other_cost = fit({**best, name: value}, trial_steps)
                if other_cost < WORTH * cost:
                    best, cost = candidate, other_cost
        if cost == before:
            break
    return best, cost


def _cost(law: Law, law_rows: LawRows, gpu: Gpu, values: Mapping[str, float]) -> float:
    return float(np.abs(misfits(law, law_rows, gpu, values)).mean())


def fit_coefficients(
    law: Law, law_rows: LawRows, gpu: Gpu, start: Mapping[str, float], steps: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return fitted coefficients and the standard deviation of their logarithms."""
    names = [k for k, c in law.priors.items() if c.fitted]
    low, high = (np.log([getattr(law.priors[k], side) for k in names]) for side in ("low", "high"))
    center = np.log([law.priors[k].value for k in names])
    begin = np.clip(np.log([start[k] for k in names]), low + 1e-6, high - 1e-6)
    fixed = dict(start)

    def off(x: Floats) -> Floats:
        values = {**fixed, **dict(zip(names, np.exp(x), strict=True))}
        return np.concatenate([misfits(law, law_rows, gpu, values), PULL * (x - center)])

    optimum = least_squares(
        off, begin, bounds=(low, high), loss="soft_l1", f_scale=ROBUST, max_nfev=steps, diff_step=3e-3
    )
    values = {**fixed, **{k: float(v) for k, v in zip(names, np.exp(optimum.x), strict=True)}}
    free = max(1, len(law_rows.measured_s) - len(names))
    variance = float((off(optimum.x)[: len(law_rows.measured_s)] ** 2).sum() / free)
    covariance = np.linalg.pinv(optimum.jac.T @ optimum.jac) * variance
    deviation = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    return values, {k: float(s) for k, s in zip(names, deviation, strict=True)}
