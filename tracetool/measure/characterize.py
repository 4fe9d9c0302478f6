"""A sensor's window, period, lag and delay from the log and the activity alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.number_text import counted
from tracetool.hardware.sensors import Sensor
from tracetool.measure.counter import counter_readings
from tracetool.measure.filter_likelihood import log_likelihoods, respond
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.observe import as_boxcar
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import Readings, resolve_updates, update_period
from tracetool.measure.timeline import Timeline

#: Windows and lags tried: from a tenth of a short window to twice the longest. [s] Priors.
_WINDOWS = np.geomspace(5e-3, 2.2, 56)
_LAGS = np.geomspace(5e-3, 1.6, 40)
#: Offsets between the clocks that are tried. [s] Priors.
_OFFSETS = np.linspace(-0.010, 0.016, 53)
_OFFSET_AT, _OFFSET_SD = 0.002, 0.004
#: Difference in log likelihood from which on one kind of filter is preferred. [1] A prior.
_DECISIVE = 6.0
#: Log odds that a GPU's sensor is of the kind its class states. [1] A prior.
_KIND_PRIOR = 12.0
#: Readings used at most. [readings] For speed.
_MOST_READINGS = 400
#: Ratio of the swing of power to the noise from which on a filter is identifiable. [1] A prior.
_CLEAR = 8.0


@dataclass(frozen=True)
class Estimate:
    """A value and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Characterized:
    """A sensor as identified from its own log."""

    kind: str  # boxcar or lag; "" where the log does not show it
    window_s: Estimate | None
    lag_s: Estimate | None
    update_s: Estimate | None
    offset_s: Estimate  # from activity to reading
    swing: float  # swing of the readings over their noise
    reason: str  # why something is missing

    def sensor(self, nominal: Sensor) -> Sensor:
        """Return the nominal sensor with what was identified."""
        changes: dict[str, float | str] = {}
        if self.kind == "boxcar" and self.window_s is not None:
            changes = {"kind": "boxcar", "window_s": self.window_s.value, "lag_s": 0.0}
        elif self.kind == "lag" and self.lag_s is not None:
            changes = {"kind": "lag", "window_s": float("nan"), "lag_s": self.lag_s.value}
        if self.update_s is not None:
            changes["update_s"] = self.update_s.value
        return replace(nominal, basis="identified", source="this log", **changes) if changes else nominal  # type: ignore[arg-type]


def _best_offsets(
    readings: Readings, timeline: Timeline, nominal: Sensor, *, kind: str, lengths: Floats, offsets: Floats
) -> tuple[Floats, Floats]:
    """Highest log posterior over offsets for each length, and where. Each shape (w,)."""
    value, at = np.empty(len(lengths)), np.empty(len(lengths))
    for i, length in enumerate(lengths):
        if kind == "boxcar":
            sensor = replace(nominal, kind="boxcar", window_s=float(length), lag_s=0.0, delay_s=0.0)
        else:
            sensor = replace(nominal, kind="lag", window_s=float("nan"), lag_s=float(length), delay_s=0.0)
        boxes = sensor_boxes(sensor, readings.jitter_s)
        scores = log_likelihoods(readings, timeline, boxes, offsets)
        scores -= 0.5 * ((offsets - _OFFSET_AT) / _OFFSET_SD) ** 2
        value[i], at[i] = scores.max(), offsets[int(np.argmax(scores))]
    return value, at


def _peak(lengths: Floats, value: Floats) -> Estimate:
    """Weighted mean and interval of a likelihood on a grid."""
    weight = np.exp(value - value.max()) * np.gradient(lengths)
    weight /= weight.sum()
    middle = float(weight @ lengths)
    cell = float(np.interp(middle, lengths, np.gradient(lengths)))
    sd = float(np.sqrt(max(weight @ (lengths - middle) ** 2, 0.0) + cell**2 / 12.0))
    return Estimate(middle, middle - Z90 * sd, middle + Z90 * sd)


def _update_estimate(log: PowerLog, nominal: Sensor) -> Estimate | None:
    """Return the update period, sought at the nominal one first; None where the log does not show it. [s]"""
    period, error, _ = update_period(log.time_s, log.power_w, nominal.update_s)
    if not np.isfinite(period):
        period, error, _ = update_period(log.time_s, log.power_w)
    return Estimate(period, period - Z90 * error, period + Z90 * error) if np.isfinite(period) else None


def _tick_estimate(readings: Readings) -> Estimate | None:
    """Return the time between two ticks of a counter; None where the polls do not show them. [s]"""
    if readings.jitter_s > 0.0:
        return None
    period, error = readings.update_s, readings.update_sd_s
    return Estimate(period, period - Z90 * error, period + Z90 * error)


def _near_best(
    readings: Readings, timeline: Timeline, nominal: Sensor, *, kind: str, lengths: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return lengths near the best of ``lengths``, their log posterior and their best offset. (w,) each."""
    rough, _ = _best_offsets(readings, timeline, nominal, kind=kind, lengths=lengths, offsets=_OFFSETS[::6])
    near = float(lengths[int(np.argmax(rough))]) * np.linspace(0.75, 1.3, 56)
    value, at = _best_offsets(readings, timeline, nominal, kind=kind, lengths=near, offsets=_OFFSETS[::2])
    return near, value, at


def _offset_estimate(value: Floats, at: Floats) -> Estimate:
    """Return the mean of each length's best offset, weighted by posterior, and its interval. [s]"""
    weight = np.exp(value - value.max())
    shift = float(weight @ at / weight.sum())
    spread = float(np.sqrt(weight @ (at - shift) ** 2 / weight.sum()) + np.diff(_OFFSETS)[0])
    return Estimate(shift, shift - Z90 * spread, shift + Z90 * spread)


def characterize(log: PowerLog, timeline: Timeline, nominal: Sensor) -> Characterized:
    """Return the sensor's behavior as the log shows it.

    Parameters
    ----------
    log : PowerLog
        Readings while activity came and went, best a square wave.
    timeline : Timeline
        That activity, on the same host's clock.
    nominal : Sensor
        Where the update period is looked for first.

    Notes
    -----
    Each length of a boxcar and each constant of a lag is scored by how well states of steady power,
    filtered so, explain the readings; the offset between the clocks is the best for each. Gain is
    out of reach: a reading and its activity say nothing of true watts.

    Raises
    ------
    BadInput
        If the log has fewer than ten updates or the timeline is empty.
    """
    if not len(timeline.start_s):
        raise BadInput("no activity to identify the sensor by", "give the load's start and end times")
    if log.field == "counter":
        readings = counter_readings(log, nominal.update_s)
        nominal, update = as_boxcar(nominal, readings), _tick_estimate(readings)
    else:
        update = _update_estimate(log, nominal)
        update_s = nominal.update_s if update is None else update.value
        readings = resolve_updates(log.time_s, log.power_w, update_s)
    if len(readings) < 10:
        raise BadInput(
            f"the log shows only {counted(len(readings), 'update')} of its sensor", "log for longer"
        )
    if len(readings) > _MOST_READINGS:
        first = slice(_MOST_READINGS)
        readings = replace(readings, time_s=readings.time_s[first], power_w=readings.power_w[first])
    scored = {
        kind: _near_best(readings, timeline, nominal, kind=kind, lengths=lengths)
        for kind, lengths in (("boxcar", _WINDOWS), ("lag", _LAGS))
    }
    log_odds = float(scored["boxcar"][1].max() - scored["lag"][1].max())
    log_odds += _KIND_PRIOR if nominal.kind == "boxcar" else -_KIND_PRIOR
    kind = "lag" if log_odds < -_DECISIVE else "boxcar"
    lengths, value, at = scored[kind]
    length_estimate, offset = _peak(lengths, value), _offset_estimate(value, at)
    best = replace(nominal, kind=kind, delay_s=0.0)
    best = (
        replace(best, window_s=length_estimate.value)
        if kind == "boxcar"
        else replace(best, lag_s=length_estimate.value)
    )
    fit = respond(readings, timeline.shifted(offset.value), sensor_boxes(best, readings.jitter_s))
    swing = float(np.ptp(fit.fitted_w)) / max(fit.noise_w, 1e-9)
    reason = ""
    if abs(log_odds) < _DECISIVE:
        reason = "a window and a lag fit the log equally well: a window is assumed"
    if swing < _CLEAR:
        reason = "the readings hardly follow the activity: run a square-wave load"
        return Characterized("", None, None, update, offset, swing, reason)
    if update is None:
        reason = "the log was polled too slowly to identify the update period"
    window, lag = (length_estimate, None) if kind == "boxcar" else (None, length_estimate)
    return Characterized(kind, window, lag, update, offset, swing, reason)
