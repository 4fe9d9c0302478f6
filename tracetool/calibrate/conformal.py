"""Calibrated intervals: quantiles of held-out errors, counted in groups of shapes, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Band

#: Fewer groups of shapes of a kind than this share the residuals of all kinds.
LEAST_GROUPS: Final = 20


def band(error: Floats, groups: int) -> Band:
    """Return the 90 % band of residuals, wider where it rests on few groups of shapes.

    Of g groups, alike inside, the band leaves out 0.05 (g + 1) on either side, rounded down: a new group is
    as likely as not to lie beyond the outermost of few.

    Parameters
    ----------
    error : array, shape (n,)
        Residuals of rows the fit did not see.
    groups : int
        Groups of shapes they fall into.

    References
    ----------
    .. [1] Dunn, Wasserman and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models",
       2023.

    Examples
    --------
    >>> band(np.linspace(-1.0, 1.0, 201), 201)[1] < band(np.linspace(-1.0, 1.0, 201), 10)[1]
    True
    """
    out = np.floor(0.05 * (groups + 1)) / groups if groups else 0.0
    return float(np.quantile(error, out)), float(np.quantile(error, 1.0 - out))


def bands(error: Floats, group: Ints, kind: Ints, names: Sequence[str]) -> Mapping[str, Band]:
    """Return the band of all rows under "" and one for each kind that enough groups support.

    Parameters
    ----------
    error, group, kind : array, shape (n,)
        Residual, number of the shape group and number of the kind of each row.
    names : sequence of str
        Names of the kinds, by number.
    """
    band_of_kind = {"": band(error, len(np.unique(group)))}
    for number, name in enumerate(names):
        of_kind = kind == number
        groups = len(np.unique(group[of_kind]))
        if groups >= LEAST_GROUPS:
            band_of_kind[name] = band(error[of_kind], groups)
    return band_of_kind


def held_inside(error: Floats, group: Ints, kind: Ints, names: Sequence[str]) -> Floats:
    """Return 1 for rows inside bands made of the other half of the groups, 0 for those outside. Shape (n,).

    Each half tests the other, so that no row is tested with a band its own group went into. NaN if there is
    but one group.
    """
    groups = np.unique(group)
    first = np.isin(group, np.random.default_rng(2).permutation(groups)[: len(groups) // 2])
    inside = np.full(len(error), np.nan)
    for fit_rows, test_rows in ((first, ~first), (~first, first)):
        if not (fit_rows.any() and test_rows.any()):
            continue
        fitted_bands = bands(error[fit_rows], group[fit_rows], kind[fit_rows], names)
        band_of_kind = [fitted_bands.get(name, fitted_bands[""]) for name in names] or [fitted_bands[""]]
        low, high = (np.array([b[side] for b in band_of_kind])[kind[test_rows]] for side in (0, 1))
        inside[test_rows] = (error[test_rows] >= low) & (error[test_rows] <= high)
    return inside


def percent(inside: Floats) -> float:
    """Return the share of rows inside their bands. [%]"""
    return float(inside.mean() * 100.0)
