"""Power over time as slowly changing levels: the energy of windows, and its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.timeline import STATES, Ramp, cut

STATE_COUNT = len(STATES)
#: Part of a block that must be active for its level to be set beside its neighbors'. [1] A prior.
_FILLED = 0.2
#: Windows whose deviations are found together, and cells of the dense block that takes: 8 MB. [1] For speed
#: and memory alone: results are the same.
_TOGETHER, _CELLS = 64, 1_000_000
#: Unknowns beyond a window looked at first, and the share of its variance they may still add: 0.25 % of a
#: deviation. [1] A prior.
_TAIL_CELLS, _TAIL_SHARE = 384, 0.005


@dataclass(frozen=True)
class Blocks:
    """Stretches of constant level, and the time in each state."""

    edges_s: Floats  # (j + 1,) [s]
    ramps: tuple[Ramp, Ramp, Ramp]  # active, gap, idle


@dataclass(frozen=True)
class Levels:
    """Levels of each state over time, with their joint uncertainty.

    ``level_w`` is what the sensor would show of a power held constant: gain and offset not undone.
    """

    edges_s: Floats  # (j + 1,) blocks of constant level [s]
    level_w: Floats  # (j, 3) active, gap, idle [W]
    ramps: tuple[Ramp, Ramp, Ramp]  # time in each state
    mixing: sparse.csr_matrix  # (3 j, 3 j) levels from the unknowns solved for
    factor: Floats  # banded Cholesky factor of the unknowns' posterior precision
    noise_w: float  # standard deviation of one reading [W]
    log_likelihood: float  # of the readings, up to a constant
    fitted_w: Floats  # (n,) readings as reconstructed [W]

    def weights(self, start_s: Floats, end_s: Floats) -> sparse.csr_matrix:
        """Return the seconds of each level in each window, shape (w, 3 j). [s]"""
        return overlap(start_s, end_s, np.ones(len(start_s)), np.arange(len(start_s)), self)

    def energy(self, start_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """Return each window's energy and its standard deviation, as the sensor shows it.

        Parameters
        ----------
        start_s, end_s : array, shape (w,)
            Windows. [s]

        Returns
        -------
        energy, deviation : array, shape (w,)
            Gain and offset not undone. [J]
        """
        weights = self.weights(start_s, end_s)
        energy = np.asarray(weights @ self.level_w.ravel())
        return energy, np.sqrt(self._variance((weights @ self.mixing).tocsr()))

    def shown_energy(self, start_s: Floats, end_s: Floats) -> Floats:
        """Return each window's energy alone, as the sensor shows it. Shape (w,). [J]"""
        return np.asarray(self.weights(start_s, end_s) @ self.level_w.ravel())

    def _variance(self, weights: sparse.csr_matrix) -> Floats:
        r"""Return the variance of weighted sums of the unknowns, shape (w,).

        With the precision's factor :math:`L`, it is :math:`|L^{-1} w|^2`: nil before a window's first
        level, and fading after its last. Only that stretch is solved, so that a long log costs no more
        than a short one.
        """
        size = self.factor.shape[1]
        out = np.zeros(weights.shape[0])
        filled = np.flatnonzero(np.diff(weights.indptr))
        weights.sort_indices()
        first = np.zeros(len(out), dtype=np.int64)
        last = np.zeros(len(out), dtype=np.int64)
        first[filled] = weights.indices[weights.indptr[filled]]
        last[filled] = weights.indices[weights.indptr[filled + 1] - 1] + 1
        order = filled[np.lexsort((first[filled], np.log2(last[filled] - first[filled]).astype(np.int64)))]
        begin = 0
        while begin < len(order):
            low = int(first[order[begin]])
            count = 1
            high = int(last[order[begin]])
            while begin + count < len(order) and count < _TOGETHER:
                more = max(high, int(last[order[begin + count]]))
                behind = first[order[begin + count]] < low
                if behind or (more - low) * (count + 1) > _CELLS:
                    break
                high, count = more, count + 1
            chosen = order[begin : begin + count]
            out[chosen] = self._solved(weights[chosen], low, high, size)
            begin += count
        return np.asarray(out)

    def _solved(self, weights: sparse.csr_matrix, low: int, high: int, size: int) -> Floats:
        """Return the variance of sums with weights in [low, high), solving on until it converges."""
        tail = _TAIL_CELLS
        while True:
            end = min(high + tail, size)
            right = weights[:, low:end].toarray().T
            band = np.ascontiguousarray(self.factor[:, low:end])
            half, fault = linalg.lapack.dtbtrs(band, right, uplo="L")
            if fault:  # pragma: no cover - the factor has a positive diagonal
                raise np.linalg.LinAlgError("the levels' factor is singular")
            square = half**2
            variance = square.sum(axis=0)
            if end == size:
                return np.asarray(variance)
            # What follows fades like a geometric series, whose rest the last two quarters predict.
            late, final = square[-(tail // 2) : -(tail // 4)].sum(axis=0), square[-(tail // 4) :].sum(axis=0)
            pace = np.minimum(final / np.maximum(late, 1e-300), 0.999)
            beyond_tail = final * pace / (1.0 - pace)
            if (beyond_tail <= _TAIL_SHARE * variance).all():
                return np.asarray(variance + beyond_tail)
            tail *= 4

    def inner_variance(self, start_s: Floats, end_s: Floats) -> Floats:
        """Return the variance of windows that cut a block: power moved inside it too. Shape (w,). [J^2]

        What a block's level differs from its neighbors' is what its halves may differ by: a part that
        holds the share f of it has an error of that times the root of f (1 - f).
        """
        edges, ramp, level = self.edges_s, self.ramps[0], self.level_w[:, 0]
        block_busy_s = np.diff(ramp(edges))
        full = block_busy_s > _FILLED * np.diff(edges)
        step = np.where(full[1:] & full[:-1], np.diff(level), 0.0) ** 2
        moved = np.maximum(np.append(step, 0.0), np.insert(step, 0, 0.0))
        last = len(block_busy_s) - 1
        ends = [np.clip(np.searchsorted(edges, t, side="right") - 1, 0, last) for t in (start_s, end_s)]
        out = np.zeros(len(start_s))
        for which, block in enumerate(ends):
            low, high = np.maximum(start_s, edges[block]), np.minimum(end_s, edges[block + 1])
            busy_s = np.maximum(ramp(high) - ramp(low), 0.0)
            share = np.clip(busy_s / np.maximum(block_busy_s[block], 1e-12), 0.0, 1.0)
            cut_variance = 0.5 * moved[block] * block_busy_s[block] ** 2 * share * (1.0 - share)
            out += np.where((which == 0) | (ends[0] != ends[1]), cut_variance, 0.0)
        return out

    def power(self, start_s: Floats, end_s: Floats) -> Floats:
        """Return the mean reconstructed power of each window. [W]"""
        seconds = np.maximum(end_s - start_s, 1e-12)
        return np.asarray(self.weights(start_s, end_s) @ self.level_w.ravel()) / seconds


def overlap(
    start_s: Floats, end_s: Floats, weight: Floats, owner: Ints, blocks: Levels | Blocks
) -> sparse.csr_matrix:
    """Return the weighted seconds of each level in intervals, summed by owner.

    Parameters
    ----------
    start_s, end_s, weight : array, shape (p,)
        Intervals and their weights. [s], [1]
    owner : array of int, shape (p,)
        Row each is counted in.
    blocks : Levels or Blocks
        The levels, three to a block.

    Returns
    -------
    sparse matrix, shape (owners, 3 j)
        Seconds times weight. [s]
    """
    row, cell, low, high = cut(start_s, end_s, blocks.edges_s)
    count = len(blocks.edges_s) - 1
    rows = int(owner.max()) + 1 if len(owner) else 0
    values, columns = [], []
    for state, ramp in enumerate(blocks.ramps):
        values.append((ramp(high) - ramp(low)) * weight[row])
        columns.append(cell * STATE_COUNT + state)
    return sparse.coo_matrix(
        (np.concatenate(values), (np.tile(owner[row], STATE_COUNT), np.concatenate(columns))),
        shape=(rows, count * STATE_COUNT),
    ).tocsr()
