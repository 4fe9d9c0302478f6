"""Read the coefficients fitted for a GPU: one TOML beside the GPU's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import tomli

from tracetool.core.errors import BadInput
from tracetool.core.paths import small_text
from tracetool.hardware.number import Number, read_number

#: Environment variable that names a folder of the user's own calibrations.
FOLDER_VARIABLE = "TRACETOOL_CALIBRATIONS"


#: Sections and keys of files written before these had the names of today.
_FORMER_SECTIONS: Final = {"reach": "memory_efficiency"}
_FORMER_KEYS: Final = {
    "slab_clk": "k_step_cycles",
    "turn_clk": "transpose_cycles",
    "launch_quantised": "launch_quantized",
    "quantise_factor": "quantize_factor",
    "reach": "efficiency",
}


def key_of_today(key: str) -> str:
    """Return the name of a coefficient today, given the one a file states.

    >>> key_of_today("slab_clk"), key_of_today("dram_reach"), key_of_today("launch_us")
    ('k_step_cycles', 'dram_efficiency', 'launch_us')
    """
    return _FORMER_KEYS.get(key) or re.sub(r"_reach$", "_efficiency", key)


@dataclass(frozen=True)
class CalibrationFile:
    """Numbers of a calibration by section, and its ``[about]``."""

    name: str
    numbers: Mapping[str, Mapping[str, Number]]
    about: Mapping[str, Any] = field(default_factory=dict)
    delivered: bool = False  # with this package, not a user's own

    def section(self, name: str) -> Mapping[str, Number]:
        """Return a section's numbers; empty where the file has none."""
        return self.numbers.get(name, {})


def parse_calibration(name: str, text: str) -> CalibrationFile:
    """Return a calibration from its text, or raise BadInput naming the number that is wrong."""
    try:
        document = tomli.loads(text)
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise BadInput.in_file(name, f"is not TOML: {error}", "give a file of tracetool calibrate") from error
    numbers: dict[str, dict[str, Number]] = {}
    for section, entries in document.items():
        if section == "about":
            continue
        if not isinstance(entries, Mapping):
            raise BadInput.in_file(name, f"{section} stands outside a section")
        numbers[_FORMER_SECTIONS.get(section, section)] = {
            key_of_today(k): read_number(name, f"{section}.{k}", v) for k, v in entries.items()
        }
    about = document.get("about", {})
    return CalibrationFile(name, numbers, about if isinstance(about, Mapping) else {})


def read_calibration(path: str | os.PathLike[str]) -> CalibrationFile:
    """Return a calibration file a user wrote with ``tracetool calibrate``."""
    return parse_calibration(os.fspath(path), small_text(path, "give a file of tracetool calibrate"))


@cache
def own_calibration(gpu: str, kind: str) -> CalibrationFile | None:
    """Return the calibration of a GPU ("power" or "time"), or None.

    A file ``<gpu>.<kind>.toml`` in the folder that ``TRACETOOL_CALIBRATIONS`` names takes the place of
    the one delivered.

    Raises
    ------
    BadInput
        If the file cannot be read.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and (mine := Path(folder) / f"{gpu}.{kind}.toml").is_file():
        return read_calibration(mine)
    file = resources.files(__package__) / "calibrations" / f"{gpu}.{kind}.toml"
    if not file.is_file():
        return None
    return replace(parse_calibration(f"{gpu}.{kind}.toml", file.read_text("utf-8")), delivered=True)


@cache
def calibrated_gpus(kind: str) -> tuple[str, ...]:
    """Return the GPUs a calibration is delivered for, in order."""
    folder = resources.files(__package__) / "calibrations"
    end = f".{kind}.toml"
    if not folder.is_dir():
        return ()
    return tuple(sorted(f.name[: -len(end)] for f in folder.iterdir() if f.name.endswith(end)))


@cache
def shared_calibration(name: str) -> CalibrationFile:
    """Return a calibration that applies to every GPU."""
    text = (resources.files(__package__) / "calibrations" / f"{name}.toml").read_text("utf-8")
    return parse_calibration(f"{name}.toml", text)
