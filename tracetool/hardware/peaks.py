"""Published peaks of a GPU, separate from the rates the model computes with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracetool.core.errors import BadInput

#: Unit of each kind of published number; every other key is a pipe.
_UNITS: Final[Mapping[str, str]] = {"dram": "GB/s", "bus": "bit", "tdp": "W"}
_PIPE_UNIT: Final = "TFLOP/s"


@dataclass(frozen=True)
class Peak:
    """A published number.

    Parameters
    ----------
    value : float
        Dense rate of a pipe [TFLOP/s], bandwidth [GB/s], width of the memory's bus [bit] or power [W].
    unit, source : str
        Its unit, and the reference that states it.
    clock_mhz : float
        SM clock the maker states the rate at; NaN for the rated boost clock. [MHz]
    step : float
        Step the number is rounded to, where that is coarse against it; 0 otherwise.
    transfers : float
        Bits of a line per memory clock as the driver counts it; for ``bus`` only.
    """

    value: float
    unit: str
    source: str
    clock_mhz: float = math.nan
    step: float = 0.0
    transfers: float = 2.0


def read_peaks(path: str, table: Mapping[str, Any], pipes: tuple[str, ...]) -> Mapping[str, Peak]:
    """Return the published peaks of a GPU's file.

    Parameters
    ----------
    path : str
        Named in errors.
    table : mapping
        The ``[peaks]`` table; may be empty.
    pipes : tuple of str
        Names of the pipes a rate may be stated of.

    Raises
    ------
    BadInput
        If an entry is of no pipe, has no positive value, another unit or no source.
    """
    read = {}
    for key, entry in table.items():
        where = f"peaks.{key}"
        if key not in _UNITS and key not in pipes:
            raise BadInput.in_file(path, f"{where}: no such pipe", f"one of {', '.join((*pipes, *_UNITS))}")
        if not isinstance(entry, Mapping) or not {"value", "unit", "source"} <= entry.keys():
            raise BadInput.in_file(path, f"{where} is not a table with value, unit and source")
        unit = _UNITS.get(key, _PIPE_UNIT)
        if entry["unit"] != unit:
            raise BadInput.in_file(path, f"{where} is in {entry['unit']!r}", f"write it in {unit}")
        numbers = {k: entry[k] for k in ("value", "clock_mhz", "step", "transfers") if k in entry}
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise BadInput.in_file(path, f"{where}: {name} is {value!r}, not a positive number")
        read[key] = Peak(**{k: float(v) for k, v in numbers.items()}, unit=unit, source=str(entry["source"]))
    return read
