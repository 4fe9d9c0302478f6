"""What a log can separate: coverage, and classes that never separate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tracetool.core.arrays import Bools, Floats, Ints, Texts

#: A class is identified when the readings alone know its power to this share of its spread before.
_KNOWN = 0.5
#: Fewer windows than this see a class at random.
_FEWEST = 2.0
#: Errors that cancel less than this do not join two classes into a group.
_TOGETHER = 0.1
#: A group counts as identified when its joint energy is known to this share of its members' spread.
_GROUP_KNOWN = 0.25
#: Rounds of joining; each joins every pair that cancels best.
_ROUNDS = 15
#: Share of a column's square no other classes explain, below which it is not seen apart: what separates
#: two kernels that always run in one ratio is then only where windows cut them, and that rests on stamps
#: and on kernels being exactly alike, more than on the readings.
_APART = 0.01


@dataclass(frozen=True)
class Identified:
    """Which classes the log separates."""

    coverage: Floats  # (k,) whole sensor windows that saw it
    identified: Bools  # (k,)
    reason: Texts  # (k,) "" where known
    group: Ints  # (k,) -1 where alone


def coverage_of(matrix: sparse.csr_matrix, independent: float) -> Floats:
    """Return the sensor windows that saw each class, in whole windows. Shape (k,).

    ``independent`` is the share of a window that is new in each reading: update period over window
    length, at most 1.
    """
    return np.asarray(matrix.sum(axis=0)).ravel() * independent


def identify(
    coverage: Floats, *, seconds: Floats, loose: Floats, tight_sd: Floats, apart: Floats, stretch: float
) -> Identified:
    """Return which of k classes the readings identify.

    Parameters
    ----------
    coverage : array, shape (k,)
        Whole windows that saw each class.
    seconds : array, shape (k,)
        Time each class runs. [s]
    loose : array, shape (k, k)
        Covariance of the powers with ties so wide that only readings count. [W^2]
    tight_sd : array, shape (k,)
        Spread of each power before any reading. [W]
    apart : array, shape (k,)
        Share of each class's column of the design that no combination of others explains.
    stretch : float
        Factor on variances.

    Notes
    -----
    Two classes that always run in one ratio leave a direction in which only the ties hold; there
    their errors cancel: correlation near -1 under loose ties. Such classes form a group whose joint
    energy is known though no member is.
    """
    sd = np.sqrt(np.maximum(np.diag(loose), 0.0) * stretch)
    unseen = coverage < _FEWEST
    mixed = apart < _APART
    vague = sd > _KNOWN * tight_sd
    identified = ~(unseen | mixed | vague)
    group = np.full(len(sd), -1, dtype=np.int64)
    open_classes = np.flatnonzero(~identified & (coverage > 0))
    if len(open_classes) > 1:
        energy = loose[np.ix_(open_classes, open_classes)] * np.outer(
            seconds[open_classes], seconds[open_classes]
        )
        label = _join(energy * stretch, tight_sd[open_classes] * seconds[open_classes], mixed[open_classes])
        joined = np.bincount(label)[label] > 1
        _, group[open_classes[joined]] = np.unique(label[joined], return_inverse=True)
    reason = np.full(len(sd), "", dtype=object)
    reason[vague] = "the readings do not constrain its power"
    reason[(vague | mixed) & (group >= 0)] = "never separates from the other classes of its group"
    reason[unseen] = "fewer than two sensor windows saw it"
    reason[coverage <= 0] = "no sensor window saw it"
    return Identified(coverage, identified, reason, group)


def _join(covariance: Floats, spread: Floats, mixed: Bools) -> Ints:
    """Join classes whose energies' errors cancel, pair by pair, until each group's sum is known.

    Those that no reading sees apart are joined however well the ties or windows' edges seem to know them.
    """
    label = np.arange(len(spread))
    for _ in range(_ROUNDS):
        variance = np.maximum(np.diag(covariance), 0.0)
        scale = np.sqrt(np.maximum(variance, 1e-300))
        alike = covariance / np.outer(scale, scale)
        done = (scale < _GROUP_KNOWN * spread) & ~mixed
        alike[done, :] = 0.0
        np.fill_diagonal(alike, 0.0)
        partner = np.argmin(alike, axis=1)
        pull = alike[np.arange(len(partner)), partner]
        own = np.arange(len(partner))
        chosen = (pull < -_TOGETHER) & ((partner[partner] == own) | done[partner])
        if not chosen.any():
            return label
        link = sparse.coo_matrix((np.ones(int(chosen.sum())), (own[chosen], partner[chosen])), alike.shape)
        count, into = csgraph.connected_components(link, directed=False)
        step = sparse.coo_matrix((np.ones(len(into)), (into, own)), (count, len(into))).tocsr()
        covariance = np.asarray(step @ (step @ covariance).T)
        spread = np.asarray(step @ spread)
        mixed = mixed[np.unique(into, return_index=True)[1]] & (np.bincount(into) == 1)
        label = into[label]
    return label
