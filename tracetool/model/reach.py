"""How far the SMs can draw on memory at a core clock: bandwidth that falls when the core slows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.hardware.calibrated import calibrated_gpus, own_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import Number
from tracetool.vocabulary.arrays import Floats, Numbers

#: Share of the measured L2 rate that reaches memory and back.
_SHARE_OF_L2 = 0.55
#: How sharply the two limits meet.
_NORM = 4.4


@dataclass(frozen=True)
class Reach:
    r"""Time of a byte of memory relative to the memory's own limit, at a core clock.

    .. math:: G(f) = (1 + (f_r d(f) / f)^q)^{1/q}

    Above :math:`f_r` the memory sets the rate, below it the path between SMs and memory, which runs
    at the core clock. Some boards run that path slower still under a threshold: :math:`d(f)`.

    Parameters
    ----------
    clock_mhz : float
        :math:`f_r`: the core clock at which the path carries just what the memory delivers. [MHz]
    low_mhz : float
        Below it the path is slower by ``low_factor``. [MHz]
    low_factor : float
        At least 1.
    """

    clock_mhz: float
    low_mhz: float = 0.0
    low_factor: float = 1.0

    def at(self, clock_mhz: Numbers | float, memory_share: Numbers | float = 1.0) -> Floats:
        """Return G at a core clock; ``memory_share`` is the memory clock relative to its usual one."""
        clock = np.asarray(clock_mhz, np.float64)
        slower = np.where(clock < self.low_mhz, self.low_factor, 1.0)
        path = self.clock_mhz * slower / clock
        own = 1.0 / np.asarray(memory_share, np.float64)
        return np.asarray((own**_NORM + path**_NORM) ** (1.0 / _NORM))


def _section(name: str) -> Mapping[str, Number]:
    own = own_calibration(name, "power")
    found = {} if own is None else own.section("reach")
    return found if "clock_mhz" in found else {}


def memory_reach(gpu: Gpu) -> Reach:
    """Return the reach fitted for a GPU or its chip, else one from its L2 rate and memory rate."""
    for name in (gpu.name, *calibrated_gpus("power")):
        known = _section(name)
        # A chip's path to memory is the same on every board that carries it.
        if known and (name == gpu.name or load_gpu(name).architecture == gpu.architecture):
            low, factor = known.get("low_mhz"), known.get("low_factor")
            rate = gpu.dram_bytes_per_s / load_gpu(name).dram_bytes_per_s
            return Reach(
                known["clock_mhz"].value * rate,
                low.value if low else 0.0,
                factor.value if factor else 1.0,
            )
    through = _SHARE_OF_L2 * gpu.l2_bytes_per_clock * 1e6
    if not (through > 0 and np.isfinite(gpu.dram_bytes_per_s)):
        return Reach(0.6 * gpu.clock_max_mhz)
    return Reach(float(np.clip(gpu.dram_bytes_per_s / through, 0.3 * gpu.clock_max_mhz, gpu.clock_max_mhz)))
