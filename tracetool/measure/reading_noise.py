"""Noise of readings about the powers of classes, weights, and the share of noise that powers absorb."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Floats

#: Degrees of freedom of the readings' noise (Student's t). [1] A prior.
_FREEDOM = 5.0
#: Readings without work from which on their noise is estimated separately. [readings] A prior.
_ENOUGH = 20
#: Relative standard deviation of power between launches of a class. [1] A prior.
_ALIKE = 0.01
#: Readings that this prior counts as, and least share of readings of work left for residuals. [1] Priors.
_ALIKE_WORTH, _LEAST_LEFT = 5.0, 0.1


def student_weight(miss: Floats, noise_w: float, ratio: Floats) -> Floats:
    """Return the weight of each reading under a Student likelihood. Shape (n,)"""
    return np.asarray((_FREEDOM + 1) / (_FREEDOM + (miss / (noise_w * ratio)) ** 2) / ratio**2)


def share_left(used: float, busy: Floats) -> float:
    """Return the share of the readings of work that the number of powers does not absorb. [1]"""
    count = float((busy > 0.5 * busy.max(initial=0.0)).sum())
    return max(1.0 - used / max(count, 1.0), _LEAST_LEFT)


def reading_noise(
    miss: Floats, busy: Floats, power_w: Floats, floor_w: float, unsteady: float, share_left: float
) -> tuple[float, Floats]:
    """Return the noise of quiet readings and each reading's noise over it. [W], shape (n,)

    Readings of work miss by more than the sensor's noise, for kernels of a class are not all alike; were
    they judged by the quiet ones of a log that mostly idles, they would count as odd and be let go.
    """
    full = busy > 0.5 * busy.max(initial=0.0)
    quiet = np.abs(miss[~full] if (~full).sum() >= _ENOUGH else miss)
    noise = max(floor_w, 1.4826 * float(np.median(quiet)))
    if not full.any() or full.all():
        return noise, np.ones(len(miss))
    alike_w = _ALIKE * float(np.median(power_w[full]))
    busy_count = float(full.sum())
    busy_variance = (1.4826 * float(np.median(np.abs(miss[full])))) ** 2 / share_left
    working = (busy_count * busy_variance + _ALIKE_WORTH * alike_w**2) / (busy_count + _ALIKE_WORTH)
    working = max(working, (unsteady * float(np.median(power_w[full]))) ** 2)
    more = max(working / noise**2 - 1.0, 0.0) / float(busy[full].mean())
    return noise, np.sqrt(1.0 + more * np.clip(busy, 0.0, None))
