"""Clocks a user asks for: a value, a list, a range, checked against what the GPU can run at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu

#: More clocks than any GPU has steps: a slip of the pen, not a wish.
MOST_CLOCKS = 2000
#: Above this share of the highest known clock a value is taken for a mistake (GPUs are overclocked).
_SLACK = 1.25
#: Below this share of the lowest known clock no GPU runs, and nothing was measured there to go by.
_LEAST_CLOCK = 0.25
#: Above this multiple of the highest limit a cap is a mistake: it binds nothing.
_LARGEST_CAP = 2.0
#: Shares of the usual memory clock outside of which a value is a mistake; GPUs idle at a twentieth.
_MEMORY_ENDS = (0.02, 4.0)


def parse_clocks(text: str, option: str = "--clock", unit: str = "MHz") -> list[float] | None:
    """Return the values written as ``1200``, ``900,1200`` or ``600:1410:15``; None for an empty text.

    Parameters
    ----------
    text : str
        What the user wrote.
    option, unit : str
        Named in the error.

    Raises
    ------
    BadInput
        If a part is not a positive number or a range runs nowhere.

    Examples
    --------
    >>> parse_clocks("900,1000:1200:100")
    [900.0, 1000.0, 1100.0, 1200.0]
    """
    if not text.strip():
        return None
    fix = "e.g. 1200, 900,1200 or 600:1410:15"
    values: list[float] = []
    for entry in text.split(","):
        try:
            numbers = [float(n) for n in entry.split(":")]
        except ValueError:
            numbers = []
        if not 1 <= len(numbers) <= 3 or not all(0.0 < n < 1e5 for n in numbers):
            raise BadInput(f"{option} {text!r}: {entry.strip()!r} is not a value in {unit}", fix)
        if len(numbers) == 1:
            values += numbers
            continue
        low, high, step = (*numbers, 15.0)[:3]
        count = int((high - low) / step + 1e-9) + 1
        if high < low or count > MOST_CLOCKS:
            fault = "ends below its start" if high < low else f"asks for {count} values"
            raise BadInput(f"{option}: the range {entry.strip()!r} {fault}", "write LOW:HIGH:STEP")
        values += [low + step * i for i in range(count)]
    if len(values) > MOST_CLOCKS:
        raise BadInput(f"{option} asks for {len(values)} values", f"ask for at most {MOST_CLOCKS}")
    return list(dict.fromkeys(values))


def given_values(
    values: str | float | Sequence[float] | None, option: str = "--clock", unit: str = "MHz"
) -> list[float] | None:
    """Return clocks or caps given as one number, several, or text; None where none is given.

    Raises
    ------
    BadInput
        As :func:`parse_clocks`.

    Examples
    --------
    >>> given_values(1200), given_values([900, 1200]), given_values("900:1200:150"), given_values(None)
    ([1200.0], [900.0, 1200.0], [900.0, 1050.0, 1200.0], None)
    """
    if values is None:
        return None
    if isinstance(values, str):
        return parse_clocks(values, option, unit)
    several = list(values) if isinstance(values, Iterable) else [values]
    try:
        numbers = [float(v) for v in several if not isinstance(v, bool | np.bool_)]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) < len(several):
        raise BadInput(f"{option}: {str(values)[:60]} are no values in {unit}", "e.g. 1200 or [900, 1200]")
    return parse_clocks(",".join(map(repr, numbers)), option, unit)


def checked_clocks(clocks_mhz: Sequence[float] | None, gpu: Gpu) -> tuple[Floats, list[str]]:
    """Return the requested clocks, or the boost clock, and notes on them. Shape (c,). [MHz]

    Raises
    ------
    BadInput
        If a clock is not a positive number or lies far from what the GPU can run at.
    """
    if clocks_mhz is None or not len(clocks_mhz):
        note = (
            f"clock: {gpu.clock_boost_mhz:g} MHz, the boost clock of {gpu.name}, lowered where the cap binds"
        )
        return np.array([gpu.clock_boost_mhz], dtype=np.float64), [note]
    clocks = np.asarray(clocks_mhz, dtype=np.float64)
    if not (np.isfinite(clocks).all() and (clocks > 0).all()):
        raise BadInput(f"clocks must be positive numbers of MHz, not {list(clocks_mhz)}")
    top = gpu.clock_max_mhz
    if (clocks > top * _SLACK).any():
        raise BadInput(
            f"{clocks.max():g} MHz is above the highest clock of {gpu.name}", f"give clocks up to {top:g} MHz"
        )
    if (clocks < gpu.clock_min_mhz * _LEAST_CLOCK).any():
        raise BadInput(
            f"{clocks.min():g} MHz is far below the lowest clock of {gpu.name}",
            f"give clocks of {gpu.clock_min_mhz:g} to {top:g} MHz",
        )
    notes = []
    if (clocks > top * 1.001).any():
        notes.append(f"{clocks.max():g} MHz is above the highest clock of {gpu.name} ({top:g} MHz)")
    if (clocks < gpu.clock_min_mhz * 0.999).any():
        notes.append(
            f"{clocks.min():g} MHz is below the lowest clock of {gpu.name} ({gpu.clock_min_mhz:g} MHz)"
        )
    return clocks, notes


def check_recorded_clocks(name: str, clocks_mhz: Floats, gpu: Gpu) -> None:
    """Raise BadInput where a table states a clock its GPU cannot have run at: another unit, or another GPU.

    Parameters
    ----------
    name : str
        The table's.
    clocks_mhz : array, shape (n,)
        The clock stated for each row, NaN where none. [MHz]
    """
    wrong = (clocks_mhz < gpu.clock_min_mhz * _LEAST_CLOCK) | (clocks_mhz > gpu.clock_max_mhz * _SLACK)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadInput.in_file(
            name,
            f"row {row + 1}, column clock_mhz: {clocks_mhz[row]:g} MHz is no clock of {gpu.name}",
            f"state it in MHz, {gpu.clock_min_mhz:g} to {gpu.clock_max_mhz:g}, or name the GPU it ran on",
        )


def checked_cap(cap_w: float | None, gpu: Gpu) -> list[str]:
    """Return notes on a power cap.

    Raises
    ------
    BadInput
        If the cap is not above what the GPU draws with nothing running, or far above its highest limit.
    """
    if cap_w is None:
        return []
    limits = f"{gpu.power_limit_min_w:g} to {gpu.power_limit_max_w:g} W"
    if not cap_w > gpu.idle_w:
        raise BadInput(
            f"a power cap of {cap_w:g} W is not above what an idle {gpu.name} draws ({gpu.idle_w:g} W)",
            f"this GPU accepts {limits}",
        )
    if cap_w > gpu.power_limit_max_w * _LARGEST_CAP:
        raise BadInput(
            f"a power cap of {cap_w:g} W is far above the highest limit of {gpu.name}",
            f"this GPU accepts {limits}; leave the cap out for the usual one",
        )
    if cap_w < gpu.power_limit_min_w or cap_w > gpu.power_limit_max_w:
        return [f"a power cap of {cap_w:g} W is outside what the GPU accepts ({limits})"]
    return []


def checked_memory(mem_clock_mhz: float | None, gpu: Gpu) -> list[str]:
    """Return notes on a requested memory clock: GPUs slow their memory for idling, hardly speed it up.

    Raises
    ------
    BadInput
        If no memory of this kind comes near it.
    """
    if mem_clock_mhz is None or 0.05 <= mem_clock_mhz / gpu.memory_clock_mhz <= 1.25:
        return []
    usual = f"usually {gpu.memory_clock_mhz:g} MHz"
    low, high = (share * gpu.memory_clock_mhz for share in _MEMORY_ENDS)
    if not low <= mem_clock_mhz <= high:
        raise BadInput(
            f"a memory clock of {mem_clock_mhz:g} MHz is far from that of {gpu.name}",
            f"it is {usual}; give {low:g} to {high:g} MHz",
        )
    return [f"no {gpu.name} runs its memory at {mem_clock_mhz:g} MHz ({usual}): figures are an extrapolation"]


def with_recorded_clock(rows: OperatorColumns, clock_mhz: float) -> OperatorColumns:
    """Return the rows with ``recorded_clock_mhz`` filled where it is absent."""
    filled = rows.number("recorded_clock_mhz", clock_mhz)
    return replace(rows, columns={**rows.columns, "recorded_clock_mhz": filled})
