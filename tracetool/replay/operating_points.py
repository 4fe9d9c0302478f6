"""Several operating points of one run: the best of them, and those no other beats in time and energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats

#: Energies this close are one: no power sensor separates them. [1]
TIE: Final = 0.005


def least(cost: Floats, time: Floats) -> int:
    """Return the fastest of the points whose cost no measurement separates from the least.

    Examples
    --------
    >>> least(np.array([5.02, 5.0, 5.2]), np.array([1.0, 2.0, 0.5]))
    0
    """
    equal = np.flatnonzero(cost <= cost.min() * (1.0 + TIE))
    return int(equal[np.argmin(time[equal])])


def front(time: Floats, energy: Floats) -> Bools:
    """Return which points no other point beats in both time and energy. Shape (n,).

    >>> front(np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 4.5]))
    array([ True,  True, False])
    """
    beaten = (time[None] <= time[:, None]) & (energy[None] <= energy[:, None])
    strictly = (time[None] < time[:, None]) | (energy[None] < energy[:, None])
    return np.asarray(~(beaten & strictly).any(axis=1), dtype=np.bool_)


@dataclass(frozen=True)
class Clocks:
    """The whole run at c clocks: time, energy and its 90 % interval."""

    clock_mhz: Floats
    time_ms: Floats
    energy_j: Floats
    low_j: Floats
    high_j: Floats

    def marks(self, recorded_mhz: float | None = None) -> dict[int, str]:
        """Return the clocks worth naming: least energy, least energy x time, and the recorded one."""
        if not self.clock_mhz.size:
            return {}
        labels: dict[int, list[str]] = {}
        labels.setdefault(least(self.energy_j, self.time_ms), []).append("least energy")
        labels.setdefault(least(self.energy_j * self.time_ms, self.time_ms), []).append("least energy × time")
        if recorded_mhz is not None:
            labels.setdefault(int(np.argmin(np.abs(self.clock_mhz - recorded_mhz))), []).append("as recorded")
        return {i: ", ".join(texts) for i, texts in labels.items()}
