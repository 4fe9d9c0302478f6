"""Which sensor a reading came from: classes by architecture and field, boards by model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.sensor import Sensor

_MS = 1e-3
#: Chips of the Ampere generation whose sensor is the data-center one.
_GA100 = ("a100", "a800", "a30")


@cache
def _table() -> Mapping[str, Any]:
    text = Path(__file__).with_name("sensor_classes.toml").read_text("utf-8")
    return tomllib.loads(text)


def sensor_class(name: str) -> Sensor:
    """Return one sensor class by name, with the gain prior of an unknown board.

    Raises
    ------
    BadInput
        If there is no such class.
    """
    found = _table()["classes"].get(name)
    if found is None:
        raise BadInput(f"no sensor class {name!r}", f"known: {', '.join(sorted(_table()['classes']))}")
    boards = _table()["boards"]
    return Sensor(
        name=name,
        update_s=found["update_ms"] * _MS,
        window_s=found["window_ms"] * _MS,
        lag_s=found.get("lag_ms", 0.0) * _MS,
        window_sd=found["window_sd"],
        gain_sd=boards["gain_sd"],
        offset_sd_w=boards["offset_sd_w"],
        source=found["source"],
    )


def field_kind(field: str | None) -> str:
    """Return ``draw``, ``average`` or ``instant`` for a log's field name.

    >>> field_kind("power.draw.instant [W]"), field_kind("average_socket_power"), field_kind(None)
    ('instant', 'average', 'draw')
    """
    low = (field or "").lower()
    if "instant" in low:
        return "instant"
    return "average" if "average" in low else "draw"


def _family(gpu: str | None, architecture: str | None) -> str:
    model = (gpu or "").lower()
    if model.startswith(("mi", "amd", "radeon")):
        return "amd"
    if model.split("-")[0] in _GA100:
        return "ga100"
    low = (architecture or "").lower()
    for key in ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"):
        if key in low:
            return key
    return "amd" if low.startswith(("cdna", "rdna", "gfx", "gcn")) else "unknown"


def _driver_class(family: str, kind: str, driver: str | None) -> list[str] | None:
    major = int(driver.split(".")[0]) if driver and driver.split(".")[0].isdigit() else None
    if major is None or kind != "draw" or family not in {"ampere", "ada"}:
        return None
    return ["windowed-100"] if major == 530 else ["average-1000"]


def candidate_sensors(
    gpu: str | None = None,
    architecture: str | None = None,
    field: str | None = None,
    driver: str | None = None,
) -> list[Sensor]:
    """Return the sensors a reading may come from, likeliest first, never empty.

    Parameters
    ----------
    gpu : str, optional
        The tool's name of the GPU; its board's measured gain is used where known.
    architecture : str, optional
        Architecture as in the GPU file, e.g. ``ampere``.
    field : str, optional
        Field of the log, e.g. ``power.draw.instant``.
    driver : str, optional
        Driver version, e.g. ``530.41.03``: it decides what ``power.draw`` means on GA10x and Ada.

    Notes
    -----
    Where neither is known the list holds every class and the board's gain is 1 with a wide
    uncertainty: the log chooses. Classes after Yang, Adamek and Armour, SC 2024.
    """
    kind = field_kind(field)
    family = _family(gpu, architecture)
    fields = _table()["fields"].get(family, _table()["fields"]["unknown"])
    names = _driver_class(family, kind, driver) or fields.get(kind) or fields["draw"]
    boards = _table()["boards"]
    board = boards["models"].get(gpu or "", {})
    found = []
    for name in names:
        sensor = sensor_class(name)
        if board:
            sensor = replace(
                sensor,
                gain=board["gain"],
                gain_sd=max(board.get("gain_sd", 0.0), boards["gain_sd_floor"]),
                offset_w=board["offset_w"],
                offset_sd_w=board["offset_sd_w"],
                source=f"{sensor.source}; {board['source']}",
            )
            window = board.get(f"{kind}_window_ms")
            if window and not name.startswith("average"):
                sensor = replace(sensor, window_s=window * _MS)
        found.append(sensor)
    return found


def read_sensor_file(path: str | Path) -> dict[str, float]:
    """Read a device's own calibration: ``[sensor]`` with ``gain``, ``offset_w``, ``window_ms``, ...

    Returns
    -------
    dict
        Fields of :class:`Sensor` in its units, only those stated.

    Raises
    ------
    BadInput
        If the file cannot be read, has no ``[sensor]`` or a number that cannot be.
    """
    file = Path(path)
    try:
        raw = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        fault = str(error).splitlines()[0]
        raise BadInput.in_file(file, f"cannot be read as TOML: {fault}", "see docs/attribution.md") from error
    section = raw.get("sensor")
    if not isinstance(section, dict):
        raise BadInput.in_file(file, "has no [sensor] section", "see docs/attribution.md")
    scale = {"update_ms": _MS, "window_ms": _MS, "delay_ms": _MS, "lag_ms": _MS}
    plain = ("gain", "gain_sd", "offset_w", "offset_sd_w", "window_sd")
    out: dict[str, float] = {}
    for key, value in section.items():
        if key not in scale and key not in plain:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
            raise BadInput.in_file(file, f"[sensor] {key} is not a number", "write e.g. gain = 0.95")
        out[key.replace("_ms", "_s")] = float(value) * scale.get(key, 1.0)
    if out.get("gain", 1.0) <= 0.0 or any(v < 0 for k, v in out.items() if k not in {"offset_w", "gain"}):
        raise BadInput.in_file(file, "[sensor] gain, times and deviations must be positive")
    return out
