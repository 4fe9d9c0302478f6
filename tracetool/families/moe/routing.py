"""Spread of pairs of token and expert over the experts of the busiest GPU by routing.

Equations and sources: docs/families/moe.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns

#: Groups experts are taken in, by how many tokens they get. [groups] A prior: a setting of the method, which
#: no measurement decided.
GROUPS = 12
#: Tokens of an expert are drawn from this on where there are more pairs than experts [tokens], up to this
#: share of the tokens [1]. Both by definition of the distribution ``power_law`` (aiconfigurator-perf).
_LEAST, _MOST_SHARE = 1.0, 0.8
#: And between these where there are no more pairs than experts. [1] By definition of the same.
_FEW_LEAST, _FEW_MOST = 0.01, 2.0
#: Quantile of the largest of many draws at which its mean lies: e^(-e^-0.577). [1] By definition of the
#: Gumbel distribution.
_MEAN_OF_MOST = 0.5704
#: An exponent this close to a pole of a moment takes the moment beside it. [1] A prior: a setting of the
#: method, which no measurement decided.
_POLE = 1e-6


@dataclass(frozen=True)
class Routed:
    """Pairs on the busiest GPU, of shape (n,), and its touched experts by group, of shape (groups, n)."""

    pairs: Floats
    count: Floats  # touched experts of each group
    tokens_each: Floats  # tokens of one of them


def routed(rows: OperatorColumns, tokens: Floats, top_k: Floats, experts: Floats, ep: Floats) -> Routed:
    r"""Return where pairs of token and expert go. All arrays of shape (n,).

    Notes
    -----
    ``balanced`` pairs are dealt one expert after another: :math:`\min(P, E)` experts are touched. Where no
    distribution is stated a token falls on any :math:`k` of the experts alike: :math:`n` tokens touch one
    with probability :math:`1 - (1 - k / E)^n`. Under ``power_law_a`` the tokens of an expert are drawn with
    density :math:`\propto x^{-a}`, scaled to the sum and rounded; the busiest of the GPUs that share the
    experts is timed.
    """
    local = np.maximum(experts / ep, 1.0)
    even = tokens * top_k / ep
    limit = tokens * np.minimum(top_k, local)
    exponent, dealt = _distribution(rows)
    pairs = np.minimum(np.where(dealt, np.ceil(even), np.maximum(even, 1.0)), limit)
    # a token falls on any top_k of the experts alike, or on the next ones
    missed = tokens * np.log1p(-np.minimum(top_k / experts, 1.0 - _POLE))
    touched = np.where(dealt, np.minimum(pairs, local), local * -np.expm1(missed))
    touched = np.maximum(touched, 1.0)
    count = np.broadcast_to(touched / GROUPS, (GROUPS, len(pairs)))
    each = np.broadcast_to(pairs / touched, count.shape)
    uneven = np.flatnonzero(exponent > 0.0)
    if not uneven.size:
        return Routed(pairs, count, each)
    of_rows = (a[uneven] for a in (tokens, top_k, experts, ep, local, even, limit, exponent))
    of_uneven = _power_law(*of_rows)
    pairs, count, each = pairs.copy(), count.copy(), each.copy()
    pairs[uneven], count[:, uneven], each[:, uneven] = of_uneven.pairs, of_uneven.count, of_uneven.tokens_each
    return Routed(pairs, count, each)


def _power_law(
    tokens: Floats, top_k: Floats, experts: Floats, ep: Floats, local: Floats, even: Floats, limit: Floats,
    a: Floats,
) -> Routed:  # fmt: skip
    many = tokens * top_k > experts
    low = np.where(many, _LEAST, _FEW_LEAST)
    high = np.where(many, np.maximum(_MOST_SHARE * tokens, 1.001 * _LEAST), _FEW_MOST)
    normalization = _moment(0.0, a, low, high)
    mean = _moment(1.0, a, low, high) / normalization
    variance = _moment(2.0, a, low, high) / normalization - mean**2
    expected = even / local
    scale = expected / mean  # from what is drawn to tokens

    def beyond(least_tokens: Floats | float) -> Floats:
        """Return the share of experts with more tokens than x."""
        start = np.clip(least_tokens / scale, low, high)
        return np.asarray(_moment(0.0, a, start, high) / normalization)

    # draws of less than half a token round to none; what is missing from the sum goes to experts without any
    start = np.clip(3.0 / scale, low, high)
    excess = (_moment(1.0, a, start, high) * scale - 3.0 * _moment(0.0, a, start, high)) / normalization
    drawn = np.minimum((beyond(0.5) + beyond(1.5) + beyond(2.5) + excess) / expected, 1.0)
    # the busiest of ep sums of draws: a quantile of the gamma distribution of their mean and variance
    spread = np.maximum(variance, 0.0) / (local * mean**2)
    root = 1.0 - spread / 9.0 + _normal(ep) * np.sqrt(spread) / 3.0
    busiest = np.where(ep > 1.0, np.maximum(root, 0.1) ** 3, 1.0)
    busiest = np.clip(busiest, 1.0, np.minimum(high / mean, ep))
    missing = np.ceil(even * (1.0 - drawn) - _POLE)  # dealt one expert after another
    pairs = np.minimum(np.maximum(even * drawn * busiest + missing, 1.0), limit)
    scale = scale * busiest

    edges = np.arange(GROUPS + 1.0)[:, None] / GROUPS
    bounds = _quantile(edges, a, low, high)
    drawn_each = _moment(1.0, a, bounds[:-1], bounds[1:]) / normalization * GROUPS
    each = _filled(drawn_each * (pairs / local / mean), tokens)
    none = 1.0 - beyond(0.5)
    above = np.clip((edges[1:] - none) * GROUPS, 0.0, 1.0)
    dealt = np.minimum(missing / local / np.maximum(none, 1e-9), 1.0)
    overflown = (each.min(axis=0) >= 1.0) & (each.max(axis=0) >= 0.999 * tokens)
    touched = np.where(overflown, 1.0, np.maximum(above + (1.0 - above) * dealt, 1e-6))
    each = np.maximum(each / touched, 1.0)
    count = local / GROUPS * touched
    # at least one expert, and no more than there are pairs
    total = count.sum(axis=0)
    count = count * np.clip(total, np.minimum(1.0, pairs), np.maximum(pairs, 1.0)) / total
    each = np.maximum(each * pairs / (count * each).sum(axis=0), 1.0)
    return Routed(pairs, count, np.minimum(each, tokens))


def _moment(order: float, a: Floats, low: Floats, high: Floats) -> Floats:
    """Return the integral of x^(order - a) between bounds."""
    power = order + 1.0 - a
    power = np.where(np.abs(power) < _POLE, _POLE, power)
    return np.asarray((high**power - low**power) / power)


def _quantile(share: Floats, a: Floats, low: Floats, high: Floats) -> Floats:
    """Return the quantile at ``share`` of a density of x^-a between bounds. Shape (n,)."""
    power = np.where(np.abs(1.0 - a) < _POLE, _POLE, 1.0 - a)
    return np.asarray((low**power + share * (high**power - low**power)) ** (1.0 / power))


def _filled(each: Floats, most: Floats) -> Floats:
    """Return tokens by group, ascending, with what exceeds ``most`` given to the least of them."""
    over = np.maximum(each - most, 0.0).sum(axis=0)
    if not over.any():
        return each
    capped = np.minimum(each, most)
    level = ((over + np.cumsum(capped, axis=0)) / np.arange(1.0, len(each) + 1.0)[:, None]).min(axis=0)
    return np.where(over > 0.0, np.minimum(np.maximum(capped, level), most), capped)


def _normal(ep: Floats) -> Floats:
    """Return the quantile of the normal distribution that the largest of ``ep`` draws has in the mean."""
    values, places = np.unique(ep, return_inverse=True)
    normal = NormalDist()
    quantiles = [normal.inv_cdf(_MEAN_OF_MOST ** (1.0 / max(v, 1.0))) for v in values.tolist()]
    return np.asarray(quantiles, dtype=np.float64)[places.reshape(-1)]


def _distribution(rows: OperatorColumns) -> tuple[Floats, Bools]:
    """Read the exponent of ``power_law_1.2``, 0 of anything else, and whether pairs are dealt evenly."""
    names, places = rows.distinct("distribution")
    exponents = [
        _number(name.removeprefix("power_law_")) if name.startswith("power_law") else 0.0 for name in names
    ]
    dealt = [name == "balanced" for name in names]
    return np.asarray(exponents, dtype=np.float64)[places], np.asarray(dealt, dtype=np.bool_)[places]


def _number(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 4.0)
    except ValueError:
        return 1.0
