"""Which sensors a log's field may come from, likeliest first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tomli

from tracetool.core.errors import BadInput
from tracetool.core.paths import small_text
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.sensors import FIELDS, UNNAMED_FIELDS, Sensor, unnamed_sensors

_MS = 1e-3
#: One or two GPUs of a model were put on a meter: another GPU's gain differs by at least this. GPUs
#: of one model predict each other to 4 % (A5000), 2 % (2080 Ti, 2060 Super), 1.5 % (3090) and 0.05 % (P100):
#: 2.3 % as a root mean square over models, 1.8 % over GPUs. Models predict each other to 7 % in gain, to
#: 6 % in power at load, for high gains come with low offsets: what the classes state.
GPU_TO_GPU_GAIN_SD = 0.02
#: A "one second" reading is, on an RTX 3090's log, the mean of its last eleven readings of 100 ms (to
#: 0.05 W at the median; ten or twelve miss by 0.2 W), and a meter beside it says 1.10 s as well. Makers
#: say one second: the log chooses between the two. [s]
_SECOND_S, ELEVEN_S = 1.0, 1.1
#: Time constant a capacitor sensor starts from; the log refines it. [s]
LAG_START_S = 0.06
#: Fields as logs spell them.
_KNOWN = {"instant": "instant", "average": "average"}


def field_kind(field: str | None) -> str:
    """Return ``draw``, ``average`` or ``instant`` for a log's field name.

    >>> field_kind("power.draw.instant [W]"), field_kind("average_socket_power"), field_kind(None)
    ('instant', 'average', 'draw')
    """
    low = (field or "").strip().lower()
    if low in FIELDS and FIELDS[low] != "counter":
        return FIELDS[low]
    return next((kind for word, kind in _KNOWN.items() if word in low), "draw")


def is_unnamed(field: str | None) -> bool:
    """Return whether a log's column does not say which reading it holds.

    >>> is_unnamed("power_w"), is_unnamed("power.draw")
    (True, False)
    """
    return (field or "").strip().lower() in UNNAMED_FIELDS


def _unknown(kind: str) -> list[Sensor]:
    """Sensors of the architectures, for an unnamed GPU: wide gain, the log chooses."""
    sensors = [replace(s, lag_s=LAG_START_S) if s.kind == "lag" else s for s in unnamed_sensors(kind)]
    return _seconds(sensors)


def _capacitors() -> list[Sensor]:
    """Return the capacitor sensors: those of the first Kepler GPUs update faster, and the log decides."""
    return [s for s in _unknown("draw") if s.kind == "lag"]


def candidate_sensors(gpu: Gpu | None, field: str | None = None, driver: str | None = None) -> list[Sensor]:
    """Return the sensors a reading may come from, likeliest first, never empty.

    Parameters
    ----------
    gpu : Gpu, optional
        The GPU; its measured gain is used where known. Without it every class is a candidate and
        the gain is 1 with the widest uncertainty.
    field : str, optional
        Field of the log, e.g. ``power.draw.instant``.
    driver : str, optional
        Driver version, e.g. ``530.41.03``: it decides what ``power.draw`` means on GA10x and Ada.

    Notes
    -----
    Where the driver is not known ``power.draw`` of GA10x and Ada may be the one second average or
    the fast reading, and a capacitor's update period 15 or 100 ms: the log chooses, as between the average
    and the instant reading where its column names neither (``power_w``). Classes after
    Yang, Adamek and Armour, "Part-time Power Measurements", SC 2024.
    """
    if (field or "").strip().lower() == "counter":
        candidate = gpu.sensor("counter", driver) if gpu is not None else unnamed_sensors("counter")[0]
        return [replace(candidate, gain_sd=max(candidate.gain_sd, GPU_TO_GPU_GAIN_SD))]
    kind = field_kind(field)
    if gpu is None:
        return _unknown(kind)
    first = gpu.sensor(kind, driver)
    if first.kind == "lag" and first.update_s > 0.01:
        likely = [
            replace(first, lag_s=candidate.lag_s, update_s=candidate.update_s) for candidate in _capacitors()
        ]
    elif kind == "draw" and driver is None:
        older_driver = gpu.sensor(kind, "530")
        likely = [first] if older_driver.window_s == first.window_s else [first, older_driver]
    else:
        likely = [first]
    if is_unnamed(field) and gpu.sensor("instant", driver).window_s < first.window_s:
        likely = [*likely, gpu.sensor("instant", driver)]
    return [replace(s, gain_sd=max(s.gain_sd, GPU_TO_GPU_GAIN_SD)) for s in _seconds(likely)]


def _seconds(likely: list[Sensor]) -> list[Sensor]:
    """Put the mean of eleven readings before every nominal second."""
    out = []
    for s in likely:
        nominal = s.kind == "boxcar" and s.window_s == _SECOND_S
        out += [replace(s, window_s=ELEVEN_S), s] if nominal else [s]
    return out


#: Least update or window that a sensor file may state [ms], and least of any other number. A prior: sensors
#: update 20,000 times a second at most.
_LEAST_MS, _LEAST = 0.01, 1e-6


def read_sensor_file(path: str | Path) -> dict[str, float]:
    """Read a device's own calibration: ``[sensor]`` with ``gain``, ``offset_w``, ``window_ms``, ...

    Returns
    -------
    dict
        Fields of ``hardware.sensors.Sensor`` in its units, only those stated.

    Raises
    ------
    BadInput
        If the file cannot be read, has no ``[sensor]`` or a number that cannot be.
    """
    file = Path(path)
    try:
        raw = tomli.loads(small_text(file, "give a sensor's calibration: see docs/attribution.md"))
    except (ValueError, RecursionError) as error:
        fault = (str(error).splitlines() or ["unreadable"])[0]
        raise BadInput.in_file(file, f"cannot be read as TOML: {fault}", "see docs/attribution.md") from error
    section = raw.get("sensor")
    if not isinstance(section, dict):
        raise BadInput.in_file(file, "has no [sensor] section", "see docs/attribution.md")
    times = ("update_ms", "window_ms", "delay_ms", "lag_ms")
    plain = ("gain", "gain_sd", "offset_w", "offset_sd_w", "pivot_w")
    out: dict[str, float] = {}
    for key, value in section.items():
        if key not in times and key not in plain:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
            raise BadInput.in_file(file, f"[sensor] {key} is not a number", "write e.g. gain = 0.95")
        least = _LEAST_MS if key in {"update_ms", "window_ms"} else _LEAST
        if abs(value) < least and (value != 0.0 or key == "update_ms"):
            raise BadInput.in_file(file, f"[sensor] {key} is {value:g}, less than of any sensor")
        out[key.replace("_ms", "_s")] = float(value) * (_MS if key in times else 1.0)
    if out.get("gain", 1.0) <= 0.0 or any(v < 0 for k, v in out.items() if k not in {"offset_w", "gain"}):
        raise BadInput.in_file(file, "[sensor] gain, times and deviations must be positive")
    if not out:
        raise BadInput.in_file(file, "[sensor] states nothing", f"give some of {', '.join(times + plain)}")
    return out


def calibrated(sensor: Sensor, stated: dict[str, float]) -> Sensor:
    """Return the sensor with what a calibration file states; an unstated gain error is 1 %."""
    if not stated:
        return sensor
    extra = dict(stated)
    if "gain" in extra:
        extra.setdefault("gain_sd", 0.01)
    if "offset_w" in extra or "gain" in extra:
        extra.setdefault("offset_sd_w", 1.0)
    if "window_s" in extra:
        extra["window_sd_s"] = 0.0  # measured on this very GPU
    kind = "lag" if extra.get("lag_s") else "boxcar" if extra.get("window_s") else sensor.kind
    return replace(sensor, kind=kind, basis="measured", source="calibration file", **extra)  # type: ignore[arg-type]
