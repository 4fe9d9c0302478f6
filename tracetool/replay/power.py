"""The power of a replayed timeline over time: as it is drawn, and as the board's sensor would show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.hardware.sensors import Sensor
from tracetool.measure.filters import sensor_boxes
from tracetool.replay.overlap import SHORTEST_NS
from tracetool.vocabulary.arrays import Floats


@dataclass(frozen=True)
class PowerCurve:
    """Power that is constant between edges, on one device."""

    edge_ns: Floats  # (e + 1,)
    power_w: Floats  # (e,)

    @property
    def energy_j(self) -> float:
        """Its integral. [J]"""
        return float(self.power_w @ np.diff(self.edge_ns)) * 1e-9

    def energy_until(self, time_ns: Floats, before_w: float) -> Floats:
        """Energy from the first edge to each time; outside the curve ``before_w`` is drawn. [J]"""
        total = np.concatenate([[0.0], np.cumsum(self.power_w * np.diff(self.edge_ns))])
        inside = np.interp(time_ns, self.edge_ns, total)
        outside = np.minimum(time_ns - self.edge_ns[0], 0.0) + np.maximum(time_ns - self.edge_ns[-1], 0.0)
        return np.asarray((inside + outside * before_w) * 1e-9)


def power_curve(
    start_ns: Floats, end_ns: Floats, energy_j: Floats, idle_w: float, span_ns: tuple[float, float]
) -> PowerCurve:
    r"""Return the power drawn over time.

    Parameters
    ----------
    start_ns, end_ns : array, shape (n,)
        When each activity runs. [ns]
    energy_j : array, shape (n,)
        What it answers for, its share of the base power included. [J]
    idle_w : float
        Power with nothing running. [W]
    span_ns : (float, float)
        First and last moment of the timeline. [ns]

    Notes
    -----
    Each activity draws its energy evenly over its time, :math:`p_k = E_k / d_k`; the integral is the
    sum of the energies plus the idle power of the gaps. Energies of activities that last no time are
    not shown.
    """
    lasting = end_ns - start_ns > SHORTEST_NS
    start, end, energy = start_ns[lasting], end_ns[lasting], energy_j[lasting]
    watts = energy / ((end - start) * 1e-9)
    moment = np.concatenate([start, end, np.asarray(span_ns)])
    change = np.concatenate([watts, -watts, np.zeros(2)])
    running = np.concatenate([np.ones(len(start)), -np.ones(len(end)), np.zeros(2)])
    order = np.argsort(moment, kind="stable")
    moment, power, crowd = moment[order], np.cumsum(change[order]), np.cumsum(running[order])
    wide = np.diff(moment) > 0
    power = np.where(crowd > 0, np.maximum(power, 0.0), idle_w)[:-1][wide]
    return PowerCurve(np.concatenate([moment[:1], moment[1:][wide]]), power)


def sensor_view(
    curve: PowerCurve, sensor: Sensor, idle_w: float, most: int = 100_000
) -> tuple[Floats, Floats]:
    """Return update times and the readings a sensor would report there.

    Parameters
    ----------
    curve : PowerCurve
        Power drawn; before and after it the device is idle.
    sensor : Sensor
        Update period, window or lag, gain and offset.
    idle_w : float
        Power with nothing running. [W]
    most : int
        Readings at most; a longer timeline is shown at a multiple of the update period.

    Returns
    -------
    time_ns, power_w : array, shape (r,)
        Updates from one period after the first edge to one reach after the last. [ns], [W]
    """
    boxes = sensor_boxes(sensor)
    period = max(sensor.update_s, 1e-6) * 1e9
    first, last = curve.edge_ns[0], curve.edge_ns[-1] + boxes.reach_s * 1e9
    step = period * max(1.0, np.ceil((last - first) / period / most))
    time = first + step * np.arange(1, int((last - first) / step) + 2)
    reading = np.zeros(len(time))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        near = curve.energy_until(time - front * 1e9, idle_w)
        far = curve.energy_until(time - back * 1e9, idle_w)
        reading += weight * (near - far) / (back - front)
    return time, np.asarray(sensor.gain * reading + sensor.offset_w)
