"""The power of a replayed timeline over time: as it is drawn, and as the GPU's sensor would show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.hardware.sensors import Sensor
from tracetool.measure.filters import sensor_boxes
from tracetool.replay.overlap import LEAST_ACTIVE, SLOWEST, Rates, in_time_order


@dataclass(frozen=True)
class PowerCurve:
    """Power that is constant between edges, on one device."""

    edge_ns: Floats  # (e + 1,)
    power_w: Floats  # (e,)

    @property
    def energy_j(self) -> float:
        """Integral of the power. [J]"""
        return float(self.power_w @ np.diff(self.edge_ns)) * 1e-9

    def energy_until(self, time_ns: Floats, before_w: float) -> Floats:
        """Energy from the first edge to each time; outside the curve ``before_w`` is drawn. [J]"""
        total = np.concatenate([[0.0], np.cumsum(self.power_w * np.diff(self.edge_ns))])
        inside = np.interp(time_ns, self.edge_ns, total)
        outside = np.minimum(time_ns - self.edge_ns[0], 0.0) + np.maximum(time_ns - self.edge_ns[-1], 0.0)
        return np.asarray((inside + outside * before_w) * 1e-9)


def power_curve(
    start_ns: Floats,
    end_ns: Floats,
    signature: Numbers,
    rates: Rates,
    *,
    idle_w: float,
    span_ns: tuple[float, float],
    members: Ints | None = None,
    cap_w: float = np.inf,
    weight: Floats | None = None,
) -> PowerCurve:
    r"""Return the power one device draws over time.

    Parameters
    ----------
    start_ns, end_ns : array, shape (n,)
        When each activity runs. [ns]
    signature : array of int, shape (n,)
        Row of each activity in ``rates``.
    rates : Rates
        Power of each signature.
    idle_w : float
        Power with nothing running. [W]
    span_ns : (float, float)
        First and last moment of the timeline. [ns]
    members : array of int, optional
        Activities of this device; by default all. Those that last no time are not shown.
    cap_w : float
        Power limit: above it the shared clock falls. [W]
    weight : array, shape (s,), optional
        Factor on each signature's power by counts, by :func:`count_weights`; by default one.

    Notes
    -----
    At every moment what :func:`tracetool.replay.overlap.share` shares out, in the symbols there,

    .. math:: P = \frac{\sum a_k P_{base,k}}{\sum a_k}
              + v \left( \frac{\sum P_{clock,k}}{\max(1, \sum a_k)} + \sum w_k P_{counts,k} \right)

    so no moment draws more than the cap, and the integral is the energy of kernels and gaps.
    """
    begins, ends = in_time_order(start_ns, end_ns, members)
    edge, power = np.empty(2 * len(begins) + 2), np.empty(2 * len(begins) + 1)
    used = compiled(_moments, 2 * len(begins))(
        begins,
        ends,
        start_ns,
        end_ns,
        signature,
        np.maximum(rates.active, LEAST_ACTIVE),
        rates.base_w,
        rates.clock_w,
        rates.counts_w,
        rates.counts_w * (1.0 if weight is None else weight),
        float(cap_w),
        float(idle_w),
        float(span_ns[0]),
        float(span_ns[1]),
        edge,
        power,
    )
    return PowerCurve(edge[: used + 1], power[:used])


def count_weights(done_ns: Floats, counted: Floats, signature: Numbers, rates: Rates) -> Floats:
    """Return the factor from each signature's power by counts to its energy by counts.

    One, unless its activities were slowed or waited inside their time. Shape (s,). [1]

    Parameters
    ----------
    done_ns : array, shape (n,)
        Time at full speed that each activity's time is worth. [ns]
    counted : array, shape (n,)
        Share of its energy by counts that each activity draws. [1]
    signature : array of int, shape (n,)
        Row of each activity in ``rates``.
    rates : Rates
        Power of each signature.
    """
    s = len(rates.active)
    drawn = rates.counts_w * np.bincount(signature, weights=done_ns, minlength=s) * 1e-9
    energy = rates.counts_j * np.bincount(signature, weights=counted, minlength=s)
    return np.divide(energy, drawn, out=np.zeros(s), where=drawn > 0)


def scaled_to(curves: Mapping[int, PowerCurve], energy_j: float, idle_w: float) -> dict[int, PowerCurve]:
    """Return curves whose integrals add up to an energy, scaled above the idle power.

    Parameters
    ----------
    curves : mapping of int to PowerCurve
        By device.
    energy_j : float
        Energy of all of them. [J]
    idle_w : float
        Power with nothing running. [W]
    """
    idle_j = sum(idle_w * float(c.edge_ns[-1] - c.edge_ns[0]) * 1e-9 for c in curves.values())
    above = sum(c.energy_j for c in curves.values()) - idle_j
    factor = (energy_j - idle_j) / above if above > 0 and energy_j > idle_j else 1.0
    return {d: PowerCurve(c.edge_ns, idle_w + (c.power_w - idle_w) * factor) for d, c in curves.items()}


def _moments(
    begins: Ints,
    ends: Ints,
    start: Floats,
    end: Floats,
    signature: Numbers,
    active: Floats,
    base: Floats,
    clock: Floats,
    counts: Floats,
    shown: Floats,
    cap: float,
    idle: float,
    now: float,
    last: float,
    edge: Floats,
    power: Floats,
) -> int:
    """Write the edges between moments and the power of each; return how many moments there are."""
    n = len(begins)
    a = b = running = used = 0
    sum_active = sum_base = sum_clock = sum_counts = sum_shown = 0.0
    edge[0] = now
    while b < n:
        starts = a < n and start[begins[a]] < end[ends[b]]
        i = begins[a] if starts else ends[b]
        moment = start[i] if starts else end[i]
        if moment > now:
            drawn = idle
            if running > 0:
                floor = sum_base / sum_active
                crowd = max(1.0, sum_active)
                moved = sum_clock / crowd + sum_counts
                over = floor + moved > cap and moved > 0.0
                speed = max((cap - floor) / moved, SLOWEST) if over else 1.0
                drawn = floor + speed * (sum_clock / crowd + sum_shown)
            power[used] = drawn
            used += 1
            edge[used] = moment
            now = moment
        s = signature[i]
        sign = 1.0 if starts else -1.0
        a, b = (a + 1, b) if starts else (a, b + 1)
        running += 1 if starts else -1
        sum_active = 0.0 if running == 0 else sum_active + sign * active[s]
        sum_base = 0.0 if running == 0 else sum_base + sign * active[s] * base[s]
        sum_clock = 0.0 if running == 0 else sum_clock + sign * clock[s]
        sum_counts = 0.0 if running == 0 else sum_counts + sign * counts[s]
        sum_shown = 0.0 if running == 0 else sum_shown + sign * shown[s]
    if last > now or not used:
        power[used] = idle
        used += 1
        edge[used] = max(last, now)
    return used


#: Readings shown at most; a longer timeline is shown at a multiple of the update period.
_MOST_READINGS = 100_000


def sensor_view(curve: PowerCurve, sensor: Sensor, idle_w: float) -> tuple[Floats, Floats]:
    """Return update times and the readings a sensor would report there.

    Parameters
    ----------
    curve : PowerCurve
        Power drawn; before and after it the device is idle.
    sensor : Sensor
        Update period, window or lag, gain and offset.
    idle_w : float
        Power with nothing running. [W]

    Returns
    -------
    time_ns, power_w : array, shape (r,)
        Updates from one period after the first edge to one reach after the last. [ns], [W]
    """
    boxes = sensor_boxes(sensor)
    period = max(sensor.update_s, 1e-6) * 1e9
    first, last = curve.edge_ns[0], curve.edge_ns[-1] + boxes.reach_s * 1e9
    step = period * max(1.0, np.ceil((last - first) / period / _MOST_READINGS))
    time = first + step * np.arange(1, int((last - first) / step) + 2)
    reading = np.zeros(len(time))
    for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
        near = curve.energy_until(time - front * 1e9, idle_w)
        far = curve.energy_until(time - back * 1e9, idle_w)
        reading += weight * (near - far) / (back - front)
    return time, np.asarray(sensor.gain * reading + sensor.offset_w)
