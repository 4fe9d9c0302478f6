"""The clock to measure next where all measurements were taken at one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetool.calibrate.tables import Measured
from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.hardware.voltage import VoltageCurve

#: Spread of a power between readings of one kernel, and per doubling of the clock from its one reading.
_BETWEEN_SD, _PER_OCTAVE = prior_number("anchor.power_between"), prior_table("anchor.power_per_octave")


@dataclass(frozen=True)
class NextClock:
    """The clock to measure next, and the 90 % half-width of a power there without and with it. [MHz], [1]"""

    clock_mhz: float
    power_now: float
    power_then: float

    def note(self) -> str:
        """Return the sentence that advises it."""
        return (
            f"all rows were measured at one clock: the same rows at {self.clock_mhz:g} MHz too would narrow "
            f"power there from ±{100 * self.power_now:.0f} to ±{100 * self.power_then:.0f} % and separate "
            "base power from voltage"
        )


def next_clock(read: Sequence[Measured], gpu: Gpu, curve: VoltageCurve) -> NextClock | None:
    """Return the clock to measure next; None where several were measured.

    Above the knee voltage and clock change together, below it the clock alone: one measurement on each side
    separates base power, leakage and switching.
    """
    clocks: list[Floats] = [m.power.clock_mhz for m in read if m.power is not None]
    clocks += [m.sweep.clock_mhz for m in read if m.sweep is not None]
    measured = np.unique(np.concatenate(clocks)) if clocks else np.zeros(0)
    if len(measured) != 1 or any(m.kind == "idle" for m in read):
        return None
    supported = gpu.supported_clocks_mhz()
    above = measured[0] > curve.knee_mhz
    target_mhz = curve.knee_mhz if above else gpu.clock_max_mhz
    clock = float(supported[np.argmin(np.abs(supported - target_mhz))])
    away = abs(float(np.log2(clock / measured[0])))
    if away == 0.0:
        return None
    # As an anchored program: with both clocks measured, power there is a reading.
    now = Z90 * float(np.hypot(prior_number("anchor.power_reading"), _PER_OCTAVE["program"] * away))
    return NextClock(clock, now, Z90 * _BETWEEN_SD)
