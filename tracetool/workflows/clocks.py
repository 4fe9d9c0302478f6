"""Clocks a user asks for: a value, a list, a range, checked against what the GPU can run at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns

#: More clocks than any GPU has steps: a slip of the pen, not a wish.
MOST_CLOCKS = 2000
#: Above this share of the highest known clock a value is taken for a mistake (boards are overclocked).
_SLACK = 1.15


def parse_clocks(text: str) -> list[float] | None:
    """Return the clocks written as ``1200``, ``900,1200`` or ``600:1410:15``; None for an empty text. [MHz]

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
    found: list[float] = []
    for part in text.split(","):
        numbers = [_number(n, text) for n in part.split(":")]
        if len(numbers) == 1:
            found += numbers
        elif len(numbers) in {2, 3}:
            found += _range(numbers, part)
        else:
            raise BadInput(f"--clock {text!r}: {part!r} is no clock", "write 1200, 900,1200 or 600:1410:15")
    if len(found) > MOST_CLOCKS:
        raise BadInput(f"--clock {text!r} asks for {len(found)} clocks", f"ask for at most {MOST_CLOCKS}")
    return list(dict.fromkeys(found))


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e5:
        raise BadInput(
            f"--clock {whole!r}: {text.strip()!r} is not a clock in MHz",
            "write 1200, 900,1200 or 600:1410:15",
        )
    return value


def _range(numbers: list[float], part: str) -> list[float]:
    low, high, step = (*numbers, 15.0)[:3]
    if high < low:
        raise BadInput(f"--clock: the range {part!r} ends below its start", "write LOW:HIGH:STEP")
    count = int((high - low) / step + 1e-9) + 1
    if count > MOST_CLOCKS:
        raise BadInput(f"--clock: the range {part!r} asks for {count} clocks", "use a larger step")
    return [low + step * i for i in range(count)]


def checked_clocks(clocks_mhz: Sequence[float] | None, gpu: Gpu) -> tuple[Floats, list[str]]:
    """Return the clocks asked for, or the boost clock, and notes that say which and what is odd.

    Raises
    ------
    BadInput
        If a clock is not a positive number or lies far above what the GPU can run at.
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
    notes = []
    if (clocks > top * 1.001).any():
        notes.append(f"{clocks.max():g} MHz is above the highest clock of {gpu.name} ({top:g} MHz)")
    if (clocks < gpu.clock_min_mhz * 0.999).any():
        notes.append(
            f"{clocks.min():g} MHz is below the lowest clock of {gpu.name} ({gpu.clock_min_mhz:g} MHz)"
        )
    return clocks, notes


def with_recorded_clock(rows: OperatorColumns, clock_mhz: float) -> OperatorColumns:
    """Return the rows with ``recorded_clock_mhz`` filled where it is absent."""
    filled = rows.number("recorded_clock_mhz", clock_mhz)
    return replace(rows, columns={**rows.columns, "recorded_clock_mhz": filled})
