"""Attribute one device: the energy of each class of its work, from its own readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.measure.attributed_work import Work, check_overlap, expected_power
from tracetool.measure.class_energy import ClassEnergy, attribute_classes
from tracetool.measure.counter import check_counter
from tracetool.measure.energy_tables import (
    attribution_notes,
    class_notes,
    energy_table,
    prior_note,
    with_throttled,
)
from tracetool.measure.observe import Observation, observe
from tracetool.measure.power_log import power_logs
from tracetool.measure.sensors import calibrated, candidate_sensors
from tracetool.measure.throttled_share import moved_by_clock, throttle_log, throttle_note
from tracetool.measure.windows import WindowEnergy, window_energy

_NS = 1e-9


@dataclass(frozen=True)
class LoggedDevice:
    """A device of the log and of the trace, and the GPU that it is."""

    logged: int  # its number in the log
    device: int  # its number in the trace
    gpu: Gpu | None


@dataclass(frozen=True)
class DeviceAttribution:
    """Measured energy of one device's work."""

    energy: pl.DataFrame  # one row per class
    notes: tuple[str, ...]
    class_notes: tuple[str, ...]  # those of the notes that speak of classes
    observation: Observation
    classes: ClassEnergy
    expected_w: Floats | None  # of each class by the prior, where one was given
    windows: WindowEnergy | None
    throttled: Mapping[str, Any] = field(default_factory=dict)


def attribute_device(
    telemetry: pl.DataFrame,
    work: Work,
    where_logged: LoggedDevice,
    *,
    origin_ns: int,
    windows: pl.DataFrame | None,
    prior: Mapping[int | str, float],
    sensor_values: dict[str, float],
    source: str,
) -> DeviceAttribution:
    """Return the measured energy of each class of a device's work.

    Parameters
    ----------
    telemetry : DataFrame
        Readings of all devices.
    work : Work
        What ran on this one.
    where_logged : LoggedDevice
        Its numbers in log and trace, and its GPU.
    origin_ns : int
        Time that seconds are counted from. [ns]
    windows : DataFrame or None
        Windows whose energy is asked: ``start_us``, ``end_us``.
    prior : mapping
        Expected power by signature or name [W]; empty where none is given.
    sensor_values : dict
        What a calibration of this very GPU's sensor states, as :func:`read_sensor_file` returns it.
    source : str
        The file that errors name.

    Raises
    ------
    BadInput
        If log and work do not overlap, or the prior names nothing that ran.
    """
    logged, device, gpu = where_logged.logged, where_logged.device, where_logged.gpu
    log = power_logs(telemetry, logged, origin_ns)[0]
    check_overlap(work, log, origin_ns, source)
    likely = [calibrated(sensor, sensor_values) for sensor in candidate_sensors(gpu, log.field, None)]
    observation = observe(log, work.timeline(origin_ns), likely)
    limit_w = gpu.power_limit_w if gpu is not None else np.nan
    counted = check_counter(log)
    if counted is not None and counted.ratio is None and not counted.usable:
        raise BadInput.in_file(source, f"has no power, and {counted.sentence()}", "log power, or again")
    expected_w = expected_power(work, prior)
    if expected_w is None and prior:
        raise BadInput.in_file(source, "runs nothing that the prior names", "give predictions of this run")
    classes = attribute_classes(
        observation,
        expected_w=expected_w,
        limit_w=limit_w,
        counter=log if counted is not None and counted.usable else None,
        unsteady=moved_by_clock(telemetry, logged, origin_ns, observation.timeline),
        copies=work.copies,
    )
    notes = [] if expected_w is None else [prior_note(expected_w, classes)]
    energy = energy_table(work, classes, device)
    throttled: Mapping[str, Any] = {}
    if (throttle := throttle_log(telemetry, logged, origin_ns, limit_w)) is not None:
        energy, throttled = with_throttled(energy, work, throttle, observation)
        if throttled:
            notes.append(throttle_note(throttled, device, throttle))
    of_classes = class_notes(classes)
    notes += [*attribution_notes(observation, gpu), *of_classes]
    if counted is not None:
        notes.append(counted.sentence())
    return DeviceAttribution(
        energy, tuple(notes), tuple(of_classes), observation, classes, expected_w,
        None if windows is None else _window_energy(windows, observation, classes, origin_ns), throttled,
    )  # fmt: skip


def _window_energy(
    windows: pl.DataFrame, observation: Observation, classes: ClassEnergy, origin_ns: int
) -> WindowEnergy:
    start_s, end_s = (
        (windows[column].to_numpy() * 1000 - origin_ns) * _NS for column in ("start_us", "end_us")
    )
    return window_energy(observation, start_s, end_s, classes)
