"""A log brought together with a timeline: the sensor behind it, its readings and where they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.hardware.sensors import Sensor
from tracetool.measure.align import Alignment, align
from tracetool.measure.filters import Boxes, sensor_boxes
from tracetool.measure.levels import Levels, fit_levels
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings, poll_spacing, resolve_updates
from tracetool.measure.response import respond
from tracetool.measure.timeline import Timeline
from tracetool.vocabulary.errors import BadInput

#: Readings used to find the offset: more would only take longer.
_MOST = 400
#: A logger stamps a line, then asks the driver: the value is this much younger than its stamp, or half
#: the time between lines where that is less. 3 to 6 ms on `nvidia-smi` logs of boards on a meter. [s]
READ_S = 0.003
#: Power at the board's input follows activity by this much: regulators and input filter smooth it. [s]
LAG_S = 0.002
#: Two stamps of one host clock differ by what reading the sensor takes and by the launch. [s]
CLOCK_SD_S = 0.004


@dataclass(frozen=True)
class Observation:
    """What a log says of one device, on the log's clock."""

    field: str
    sensor: Sensor
    readings: Readings
    boxes: Boxes
    alignment: Alignment
    timeline: Timeline  # moved to the log

    def levels(self, offset_s: float = 0.0) -> Levels:
        """Return the levels of power over time, the timeline moved by ``offset_s`` more. [s]"""
        return fit_levels(self.readings, self.timeline.shifted(offset_s), self.boxes)


def busiest_part(readings: Readings, timeline: Timeline, most: int = _MOST) -> Readings:
    """Return at most ``most`` readings in a row, where activity comes and goes most."""
    if len(readings) <= most:
        return readings
    edges = timeline.busy(readings.time_s)
    change = np.abs(np.diff(np.diff(edges, prepend=edges[0]), prepend=0.0))
    total = np.concatenate([[0.0], np.cumsum(change)])
    first = int(np.argmax(total[most:] - total[:-most]))
    part = slice(first, first + most)
    return replace(readings, time_s=readings.time_s[part], power_w=readings.power_w[part])


def observe(
    log: PowerLog,
    timeline: Timeline,
    sensors: list[Sensor],
    *,
    prior_sd_s: float = CLOCK_SD_S,
    around_s: float = LAG_S,
) -> Observation:
    """Return what a log says of a device.

    Parameters
    ----------
    log : PowerLog
        At least three readings.
    timeline : Timeline
        Activity of the device, its clock near the log's.
    sensors : list of Sensor
        Candidates, likeliest first; the log chooses where it can.
    prior_sd_s, around_s : float
        How far, and about where, the two clocks may lie apart. [s]

    Raises
    ------
    BadInput
        If the log holds too few readings to tell anything.
    """
    if len(log.time_s) < 3:
        raise BadInput(
            f"the power log has {len(log.time_s)} readings", "log for longer than the sensor's update period"
        )
    sensor = sensors[0]
    asked = log.time_s + min(READ_S, 0.5 * poll_spacing(np.sort(log.time_s)))
    readings = resolve_updates(asked, log.power_w, sensor.update_s)
    if len(readings) < 3:
        raise BadInput(
            "the power log shows fewer than three updates of its sensor", "log for longer than a second"
        )
    boxes = sensor_boxes(sensor, readings.jitter_s)
    if not len(timeline.start_s):
        fixed = Alignment(0.0, prior_sd_s, np.zeros(1), np.ones(1))
        return Observation(log.field, sensor, readings, boxes, fixed, timeline)
    part = busiest_part(readings, timeline)
    found = align(
        lambda x: fit_levels(part, timeline.shifted(x), boxes).log_likelihood,
        quick=lambda x: respond(part, timeline.shifted(x), boxes).log_likelihood,
        around_s=around_s,
        prior_sd_s=prior_sd_s,
    )
    return Observation(log.field, sensor, readings, boxes, found, timeline.shifted(found.offset_s))
