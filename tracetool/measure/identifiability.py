"""Which classes of work a log determines, and which it determines only together.

Least squares gives every class a power; where the readings contain no information on it, it is the prior's.
Three tests decide: enough sensor windows saw the class, its power is known from the readings alone, and its
column of the design is no combination of the others'. The rest is joined into groups whose sum is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tracetool.core.arrays import Bools, Floats, Ints, Texts

#: A class is identified when the readings alone determine its power to within this share of the prior's
#: standard deviation. [1] A prior: at one half, the readings have four times the weight of the prior.
_MAX_SD_SHARE = 0.5
#: Sensor windows that have to see a class. [windows] A prior.
_MIN_WINDOWS = 2.0
#: Two classes are joined into a group only if their errors correlate more negatively than this. [1] A prior.
_MIN_CANCELLATION = 0.1
#: A group is identified when its joint energy is known to within this share of its members' prior standard
#: deviations. [1] A prior, half of ``_MAX_SD_SHARE``: a sum is known better than its members.
_MAX_GROUP_SD_SHARE = 0.25
#: Rounds of joining; each joins every class with the one its error cancels best. [1] A prior: 15 halvings
#: suffice for 30,000 classes.
_MAX_ROUNDS = 15
#: Share of a design column's square that no combination of other columns explains, below which the class is
#: not identifiable. Two kernels that always run in one ratio differ only where windows cut them: that rests
#: on time stamps and on launches being exactly alike, not on the readings. [1] A prior.
_MIN_OWN_INFORMATION = 0.01


@dataclass(frozen=True)
class Identified:
    """Which of k classes the log determines."""

    coverage: Floats  # (k,) sensor windows that saw the class, counted in whole windows
    identified: Bools  # (k,)
    reason: Texts  # (k,) why it is not identified; "" where it is
    group: Ints  # (k,) number of its group; -1 where it is in none


def coverage_of(matrix: sparse.csr_matrix, independent: float) -> Floats:
    """Return the sensor windows that saw each class, counted in whole windows. Shape (k,).

    ``independent`` is the share of a window that no earlier reading covers: update period over window length,
    at most 1.
    """
    return np.asarray(matrix.sum(axis=0)).ravel() * independent


def identify(
    coverage: Floats,
    *,
    seconds: Floats,
    readings_covariance: Floats,
    prior_sd_w: Floats,
    own_information: Floats,
    variance_inflation: float,
    alignment_sd_w: Floats | float = 0.0,
) -> Identified:
    """Return which of k classes the readings identify.

    Parameters
    ----------
    coverage : array, shape (k,)
        Whole windows that saw each class.
    seconds : array, shape (k,)
        Time each class runs. [s]
    readings_covariance : array, shape (k, k)
        Covariance of the powers with a prior so wide that only the readings count. [W^2]
    prior_sd_w : array, shape (k,)
        Prior standard deviation of each power. [W]
    own_information : array, shape (k,)
        Share of each class's column of the design that no combination of others explains.
    variance_inflation : float
        Factor on variances for residuals that are correlated from reading to reading.
    alignment_sd_w : array, shape (k,), optional
        Standard deviation of each power from the uncertain alignment of log and trace. [W]

    Notes
    -----
    Two classes that always run in one ratio leave a direction of the powers that the readings do not
    determine: their errors cancel, with a correlation near -1 under the wide prior. Such classes form a group
    whose joint energy is known though no member's is.
    """
    sd = np.sqrt(np.maximum(np.diag(readings_covariance), 0.0) * variance_inflation)
    unseen = coverage < _MIN_WINDOWS
    mixed = own_information < _MIN_OWN_INFORMATION
    vague = np.hypot(sd, alignment_sd_w) > _MAX_SD_SHARE * prior_sd_w
    identified = ~(unseen | mixed | vague)
    group = np.full(len(sd), -1, dtype=np.int64)
    open_classes = np.flatnonzero(~identified & (coverage > 0))
    if len(open_classes) > 1:
        energy = readings_covariance[np.ix_(open_classes, open_classes)] * np.outer(
            seconds[open_classes], seconds[open_classes]
        )
        enough = _MAX_GROUP_SD_SHARE * prior_sd_w[open_classes] * seconds[open_classes]
        label = join_canceling(energy * variance_inflation, enough, mixed[open_classes])
        joined = np.bincount(label)[label] > 1
        _, group[open_classes[joined]] = np.unique(label[joined], return_inverse=True)
    reason = np.full(len(sd), "", dtype=object)
    reason[vague] = "the readings do not constrain its power"
    reason[(vague | mixed) & (group >= 0)] = "never separates from the other classes of its group"
    reason[unseen] = "fewer than two sensor windows saw it"
    reason[coverage <= 0] = "no sensor window saw it"
    return Identified(coverage, identified, reason, group)


def join_canceling(covariance: Floats, enough: Floats, mixed: Bools | None = None) -> Ints:
    """Join energies whose errors cancel, pair by pair, until each group's sum is known.

    Parameters
    ----------
    covariance : array, shape (n, n)
        Of the energies. [J^2]
    enough : array, shape (n,)
        Standard deviation below which an energy counts as known; a group's is the sum of its members'. [J]
    mixed : array of bool, shape (n,), optional
        Energies that no reading separates: they are joined however small their deviation, which then rests on
        the prior or on the edges of windows.

    Returns
    -------
    array of int, shape (n,)
        Number of the group that each is in.
    """
    mixed = np.zeros(len(enough), np.bool_) if mixed is None else mixed
    label = np.arange(len(enough))
    for _ in range(_MAX_ROUNDS):
        variance = np.maximum(np.diag(covariance), 0.0)
        scale = np.sqrt(np.maximum(variance, 1e-300))
        alike = covariance / np.outer(scale, scale)
        done = (scale < enough) & ~mixed
        alike[done, :] = 0.0
        np.fill_diagonal(alike, 0.0)
        partner = np.argmin(alike, axis=1)
        pull = alike[np.arange(len(partner)), partner]
        positions = np.arange(len(partner))
        chosen = (pull < -_MIN_CANCELLATION) & ((partner[partner] == positions) | done[partner])
        if not chosen.any():
            return label
        link = sparse.coo_matrix(
            (np.ones(int(chosen.sum())), (positions[chosen], partner[chosen])), alike.shape
        )
        count, into = csgraph.connected_components(link, directed=False)
        step = sparse.coo_matrix((np.ones(len(into)), (into, positions)), (count, len(into))).tocsr()
        covariance = np.asarray(step @ (step @ covariance).T)
        enough = np.asarray(step @ enough)
        mixed = mixed[np.unique(into, return_index=True)[1]] & (np.bincount(into) == 1)
        label = into[label]
    return label
