"""A GPU with some of its numbers changed, for questions about hardware that is not built."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import SECTIONS, build_gpu, gpu_document, load_gpu

#: Other units a number may be given in, by its own: ending of the name, and what one is in the own unit.
_UNITS: Final = {
    "B/s": ("_bytes_per_s", {"_gbs": 1e9, "_gb_per_s": 1e9, "_tbs": 1e12}),
    "B": ("_bytes", {"_mib": 2.0**20, "_gib": 2.0**30, "_gb": 1e9}),
}
#: Factors of the sheet's number beyond which a value is taken for a slip of the pen. [1]
_FARTHEST: Final = 100.0
_NEAREST: Final = 5
#: Numbers that bound another: one that is changed alone takes the other with it.
_BOUNDS: Final = (("clock_boost_mhz", "clock_max_mhz"), ("power_limit_w", "power_limit_max_w"))


@dataclass(frozen=True)
class Change:
    """A number as it was changed. ``name`` is the sheet's."""

    name: str
    value: float
    sheet: float
    unit: str


def setting_names(gpu: Gpu) -> dict[str, tuple[str, float]]:
    """Return every name a number can be given by, with the sheet's name and the factor to its unit.

    >>> setting_names(load_gpu("h100-sxm"))["dram_gbs"]
    ('dram_bytes_per_s', 1000000000.0)
    """
    names: dict[str, tuple[str, float]] = {}
    for name, number in gpu.numbers.items():
        if name.startswith("sensor_"):
            continue
        names[name] = (name, 1.0)
        ending, units = _UNITS.get(number.unit, ("", {}))
        if ending and name.endswith(ending):
            names |= {name.removesuffix(ending) + short: (name, scale) for short, scale in units.items()}
    return names


def changes_of(gpu: Gpu, values: Mapping[str, float]) -> tuple[Change, ...]:
    """Return the numbers of a GPU that values change; those equal to the sheet's change nothing.

    Parameters
    ----------
    gpu : Gpu
        The GPU as it is built.
    values : mapping
        Value by name: a field of the GPU's sheet, or one of its spellings in another unit.

    Raises
    ------
    BadInput
        If a name is not known (the nearest are listed), or a value is not positive or far from the sheet's.
    """
    names = setting_names(gpu)
    changes: dict[str, Change] = {}
    for given, value in values.items():
        if given not in names:
            near = difflib.get_close_matches(given[:60], names, n=_NEAREST, cutoff=0.3)
            raise BadInput(
                f"set: {gpu.name} has no number {given[:60]!r}",
                f"nearest: {', '.join(near or sorted(names))}",
            )
        name, scale = names[given]
        if name in changes:
            raise BadInput(f"set: {name} is given twice")
        number = gpu.numbers[name]
        scaled = float(value) * scale
        if not (math.isfinite(scaled) and scaled > 0.0):
            raise BadInput(f"set: {given}={value} is not a positive number")
        if number.value > 0.0 and not 1.0 / _FARTHEST <= scaled / number.value <= _FARTHEST:
            usual = number.value / scale
            raise BadInput(f"set: {given}={value:g} is far from the {usual:g} of {gpu.name}")
        if scaled != number.value:
            changes[name] = Change(name, scaled, number.value, number.unit)
    return tuple(changes.values())


def with_numbers(name: str, values: Mapping[str, float]) -> Gpu:
    """Return a GPU with some numbers changed; the GPU as it is built where none differs.

    Its name stays: coefficients measured on the GPU are those of its kernels. That it is another object than
    :func:`load_gpu` returns says that it was never measured.

    Raises
    ------
    BadInput
        As :func:`changes_of`.

    Examples
    --------
    >>> with_numbers("h100-sxm", {"sm_count": 160, "dram_gbs": 6000}).dram_bytes_per_s
    6000000000000.0
    """
    gpu = load_gpu(name)
    changes = changes_of(gpu, values)
    if not changes:
        return gpu
    return _changed(gpu.name, tuple((change.name, change.value) for change in changes))


@cache
def _changed(name: str, changes: tuple[tuple[str, float], ...]) -> Gpu:
    gpu, values = load_gpu(name), dict(changes)
    for low, high in _BOUNDS:
        bounds = {key: values.get(key, gpu.numbers[key].value) for key in (low, high)}
        if bounds[low] > bounds[high]:
            values |= {low: values[low], high: values[low]} if low in values else {low: values[high]}
    document = dict(gpu_document(name))
    for section in SECTIONS:
        stated = document.get(section, {})
        document[section] = {key: entry for key, entry in stated.items() if key not in values}
    for key, value in values.items():
        unit = gpu.numbers[key].unit
        document[SECTIONS[0]][key] = {"value": value, "unit": unit, "kind": "derived", "source": "set"}
    return build_gpu(name, document)
