"""Power over time from readings: slowly changing levels while active, in gaps and idle.

The sensor cannot see inside its window, but the timeline can: within a reading, power follows the
activity. What is left to find are the levels, one for each state and moment, and those rarely change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.filters import Boxes, timing_noise
from tracetool.measure.power_levels import STATE_COUNT, Blocks, Levels, overlap
from tracetool.measure.readings import Readings, poll_spacing
from tracetool.measure.timeline import Timeline, weighted_busy

#: Degrees of freedom of the level changes: low, so that most are nil and some are steps. [1] A prior.
_STEP_FREEDOM = 1.5
#: Degrees of freedom of the readings' noise: its tails are longer than a normal one's. [1] A prior.
_NOISE_FREEDOM = 5.0
#: Typical change of a level in 0.1 s, relative to the log's range. [1] A prior.
_STEP_SHARE = 0.004
#: Gap power above idle, relative to active above idle, before any reading: mean and deviation. [1] A prior.
_GAP_SHARE, _GAP_SHARE_SD = 0.10, 0.10
#: How fast the gap's deviation from that share changes, relative to the other levels: clocks set it,
#: not the work, and readings that hold both states could otherwise trade one against the other. [1] A prior.
_GAP_PACE = 0.1
#: Rounds of reweighting: the first ones go from smooth to stepwise. [1] A prior.
_ROUNDS = 14
#: Rounds of them that follow a start from levels of almost the same timeline. [1] A prior.
_AGAIN = 4
#: Factor on the typical change in the first round, halved each round: large changes are not yet steps.
#: [1] A prior.
_SMOOTH_START = 8.0
#: Least noise of a reading: in watts, and as a share of the log's high end. [W], [1] A prior: sensors state
#: hundredths to tenths of a watt.
_FLOOR_W, _FLOOR_SHARE = 0.1, 0.0005
#: Most noise of a reading beside that, as a share of the log's range. [1] A prior.
_MOST_NOISE = 0.05
#: Noise the first round starts from: in watts, and as shares of the log's high end and range. [W], [1], [1]
#: A prior.
_START_W, _START_SHARE, _START_OF_RANGE = 0.3, 0.003, 0.002
#: Standard deviation of a normal distribution over the median of its absolute values. [1] By definition.
_SD_OF_MEDIAN = 1.4826
#: Products of a reading's shares kept ready; beyond this they are multiplied out each round. [1] For memory
#: alone, half a GB: results are the same.
_PAIRS = 20_000_000
#: Blocks within the sensor's filter, or between readings where that is less, that are enough: readings see no
#: finer, and the work grows with the cube of their number. [1] A prior.
_ENOUGH_BLOCKS = 12.0
#: Blocks a reading, over a whole log, beyond which stretches without readings are no longer cut into blocks:
#: a single reading with a wrong time would ask for thousands of millions. [1] A prior.
_BLOCKS_A_READING = 2000


def _observation(readings: Readings, boxes: Boxes, blocks: Blocks) -> sparse.csr_matrix:
    n, b = len(readings), len(boxes.weight)
    start = (readings.time_s[:, None] - boxes.back_s[None, :]).ravel()
    end = (readings.time_s[:, None] - boxes.front_s[None, :]).ravel()
    weight = np.tile(boxes.weight / (boxes.back_s - boxes.front_s), n)
    return overlap(start, end, weight, np.repeat(np.arange(n), b), blocks)


def _block_s(readings: Readings, boxes: Boxes) -> float:
    """Return the length of blocks of constant level: the shortest that readings resolve. [s]

    The update period, longer where polls and the sensor's filter are many periods.
    """
    seen_s = min(poll_spacing(readings.time_s), boxes.length_s)
    return max(readings.update_s, seen_s / _ENOUGH_BLOCKS)


def _block_edges(readings: Readings, boxes: Boxes, block_s: float) -> Floats:
    """Return where blocks begin and end, back from the last reading; a long stretch without any is one."""
    last = readings.time_s[-1] + 1e-9
    count = int(np.ceil((last - readings.time_s[0] + boxes.reach_s) / block_s)) + 1
    if count <= _BLOCKS_A_READING * len(readings):
        return np.asarray(last - block_s * np.arange(count, -1, -1))
    newest = np.floor((last - readings.time_s) / block_s)
    each = int(np.ceil(boxes.reach_s / block_s)) + 3
    number = np.unique(newest[:, None] + np.arange(each))[::-1]
    return np.asarray(last - block_s * number)


def _banded(matrix: sparse.spmatrix, width: int) -> Floats:
    m = matrix.tocoo()
    below = m.row >= m.col
    out = np.zeros((width + 1, matrix.shape[0]))
    np.add.at(out, (m.row[below] - m.col[below], m.col[below]), m.data[below])
    return out


class _Normal:
    """The precision of the unknowns as bands, cheap to recompute with other weights."""

    def __init__(self, observe: sparse.csr_matrix, width: int, fixed: Floats) -> None:
        self.observe, self.width, self.fixed = observe, width, fixed
        self.size = observe.shape[1]
        filled = np.diff(observe.indptr)
        self.few = int((filled.astype(np.int64) ** 2).sum()) <= _PAIRS
        if not self.few:
            return
        row = np.repeat(np.arange(len(filled)), filled**2)
        place = np.arange(len(row)) - np.repeat(np.cumsum(filled**2) - filled**2, filled**2)
        first = observe.indptr[row] + place // filled[row]
        second = observe.indptr[row] + place % filled[row]
        high, low = observe.indices[first], observe.indices[second]
        below = high >= low
        self.row = row[below]
        self.flat = (high[below] - low[below]) * self.size + low[below]
        self.value = (observe.data[first] * observe.data[second])[below]

    def bands(self, weight: Floats, step_weight: Floats) -> Floats:
        """Return lower bands for weights of readings (n,) and of level changes. Shape (width + 1, size)."""
        out = np.zeros((self.width + 1, self.size))
        if self.few:
            values = self.value * weight[self.row]
            out += np.bincount(self.flat, values, minlength=out.size).reshape(out.shape)
        else:
            out += _banded(self.observe.T @ sparse.diags(weight) @ self.observe, self.width)
        out[0] += self.fixed
        out[0, :-STATE_COUNT] += step_weight
        out[0, STATE_COUNT:] += step_weight
        out[STATE_COUNT, :-STATE_COUNT] -= step_weight
        return out


def fit_levels(
    readings: Readings,
    timeline: Timeline,
    boxes: Boxes,
    *,
    ratio: Floats | None = None,
    like: Levels | None = None,
) -> Levels:
    r"""Return the levels that explain the readings.

    Parameters
    ----------
    readings : Readings
        At least two.
    timeline : Timeline
        Activity on the same clock; may be empty (then power follows the readings alone).
    boxes : Boxes
        The sensor's filter.
    ratio : array, shape (classes,), optional
        Power of each class over the mean of all: the active level is then that mean, and what ran says
        how power moved within a block. [1]
    like : Levels, optional
        Levels of the same readings under almost the same timeline, to start from: a few rounds do then.

    Notes
    -----
    Each reading is :math:`y_n = \sum_{s,j} K_{nsj} z_{sj} + \epsilon_n`, with :math:`K` the share of the
    filter in state :math:`s` and block :math:`j`. Levels follow a random walk whose steps have a
    Student distribution (mostly none, sometimes a jump), and so does the noise; both are modeled by
    iteratively reweighted least squares on a banded system. Gap power starts from a share of the
    way from idle to active, which readings soon override.
    """
    problem = _problem(readings, timeline, boxes, _block_s(readings, boxes), ratio)
    fitted = _reweighted(problem, like)
    blocks, miss = problem.blocks, fitted.miss
    levels = Levels(
        blocks.edges_s,
        (problem.mixing @ fitted.unknowns + problem.fixed).reshape(len(blocks.edges_s) - 1, STATE_COUNT),
        blocks.ramps,
        problem.mixing,
        fitted.factor,
        fitted.noise_w,
        0.0,
        readings.power_w - miss,
    )
    noise_w = np.hypot(fitted.noise_w * fitted.ratio, _inner_noise(levels, readings, boxes))
    ties = (fitted.unknowns[problem.anchor] - problem.target) * np.sqrt(problem.trust)
    steps = fitted.steps / problem.step_scale
    return replace(levels, log_likelihood=_log_likelihood(miss, noise_w, steps, ties))


@dataclass(frozen=True)
class _Problem:
    """The banded least-squares problem of a log: n readings, u unknowns."""

    blocks: Blocks
    mixing: sparse.csr_matrix  # levels from unknowns
    fixed: Floats  # (u,) the part of each level that no unknown moves [W]
    observe: sparse.csr_matrix  # (n, u) readings from unknowns
    power_w: Floats  # (n,) readings without the fixed part
    timing_w: Floats  # (n,) what readings are off for their times are not exact
    step_scale: Floats  # (u - states,) typical change from block to block [W]
    anchor: Ints  # unknowns that are weakly tied
    target: Floats  # to what, and with which precision [W], [1/W^2]
    trust: Floats
    reach_w: float  # range of the log
    high_w: float  # its high end
    width: int  # bands below the diagonal


def _problem(
    readings: Readings, timeline: Timeline, boxes: Boxes, block_s: float, ratio: Floats | None
) -> _Problem:
    """Return the least-squares problem of readings for levels of blocks of ``block_s``."""
    busy, gap, idle = timeline.state_ramps()
    if ratio is not None:
        busy = weighted_busy(timeline, ratio)
    blocks = Blocks(_block_edges(readings, boxes, block_s), (busy, gap, idle))
    shown = _observation(readings, boxes, blocks)
    count = len(blocks.edges_s) - 1
    size = count * STATE_COUNT
    low, high = float(np.quantile(readings.power_w, 0.02)), float(np.quantile(readings.power_w, 0.98))
    reach = max(high - low, 0.02 * abs(high), 1.0)
    mixing, fixed = _mixing(count, low)
    pace = np.tile([1.0, _GAP_PACE, 1.0], count - 1)
    length_s = np.diff(blocks.edges_s)
    apart_s = np.repeat((length_s[1:] + length_s[:-1]) / 2.0, STATE_COUNT)
    anchor, target, trust = _anchors(count, low, high, reach)
    return _Problem(
        blocks,
        mixing,
        fixed,
        (shown @ mixing).tocsr(),
        readings.power_w - shown @ fixed,
        timing_noise(boxes, readings.time_s, timeline.edges_s, reach, timeline.jitter_s),
        _STEP_SHARE * reach * np.sqrt(apart_s / 0.1) * pace,
        anchor,
        target,
        trust,
        reach,
        high,
        min(STATE_COUNT * (int(np.ceil(boxes.reach_s / block_s)) + 2) + STATE_COUNT, size - 1),
    )


@dataclass(frozen=True)
class _Reweighted:
    """Unknowns after the last round of reweighting."""

    unknowns: Floats  # (u,) [W]
    factor: Floats  # bands of the Cholesky factor of their precision
    miss: Floats  # (n,) readings less what the unknowns explain [W]
    steps: Floats  # (u - states,) changes from block to block [W]
    noise_w: float  # common noise of the readings
    ratio: Floats  # (n,) each reading's noise over the common one


def _reweighted(problem: _Problem, like: Levels | None) -> _Reweighted:
    """Return the unknowns by iteratively reweighted least squares."""
    size, observe, y = problem.observe.shape[1], problem.observe, problem.power_w
    anchor, target, trust, reach = problem.anchor, problem.target, problem.trust, problem.reach_w
    anchor_weight: Floats = np.bincount(anchor, trust, minlength=size).astype(np.float64) + 1e-6 / reach**2
    pulled = np.asarray(np.bincount(anchor, trust * target, minlength=size), dtype=np.float64)
    normal = _Normal(observe, problem.width, anchor_weight)
    observe_t = observe.T.tocsr()
    floor = max(_FLOOR_W, _FLOOR_SHARE * abs(problem.high_w))
    noise = max(_START_W, _START_SHARE * abs(problem.high_w), _START_OF_RANGE * reach)
    ratio = np.hypot(1.0, problem.timing_w / noise)
    noise_weight = 1.0 / ratio**2
    step_weight = 1.0 / (_SMOOTH_START * problem.step_scale) ** 2 * np.ones(size - STATE_COUNT)
    factor, unknowns = np.zeros((1, 1)), np.zeros(size)
    miss, step = y, np.zeros(size - STATE_COUNT)
    warm_start = like is not None and like.level_w.size == size
    first = _ROUNDS - _AGAIN if warm_start else 0
    for turn in range(first - 1 if warm_start else 0, _ROUNDS):
        if turn < first and like is not None:
            unknowns = _unknowns(like.level_w.ravel(), problem.fixed)
        else:
            weight = noise_weight / noise**2
            factor = linalg.cholesky_banded(normal.bands(weight, step_weight), lower=True, check_finite=False)
            right = observe_t @ (weight * y) + pulled
            unknowns = linalg.cho_solve_banded((factor, True), right, check_finite=False)
        miss, step = y - observe @ unknowns, unknowns[STATE_COUNT:] - unknowns[:-STATE_COUNT]
        spread = _SD_OF_MEDIAN * float(np.median(np.abs(miss / ratio)))
        noise = float(np.clip(np.hypot(spread, floor), floor, _MOST_NOISE * reach + floor))
        ratio = np.hypot(1.0, problem.timing_w / noise)
        noise_weight = (_NOISE_FREEDOM + 1) / (_NOISE_FREEDOM + (miss / (noise * ratio)) ** 2) / ratio**2
        scale = problem.step_scale * max(1.0, _SMOOTH_START * 0.5**turn)  # from smooth to stepwise
        step_weight = (_STEP_FREEDOM + 1) / (_STEP_FREEDOM * scale**2 + step**2)
    return _Reweighted(unknowns, factor, miss, step, noise, ratio)


def _inner_noise(levels: Levels, readings: Readings, boxes: Boxes) -> Floats:
    """Return the error of readings whose filter cuts a block inside which power moved. Shape (n,). [W]"""
    variance = np.zeros(len(readings))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        moved = levels.inner_variance(readings.time_s - back, readings.time_s - front)
        variance += moved * (weight / (back - front)) ** 2
    return np.asarray(np.sqrt(variance))


def _mixing(count: int, low: float) -> tuple[sparse.csr_matrix, Floats]:
    """Levels from unknowns: gap = its deviation + a share of active + the rest of the low end."""
    size = count * STATE_COUNT
    gap = np.arange(count) * STATE_COUNT + 1
    share = sparse.coo_matrix((np.full(count, _GAP_SHARE), (gap, gap - 1)), shape=(size, size))
    fixed = np.zeros(size)
    fixed[gap] = (1.0 - _GAP_SHARE) * low
    return (sparse.identity(size) + share).tocsr(), fixed


def _unknowns(level_w: Floats, fixed: Floats) -> Floats:
    """Unknowns from levels: what ``_mixing`` undoes. Shape (3 j,)."""
    out = level_w - fixed
    out[1::STATE_COUNT] -= _GAP_SHARE * out[0::STATE_COUNT]
    return np.asarray(out)


def _anchors(count: int, low: float, high: float, reach: float) -> tuple[Ints, Floats, Floats]:
    """Weak ties: active near the high end, the gap's deviation near nil, idle near the low end."""
    block = np.arange(0, count, max(1, count // 8))
    n = len(block)
    column = np.concatenate([block * STATE_COUNT + s for s in range(STATE_COUNT)])
    target = np.concatenate([np.full(n, high), np.zeros(n), np.full(n, low)])
    sd = np.concatenate([np.full(n, reach), np.full(n, _GAP_SHARE_SD * reach), np.full(n, 0.5 * reach)])
    return column, target, 1.0 / (sd**2 * n)


def _log_likelihood(miss: Floats, noise: Floats, steps: Floats, ties: Floats) -> float:
    of_readings = -0.5 * (_NOISE_FREEDOM + 1) * np.log1p((miss / noise) ** 2 / _NOISE_FREEDOM).sum()
    of_steps = -0.5 * (_STEP_FREEDOM + 1) * np.log1p(steps**2 / _STEP_FREEDOM).sum()
    return float(of_readings - np.log(noise).sum() + of_steps - 0.5 * (ties**2).sum())
