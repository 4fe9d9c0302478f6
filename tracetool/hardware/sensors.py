"""Power sensors: how the number a driver reports relates to the power drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import tomli

from tracetool.core.errors import BadInput
from tracetool.hardware.architecture import SensorRow, load_architecture

#: Names drivers and tools give the same reading.
FIELDS: Mapping[str, str] = {
    "draw": "draw", "power": "draw", "power.draw": "draw", "power_w": "draw", "": "draw",
    "average": "average", "power.draw.average": "average", "average_socket_power": "average",
    "instant": "instant", "power.draw.instant": "instant", "current_socket_power": "instant",
    "counter": "counter", "energy": "counter", "total_energy_consumption": "counter",
}  # fmt: skip
#: Names of a reading that do not say which one it is: an average, or the instant one.
UNNAMED_FIELDS = frozenset(("", "power", "power_w"))
#: The NVIDIA driver that alone let ``power.draw`` show the fast reading (Yang et al., SC24).
FAST_DRAW_DRIVER = 530


@dataclass(frozen=True)
class Sensor:
    r"""Sensor behind one power field.

    A ``boxcar`` reports the mean over the last ``window_s``; a ``lag`` a first-order
    filter of time constant ``lag_s``; a ``counter`` an energy that moves every
    ``update_s``. The report is ``gain * true + offset_w``, held until the next update.
    """

    field: str  # draw, average, instant or counter
    kind: str  # boxcar, lag or counter
    update_s: float
    window_s: float  # NaN for a lag
    lag_s: float  # 0 for a boxcar
    delay_s: float  # from the end of the window to the report
    gain: float
    gain_sd: float
    offset_w: float
    offset_sd_w: float
    basis: str  # "measured" on GPUs of this kind, else "prior"
    source: str
    window_sd_s: float = 0.0  # how far windows of such GPUs differ
    pivot_w: float = 0.0  # true power at which the errors of gain and offset are independent

    @property
    def coverage(self) -> float:
        """Share of the time that any reading sees, at most 1."""
        if self.kind != "boxcar":
            return 1.0
        return min(1.0, self.window_s / self.update_s)


@cache
def _classes() -> dict[str, Any]:
    return tomli.loads((resources.files(__package__) / "sensors.toml").read_text("utf-8"))


def driver_major(driver: str | None) -> int | None:
    """Return the leading number of a driver version, or None.

    >>> driver_major("525.105.17"), driver_major(None), driver_major("[N/A]")
    (525, None, None)
    """
    match = re.match(r"\s*(\d{2,4})(?:\.|\s*$)", driver or "")
    return int(match.group(1)) if match else None


def sensor_of(
    architecture: str,
    power_field: str = "draw",
    driver: str | None = None,
    override: Mapping[str, float] | None = None,
) -> Sensor:
    """Return the sensor behind a power field of an architecture.

    Parameters
    ----------
    architecture : str
        Architecture of the GPU, as in its file ("ampere-ga100", "hopper", ...).
    power_field : str
        Field as the log names it: ``power.draw``, ``power.draw.instant``, ``average``, ``counter``, ...
    driver : str, optional
        Driver version; ``power.draw`` means different readings on different drivers. Unknown
        is taken as newer than the change.
    override : mapping, optional
        What was measured on this very GPU: ``window_ms``, ``update_ms``, ``lag_ms``, ``gain``,
        ``offset_w``, ``gain_sd``, ``offset_sd_w``.

    Raises
    ------
    BadInput
        If the field or the architecture is not known.
    """
    name = FIELDS.get(power_field.strip().lower().removesuffix("[w]").strip())
    if name is None:
        raise BadInput(f"no power field called {power_field!r}", f"one of {', '.join(sorted(FIELDS)[1:])}")
    rows = load_architecture(architecture).sensors
    chosen = name
    if name == "draw" and driver_major(driver) == FAST_DRAW_DRIVER and "draw_530" in rows:
        chosen = "draw_530"
    return _on_gpu(_of_class(name, rows.get(chosen) or rows["draw"]), override or {})


def unnamed_sensors(power_field: str) -> list[Sensor]:
    """Return the sensors a field may come from where no GPU is named, likeliest first.

    Parameters
    ----------
    power_field : str
        ``draw``, ``average``, ``instant`` or ``counter``.
    """
    rows = _classes()["unnamed"][power_field]
    return [_of_class(r["field"], SensorRow(r["class"], r["kind"], r["source"])) for r in rows]


def _of_class(power_field: str, row: SensorRow) -> Sensor:
    entry = _classes()["class"][row.sensor_class]
    return Sensor(
        field=power_field,
        kind=entry["kind"],
        update_s=entry["update_ms"] / 1e3,
        window_s=entry.get("window_ms", math.nan) / 1e3,
        lag_s=entry.get("lag_ms", 0.0) / 1e3,
        delay_s=entry.get("delay_ms", 0.0) / 1e3,
        gain=1.0,
        gain_sd=entry["gain_sd"],
        offset_w=0.0,
        offset_sd_w=entry["offset_sd_w"],
        basis=row.kind,
        source=row.source,
        window_sd_s=entry.get("window_sd_ms", 0.0) / 1e3,
    )


def _on_gpu(sensor: Sensor, known: Mapping[str, float]) -> Sensor:
    """Replace class values by what was measured on the GPU; a window only where it is the same reading."""
    fields: dict[str, Any] = {}
    if "gain" in known:
        fields |= {"gain": known["gain"], "gain_sd": known.get("gain_sd", 0.02), "basis": "measured"}
    if "offset_w" in known:
        fields |= {"offset_w": known["offset_w"], "offset_sd_w": known.get("offset_sd_w", 3.0)}
    slow = sensor.window_s > 0.5
    if "window_ms" in known and sensor.kind == "boxcar" and not slow:
        fields |= {"window_s": known["window_ms"] / 1e3, "basis": "measured"}
    if "update_ms" in known and sensor.kind != "counter":
        fields["update_s"] = known["update_ms"] / 1e3
    if "lag_ms" in known and sensor.kind == "lag":
        fields |= {"lag_s": known["lag_ms"] / 1e3, "basis": "measured"}
    return replace(sensor, **fields) if fields else sensor
