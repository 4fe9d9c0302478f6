"""A sensor's filter as a few boxes: what each reading averages, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.hardware.sensors import Sensor

#: Boxes a first-order lag is cut into, each with an equal weight.
_LAG_BOXES = 10
#: Boxes the unknown delay of a slowly polled log is cut into.
_JITTER_BOXES = 5


@dataclass(frozen=True)
class Boxes:
    """A filter that weighs the time ``back_s`` to ``front_s`` before an update; weights sum to 1."""

    back_s: Floats  # (b,) further end of each box before the update [s]
    front_s: Floats  # (b,) nearer end [s]
    weight: Floats  # (b,) [1]

    @property
    def reach_s(self) -> float:
        """Time from a reading back to the begin of its filter. [s]"""
        return float(self.back_s.max())

    @property
    def length_s(self) -> float:
        """Length of a box with the same spread of weight: a box's own. [s]"""
        middle = 0.5 * (self.back_s + self.front_s)
        mean = float(self.weight @ middle)
        spread = self.weight @ ((middle - mean) ** 2 + (self.back_s - self.front_s) ** 2 / 12.0)
        return float(np.sqrt(12.0 * spread))


def sensor_boxes(sensor: Sensor, jitter_s: float = 0.0) -> Boxes:
    r"""Return the filter of a sensor as boxes.

    Parameters
    ----------
    sensor : Sensor
        Window or lag, and delay.
    jitter_s : float
        Width of the unknown delay between update and log line; the filter is averaged over it. [s]

    Notes
    -----
    A lag weighs the past by :math:`e^{-t/\tau}/\tau`; it is cut where its integral passes multiples of
    1/10, the last box ending where 1 % of the weight is left.
    """
    if sensor.kind == "lag":
        share = np.linspace(0.0, 1.0, _LAG_BOXES + 1)
        share[-1] = 0.99
        cuts = -sensor.lag_s * np.log1p(-share)
        back, front = cuts[1:], cuts[:-1]
        weight = np.diff(share) / 0.99
    else:
        back, front, weight = np.array([max(sensor.window_s, 1e-6)]), np.zeros(1), np.ones(1)
    back, front = back + sensor.delay_s, front + sensor.delay_s
    if jitter_s > 0:
        moves = (np.arange(_JITTER_BOXES) + 0.5) / _JITTER_BOXES * jitter_s
        back = (back[None, :] + moves[:, None]).ravel()
        front = (front[None, :] + moves[:, None]).ravel()
        weight = np.tile(weight / _JITTER_BOXES, _JITTER_BOXES)
    return Boxes(back, front, weight)


def timing_noise(boxes: Boxes, time_s: Floats, edges_s: Floats, swing_w: float, jitter_s: float) -> Floats:
    r"""Return the noise of each reading that errors of its stamp cause. Shape of ``time_s``. [W]

    Parameters
    ----------
    boxes : Boxes
        The filter.
    time_s : array, shape (n,) or (k, n)
        Updates. [s]
    edges_s : array, shape (e,)
        Moments where activity comes or goes, sorted. [s]
    swing_w : float
        Power that varies with it. [W]
    jitter_s : float
        Standard deviation of each edge's stamp. [s]

    Notes
    -----
    An edge displaced by :math:`\delta` inside a box of length :math:`w` moves its mean by
    :math:`\delta \Delta P / w`; edges are off independently.
    """
    variance = np.zeros(time_s.shape)
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        inside = np.searchsorted(edges_s, time_s - front) - np.searchsorted(edges_s, time_s - back)
        variance += (weight / (back - front)) ** 2 * inside
    return np.asarray(swing_w * jitter_s * np.sqrt(variance))
