"""Rows that any of several implementations may have run: the time stated, and bounds of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Band
from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Law
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number

#: Steps that halve the bracket of a mixture's quantile. [1] By definition: 2^-16 of its width is left.
_HALVINGS = 16
#: Rows of a mixture whose bounds are computed one by one; of more, these give those of all. [rows] A prior.
_MOST_ROWS = 4_000
#: A band that says nothing. [ln] By definition.
_UNKNOWN: Band = (-np.inf, np.inf)
#: The quantile of those rows' bounds that all rows get. [1]
_OUTER = prior_number("implementations.outer_quantile")


@dataclass(frozen=True)
class Member:
    """One way a row may have been run: coefficients, the band of ln(measured / predicted), and the basis."""

    name: str
    coefficients: Mapping[str, float]
    band: Band
    basis: str
    weight: float  # how likely, relative to the others
    bounds_only: bool = False  # whether its time is never the one stated
    library: str = ""  # that calls it; "" where several do, or none was measured


def member_pieces(
    law: Law,
    rows: OperatorColumns,
    gpu: Gpu,
    candidates: tuple[Member, ...],
    first: Pieces | None = None,
    *,
    one_ran: bool = True,
) -> tuple[Pieces, Floats, Floats]:
    """Return the parts of rows that any of several implementations may have run.

    Of a library that was not measured none of them ran: it is as near to one library as to another, so that
    its time is the geometric mean of theirs, each library's that of its middle candidate.

    Parameters
    ----------
    candidates : tuple of Member
        The candidates, as likely as their weights.
    first : Pieces, optional
        Parts to state in place of the middle candidate's: those of the last one, the GPU's own calibration.
    one_ran : bool
        Whether one of the candidates ran the rows.

    Returns
    -------
    pieces : Pieces
        Parts of each row as the candidate of middle time has them, or ``first``.
    low, high : array, shape (n,)
        ln of the bounds that hold 90 % of the mixture, over the time of ``pieces``.
    """

    def parts_of(of_rows: OperatorColumns, member: Member) -> Pieces:
        # another library's fit knows the times of this one less well than its own
        return law.pieces(of_rows, gpu, member.coefficients).known_within(
            member.band if one_ran else _UNKNOWN
        )

    if len(candidates) == 1:
        low, high = np.broadcast_to(np.array(candidates[0].band)[:, None], (2, len(rows)))
        return parts_of(rows, candidates[0]), low, high
    few = len(rows) <= _MOST_ROWS
    places = np.arange(len(rows)) if few else np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.int64)
    sampled = rows if few else rows.take(places)
    hertz = np.full((len(sampled), 1), gpu.clock_boost_mhz * 1e6)
    computed = candidates if first is None else candidates[:-1]
    tried = [parts_of(sampled, member) for member in computed]
    if first is not None:
        tried.append(first if few else first.take(places))
    times = np.log(np.stack([duration_s(one, hertz)[:, 0] for one in tried]))
    weight = np.array([member.weight for member in candidates])
    weight = weight / weight.sum()
    if first is not None:
        pieces = first
    else:
        stated = weight * np.array([not member.bounds_only for member in candidates])
        middle = _weighted_middle(times, stated / stated.sum())
        if few:
            pieces = tried[0]
            for number in range(1, len(candidates)):
                pieces = pieces.where(middle == number, tried[number])
        else:  # of many rows, all as the candidate has them that is in the middle most often
            pieces = parts_of(rows, candidates[int(np.bincount(middle).argmax())])
    base = np.log(duration_s(pieces.take(places), hertz)[:, 0])
    if not one_ran and first is None:
        away = _between_libraries(times, candidates) - base
        pieces = pieces.times(np.exp(away if few else np.median(away)))
        base = base + (away if few else np.median(away))
    bands = np.array([member.band for member in candidates])
    center = times + bands.mean(axis=1)[:, None] - base
    scale = (bands[:, 1] - bands[:, 0])[:, None] / 2.0 / np.log(19.0)
    low, high = (_quantile(center, scale, weight, share) for share in (0.05, 0.95))
    if not few:
        low = np.full(len(rows), np.quantile(low, _OUTER))
        high = np.full(len(rows), np.quantile(high, 1.0 - _OUTER))
    return pieces, low, high


def mixture_bounds(times: Floats, bands: Floats, weight: Floats, base: Floats) -> tuple[Floats, Floats]:
    """Return ln of the bounds that hold 90 % of what one of several ways to run each row takes, over a time.

    Parameters
    ----------
    times, weight : array, shape (k, n)
        ln of the time of each way, and how likely it is, relative to the others.
    bands : array, shape (k, n, 2)
        The 90 % band of ln(measured / predicted) of each.
    base : array, shape (n,)
        ln of the time that the bounds are of; they enclose it.
    """
    center = times + bands.mean(axis=2) - base
    scale = (bands[:, :, 1] - bands[:, :, 0]) / 2.0 / np.log(19.0)
    low, high = (_quantile(center, scale, weight / weight.sum(axis=0), share) for share in (0.05, 0.95))
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _between_libraries(times: Floats, candidates: tuple[Member, ...]) -> Floats:
    """Return the mean over libraries of the ln of the time of each one's middle candidate, (k, n) to (n,)."""
    weight = np.array([0.0 if member.bounds_only else member.weight for member in candidates])
    library = np.array([member.library for member in candidates])
    middles = []
    for name in dict.fromkeys(library[weight > 0.0].tolist()):
        of_library = np.flatnonzero((library == name) & (weight > 0.0))
        middle = _weighted_middle(times[of_library], weight[of_library] / weight[of_library].sum())
        middles.append(np.take_along_axis(times[of_library], middle[None], axis=0)[0])
    return np.asarray(np.mean(middles, axis=0))


def _weighted_middle(times: Floats, weight: Floats) -> Ints:
    """Return which candidate's time is the weighted median of each row, (k, n) to (n,)."""
    order = np.argsort(times, axis=0, kind="stable")
    place = (np.cumsum(weight[order], axis=0) < 0.5).sum(axis=0)
    return np.asarray(np.take_along_axis(order, place[None], axis=0)[0], dtype=np.int64)


def _quantile(center: Floats, scale: Floats, weight: Floats, share: float) -> Floats:
    """Return a quantile of mixtures of logistic distributions. Shapes (k, n), (k, 1 or n), (k,) or (k, n)."""
    low, high = (center - 12.0 * scale).min(axis=0), (center + 12.0 * scale).max(axis=0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        sides = np.tanh((middle - center) / (2.0 * scale))
        below = 0.5 * (1.0 + (weight @ sides if weight.ndim == 1 else (weight * sides).sum(axis=0)))
        low, high = np.where(below < share, middle, low), np.where(below < share, high, middle)
    return np.asarray((low + high) / 2.0)
