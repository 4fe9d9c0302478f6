"""Prior powers of classes, before any reading."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.hardware.priors import prior_number
from tracetool.measure.design_matrix import Design
from tracetool.measure.normal_equations import Prior

#: Prior standard deviation of the power of a class, relative to the range of the readings or to the level of
#: work above idle, whichever is greater. [1] A prior: a reading averages many kernels, so readings vary less.
_CLASS_SD = 0.35
#: Idle power relative to the level of work where the log never shows it, and its standard deviation. [1]
#: Priors.
_IDLE_SHARE, _IDLE_SHARE_SD = 0.35, 0.2
#: Share of a reading that must be idle time or gaps for the log to show idle power. [1] A prior.
_IDLE_SEEN = 0.7
#: Share of work in a reading below which its power is not scaled up further. [1] A prior.
_LEAST_DUTY = 0.05
#: Share of work from which on the power of a reading counts as that of work. [1] A prior.
_FILLED = 0.6
#: Difference in shares of work that is rounding alone. [1] By definition of double precision.
_ROUNDING = 1e-6
#: No class draws less than this share of the lowest readings of a log that shows idle power. [1] A prior.
_FLOOR = 0.6
#: Sensor windows over which the prior of unseen work fades. [windows] A prior.
_SEEN = 4.0
#: Share of a window that work must fill for the window to count. [1] A prior.
_WORKING = 0.25
#: Power of work that no window sees, e.g. with a sensor in step with the load, and its standard deviation, as
#: shares of the range from idle power to the limit. [1] Priors.
_UNSEEN_SHARE, _UNSEEN_SHARE_SD = 0.55, 0.25
#: Power of copies and fills, which run no kernel, and its standard deviation, as shares of the range from
#: idle power to the level of work. [1] Priors: a copy over PCIe keeps the memory system awake and little
#: else, one inside the device moves bytes as fast as a streaming kernel does.
_COPY_SHARE, _COPY_SHARE_SD = 0.3, 0.3
#: Relative standard deviation of a class's power about an expected one that the user gives. [1] A prior.
_EXPECTED_SD = 0.25
#: Standard deviation of the common scale of all prior powers. [1] A prior.
_SCALE_SD = 0.3
#: Power of a class of kernels over the GPU's power limit at most, as in bursts. [1]
_BURST = prior_number("power.cap_burst")


def _filled_power(active: Floats, power_w: Floats) -> float:
    """Return the power of work by extrapolation of readings that are partly work. [W]

    Where kernels fill little of every reading, they draw more than any reading shows.
    """
    with_work = active > 0
    if np.ptp(active[with_work]) < _ROUNDING:  # readings in step with the work determine no line
        return 0.0
    slope, base = np.polyfit(active[with_work], power_w[with_work], 1)
    return float(base + slope)


def prior_of(
    power_w: Floats,
    class_design: Design,
    expected_w: Floats | None,
    limit_w: float,
    copies: Bools | None = None,
) -> Prior:
    """Return the prior of the powers of classes.

    Parameters
    ----------
    power_w : array, shape (n,)
        Readings. [W]
    class_design : Design
        The share of each reading in each class.
    expected_w : array, shape (k,), optional
        Expected power of each class, NaN where none is given; without it, one level for all classes. [W]
    limit_w : float
        The GPU's power limit, NaN if not known. [W]
    copies : array of bool, shape (k,), optional
        Classes that are copies or fills: no kernel's power is expected of them.
    """
    low, high = (float(q) for q in np.quantile(power_w, [0.01, 0.995]))
    reach = max(high - low, 0.05 * abs(high), 1.0)
    k = class_design.classes
    active = np.asarray(class_design.matrix[:, :k].sum(axis=1)).ravel()
    full = active > 0.5 * active.max(initial=0.0)
    shown = bool((active < 1.0 - _IDLE_SEEN).any())
    level, most = high, 1.0
    if full.any():
        level = float(np.median(power_w[full]))
        most = float(np.quantile(active, 0.995))
    idle_reading_w = low if shown else 0.0
    top = idle_reading_w + 2.0 * (high - idle_reading_w) / max(most, _LEAST_DUTY)
    if full.any() and float(np.median(active[full])) < _FILLED:
        level = float(np.clip(_filled_power(active, power_w), level, top))
    idle = low if shown else _IDLE_SHARE * level
    mean = np.full(k + 2, level)
    sd = np.full(k + 2, _CLASS_SD * max(reach, level - idle))
    copied = np.flatnonzero(copies) if copies is not None else np.zeros(0, np.int64)
    mean[copied] = idle + _COPY_SHARE * (level - idle)
    sd[copied] = max(_COPY_SHARE_SD * (level - idle), 0.1 * reach)
    if expected_w is not None:
        with_prior = np.flatnonzero(np.isfinite(expected_w))
        mean[with_prior] = expected_w[with_prior]
        sd[with_prior] = np.maximum(_EXPECTED_SD * expected_w[with_prior], 0.1 * reach)
    mean[k:] = idle + 0.2 * (level - idle), idle
    sd[k:] = 0.5 * reach if shown else _IDLE_SHARE_SD * level
    shared = np.append(np.ones(k), [0.0, 0.0])
    if np.isfinite(limit_w):
        top = max(1.1 * high, _BURST * limit_w)
        unseen = np.exp(-np.asarray(class_design.matrix[:, :k].sum(axis=0)).ravel() / _SEEN)
        without_level = np.exp(-float(active[active > _WORKING].sum()) / _SEEN)
        unseen[copied] = 0.0
        if expected_w is not None:
            unseen[np.isfinite(expected_w[:k])] = 0.0
        room = max(limit_w - idle, 0.0)
        mean[:k] += unseen * without_level * (idle + _UNSEEN_SHARE * room - mean[:k])
        sd[:k] = np.hypot(sd[:k], unseen * _UNSEEN_SHARE_SD * room)
    # Nothing draws less than an idle GPU, but a log of work alone does not show what that is.
    floor = max(0.0, min(low - 0.2 * reach, _FLOOR * low)) if shown else 0.0
    return Prior(mean, sd, shared, _SCALE_SD, floor, top)
