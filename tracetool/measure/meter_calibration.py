"""A GPU's own gain and offset, from its log and a physical meter beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.hardware.sensors import Sensor
from tracetool.measure.counter import counter_readings
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.power_log import PowerLog
from tracetool.measure.readings import query_times, resolve_updates

#: Standard deviation of the offset and the drift of a meter's clock. [s], [1] Priors.
_CLOCK_S, _DRIFT = 0.05, 1.5e-3
#: Blocks of the log and resamples of them: errors of a sensor last for seconds, so single readings are not
#: independent. [1] Settings of the method.
_STRETCHES, _RESAMPLES = 24, 400
#: Errors of gain and offset at least: sensors deviate from a straight line. [1], [W] Priors.
_GAIN_FLOOR, _OFFSET_FLOOR_W = 0.001, 0.1
#: Readings, and range of true power, that determine a gain at least. [1], [W] Priors.
_FEWEST, _LEAST_SWING_W = 12, 5.0
#: Share of the readings' variance that the meter must explain, and range of plausible gains, to detect a
#: meter of another GPU, time or unit. [1] Priors: measured gains were 0.87 to 1.13.
_LEAST_SHARE, _GAINS = 0.5, (0.4, 2.5)


@dataclass(frozen=True)
class MeteredGain:
    """``reading = gain * true + offset_w``; both errors are independent at ``pivot_w``."""

    gain: float
    gain_sd: float
    offset_w: float
    offset_sd_w: float  # of a reading at the pivot
    pivot_w: float  # true power [W]
    clock_s: float  # to add to the meter's time at the log's start [s]
    drift: float  # seconds the meter's clock loses per second [1]
    miss_w: float  # root mean square of what the line leaves [W]
    readings: int


def gain_against(log: PowerLog, sensor: Sensor, meter_s: Floats, meter_w: Floats) -> MeteredGain:
    """Return a GPU's gain and offset.

    Parameters
    ----------
    log : PowerLog
        Its readings, while power went up and down.
    sensor : Sensor
        Window or lag of the field.
    meter_s, meter_w : array, shape (m,)
        True power over time, sampled well inside the sensor's window, on the log's clock to 50 ms. [s], [W]

    Notes
    -----
    Every reading is set against the meter's power as the sensor's filter would have shown it; a straight
    line through both, with the meter's clock placed and stretched so that least is left. Errors come from
    resampled stretches.

    Raises
    ------
    BadInput
        If meter and log share too few readings, power hardly changed, the log does not follow
        the meter, or the meter's clock or unit is another.
    """
    order = np.argsort(meter_s, kind="stable")
    time, power = meter_s[order], meter_w[order]
    query_s = query_times(log.time_s)
    readings = (
        counter_readings(log, sensor.update_s)
        if log.field == "counter"
        else resolve_updates(query_s, log.power_w, sensor.update_s)
    )
    boxes = sensor_boxes(sensor, readings.jitter_s)
    margin = boxes.reach_s + 2.0 * _CLOCK_S
    covered = (readings.time_s > time[0] + margin) & (readings.time_s < time[-1] - 2.0 * _CLOCK_S)
    if covered.sum() < _FEWEST:
        raise BadInput(
            f"the meter covers {counted(int(covered.sum()), 'reading')} of {log.field}",
            "log longer, and check both clocks",
        )
    energy = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(time))])
    at, shown = readings.time_s[covered], readings.power_w[covered]
    span = max(float(np.ptp(at)), 1e-3)

    def metered_w(clock: Floats) -> Floats:
        moved = at - clock[0] - clock[1] * (at - at[0])
        out = np.zeros(len(at))
        for back, front, weight in zip(boxes.back_s, boxes.front_s, boxes.weight, strict=True):
            window_j = np.interp(moved - front, time, energy) - np.interp(moved - back, time, energy)
            out += weight * window_j / (back - front)
        return out

    still = BadInput("power hardly changed while the meter logged", "run a load that varies")
    if float(np.ptp(metered_w(np.zeros(2)))) < _LEAST_SWING_W:
        raise still

    def miss(clock: Floats) -> float:
        true = metered_w(clock)
        line = np.polyfit(true, shown, 1)
        tie = (clock[0] / _CLOCK_S) ** 2 + (clock[1] / _DRIFT) ** 2
        residual_w2 = float(np.mean((shown - np.polyval(line, true)) ** 2))
        return len(at) * float(np.log(residual_w2 + 1e-6)) + float(tie)

    from scipy import optimize  # takes a fifth of a second

    tried = [np.array([c, 0.0]) for c in np.linspace(-_CLOCK_S, _CLOCK_S, 41)]
    start = min(tried, key=miss)
    step = start + np.array([[0.0, 0.0], [2e-3, 0.0], [0.0, 5e-3 / span]])
    clock = optimize.minimize(miss, start, method="Nelder-Mead", options={"initial_simplex": step}).x
    true = metered_w(clock)
    if float(np.ptp(true)) < _LEAST_SWING_W:
        raise still
    return _checked(_line(true, shown, at, clock), shown, log.field)


def _checked(gain_fit: MeteredGain, shown: Floats, field: str) -> MeteredGain:
    """Return a fit that is plausible; raise BadInput where log and meter do not belong together."""
    if not gain_fit.miss_w**2 < (1.0 - _LEAST_SHARE) * float(np.var(shown)):
        raise BadInput(f"{field} does not follow the meter", "check that both are of the same GPU and time")
    if not _GAINS[0] < gain_fit.gain < _GAINS[1]:
        raise BadInput(
            f"{field} would show {gain_fit.gain:.3g} of the meter's power",
            "give the GPU's power_w in watts",
        )
    if abs(gain_fit.clock_s) > 2.0 * _CLOCK_S:
        raise BadInput(
            f"the meter's clock would be {gain_fit.clock_s * 1e3:+.0f} ms off {field}",
            "set it right to 50 ms",
        )
    return gain_fit


def _line(true: Floats, shown: Floats, at: Floats, clock: Floats) -> MeteredGain:
    """A straight line through readings and true power, with errors from resampled stretches."""
    gain, offset = np.polyfit(true, shown, 1)
    stretch = np.minimum(
        ((at - at[0]) / max(float(np.ptp(at)), 1e-9) * _STRETCHES).astype(int), _STRETCHES - 1
    )
    sums = np.stack(
        [
            np.bincount(stretch, column, _STRETCHES)
            for column in (np.ones(len(at)), true, true**2, shown, true * shown)
        ]
    )
    random = np.random.default_rng(0)
    n, column, xx, y, xy = (
        sums @ random.multinomial(_STRETCHES, np.full(_STRETCHES, 1 / _STRETCHES), _RESAMPLES).T
    )
    spread = n * xx - column**2
    good = spread > 0.01 * np.median(spread)
    gains = (n * xy - column * y)[good] / spread[good]
    offsets = (y[good] - gains * column[good]) / n[good]
    between = np.cov(gains, offsets)
    pivot = float(np.clip(-between[0, 1] / max(between[0, 0], 1e-12), 0.0, true.max()))
    residual_w = np.std(offsets + gains * pivot)
    return MeteredGain(
        float(gain),
        float(np.hypot(np.std(gains), _GAIN_FLOOR)),
        float(offset),
        float(np.hypot(residual_w, _OFFSET_FLOOR_W)),
        pivot,
        float(clock[0]),
        float(clock[1]),
        float(np.sqrt(np.mean((shown - gain * true - offset) ** 2))),
        len(shown),
    )
