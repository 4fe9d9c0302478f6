"""Context of a kernel: what ran before it, and the effect on its power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints, Texts
from tracetool.core.interval import Z90

#: How far back what ran before counts. [s]
LOOK_BACK_S = 5e-3
#: A predecessor this much heavier or lighter is not alike; busy less than this share is isolated.
_ALIKE, _ISOLATED = 0.10, 0.10
#: Time constants tried for the memory of power. [s]
_MEMORY_S = np.logspace(np.log10(3e-4), np.log10(3e-2), 25)

#: Factor on a time constant to see what it changes.
_NUDGE = 1.02


def power_before(start_s: Floats, end_s: Floats, power_w: Floats) -> tuple[Floats, Floats]:
    """Return the mean power of what ran shortly before each activity [W], and for how long [s].

    Parameters
    ----------
    start_s, end_s : array, shape (n,)
        Activities of one device, sorted by start. [s]
    power_w : array, shape (n,)
        Typical power of each one's class. [W]
    """
    length = np.maximum(end_s - start_s, 0.0)
    edges = np.empty(2 * len(start_s))
    edges[0::2], edges[1::2] = start_s, np.maximum(end_s, start_s)
    edges = np.maximum.accumulate(edges)
    busy, work = np.zeros(len(edges)), np.zeros(len(edges))
    busy[1::2], work[1::2] = length, length * power_w
    busy, work = np.cumsum(busy), np.cumsum(work)
    before = start_s - LOOK_BACK_S
    seconds = np.interp(start_s, edges, busy) - np.interp(before, edges, busy)
    joules = np.interp(start_s, edges, work) - np.interp(before, edges, work)
    return joules / np.maximum(seconds, 1e-15), seconds


def context_labels(start_s: Floats, end_s: Floats, power_w: Floats) -> Texts:
    """Return what ran before each activity: isolated, after-heavy, after-light or after-alike.

    Parameters
    ----------
    start_s, end_s : array, shape (n,)
        Activities of one device, sorted by start. [s]
    power_w : array, shape (n,)
        Typical power of each one's class. [W]
    """
    if not len(start_s):
        return np.zeros(0, dtype=object)
    mean, seconds = power_before(start_s, end_s, power_w)
    label = np.full(len(start_s), "after-alike", dtype=object)
    label[mean > (1 + _ALIKE) * power_w] = "after-heavy"
    label[mean < (1 - _ALIKE) * power_w] = "after-light"
    label[seconds < _ISOLATED * LOOK_BACK_S] = "isolated"
    return label


@dataclass(frozen=True)
class History:
    """A kernel's power and the share of its predecessors' excess that lingers in it."""

    power_w: float  # with a predecessor like itself
    gain: float  # share of the predecessors' excess power left at the start
    gain_sd: float
    memory_s: float  # time constant of its fading
    samples: int

    @property
    def gain_low(self) -> float:
        """Lower end of the gain's 90 % interval."""
        return self.gain - Z90 * self.gain_sd

    @property
    def gain_high(self) -> float:
        """Upper end of the gain's 90 % interval."""
        return self.gain + Z90 * self.gain_sd

    @property
    def identifiable(self) -> bool:
        """Whether the interval is narrower than the whole excess."""
        return self.gain_high - self.gain_low < 1.0


def fit_history_term(
    excess_at: Callable[[float], Floats], fixed: Floats, power_w: Floats, run: Ints
) -> tuple[History, Floats]:
    r"""Return the history term of samples that may have seen other things too, and the power of all columns.

    Parameters
    ----------
    excess_at : callable
        Gives, for a time constant [s], what each sample saw of the fading excess at gain 1. [W]
    fixed : array, shape (n, q)
        Part of each sample in the kernel after others, then in all else it saw.
    power_w : array, shape (n,)
        Samples. [W]
    run : array of int, shape (n,)
        Run of each sample: errors within a run are alike.

    Notes
    -----
    :math:`P(t) = P_k + \beta\,(P_{prev} - P_k)\,e^{-t/\tau}`: power-light kernels inherit the power of
    what ran before them, heavy ones hardly (:math:`\beta \approx 0`). The time constant is the one
    with the smallest misfit; the interval of the gain is the runs' sandwich, the time constant's error
    included.
    """
    _, owner = np.unique(run, return_inverse=True)
    base, _ = np.linalg.qr(fixed)
    unexplained_w = power_w - base @ (base.T @ power_w)

    def misfit(memory: float) -> float:
        column = excess_at(memory)
        column = column - base @ (base.T @ column)
        size = float(column @ column)
        return -(float(column @ unexplained_w) ** 2) / size if size > 0 else 0.0

    memory = float(min(_MEMORY_S, key=lambda m: misfit(float(m))))
    step = float(_MEMORY_S[1] / _MEMORY_S[0])
    memory = float(min(memory * np.geomspace(1 / step, step, 41), key=lambda m: misfit(float(m))))
    rows = np.column_stack([fixed, excess_at(memory)])
    powers_w = np.asarray(np.linalg.lstsq(rows, power_w, rcond=None)[0], dtype=np.float64)
    slope = (excess_at(memory * _NUDGE) - excess_at(memory / _NUDGE)) / (2.0 * np.log(_NUDGE))
    full = np.column_stack([rows, powers_w[-1] * slope])  # and by the logarithm of the time constant
    scores = np.zeros((int(owner.max()) + 1, full.shape[1]))
    np.add.at(scores, owner, full * (power_w - rows @ powers_w)[:, None])
    bread = np.linalg.pinv(full.T @ full, rcond=1e-12)
    spare = max(len(scores) - full.shape[1], 1)
    cover = bread @ (scores.T @ scores) @ bread * (len(scores) / spare)
    sd = np.sqrt(np.maximum(np.diag(cover), 0.0))
    history = History(float(powers_w[0]), float(powers_w[-1]), float(sd[-2]), memory, len(power_w))
    return history, powers_w[:-1]
