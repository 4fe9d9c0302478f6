"""Memory efficiency at a core clock: bandwidth that falls when the core slows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Numbers
from tracetool.hardware.coefficient_files import calibrated_gpus, own_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import Number
from tracetool.hardware.priors import prior_number

_SHARE_OF_L2 = prior_number("reach.share_of_l2")
_NORM, _LEAST = prior_number("reach.norm"), prior_number("reach.least")
_USUAL_CLOCK, _LEAST_CLOCK = prior_number("reach.usual_clock"), prior_number("reach.least_clock")


@dataclass(frozen=True)
class MemoryEfficiency:
    r"""Time of a byte of memory relative to the memory's own limit, at a core clock.

    .. math:: G(f) = (1 + s(f)^{-q})^{1/q}, \qquad s(f) = \max\left(s_0, \frac{f - f_s}{f_r - f_s}\right)

    Above :math:`f_r` the memory sets the rate, below it the path between SMs and memory. That path has
    a clock of its own, which follows the core's: on some GPUs in proportion (:math:`f_s = 0`), on others
    steeper, down to a lowest clock under which it does not go.

    Parameters
    ----------
    clock_mhz : float
        :math:`f_r`: the core clock at which the path carries just what the memory delivers. [MHz]
    start_mhz : float
        :math:`f_s`: the core clock at which the path's own clock would vanish. [MHz]
    floor : float
        :math:`s_0`: share of the memory's rate that the path carries at its lowest clock.
    """

    clock_mhz: float
    start_mhz: float = 0.0
    floor: float = 0.0

    def at(self, clock_mhz: Numbers | float, memory_share: Numbers | float = 1.0) -> Floats:
        """Return G at a core clock; ``memory_share`` is the memory clock relative to its usual one."""
        clock = np.asarray(clock_mhz, np.float64)
        rising = (clock - self.start_mhz) / (self.clock_mhz - self.start_mhz)
        path = 1.0 / np.maximum(rising, max(self.floor, _LEAST))
        at_memory = 1.0 / np.asarray(memory_share, np.float64)
        return np.asarray((at_memory**_NORM + path**_NORM) ** (1.0 / _NORM))

    def beside_memory(self, rate: float) -> MemoryEfficiency:
        """Return the efficiency of the same path beside memory that delivers ``rate`` times as much."""
        above = (self.clock_mhz - self.start_mhz) * rate
        return MemoryEfficiency(self.start_mhz + above, self.start_mhz, self.floor / rate)


def _section(name: str) -> Mapping[str, Number]:
    calibration = own_calibration(name, "power")
    section = {} if calibration is None else calibration.section("memory_efficiency")
    return section if "clock_mhz" in section else {}


def memory_efficiency(gpu: Gpu) -> MemoryEfficiency:
    """Return the efficiency fitted for a GPU or its chip, else one from its L2 rate and memory rate."""
    for name in (gpu.name, *calibrated_gpus("power")):
        section = _section(name)
        # A chip's path to memory is the same on every GPU that carries it.
        if section and (name == gpu.name or load_gpu(name).architecture == gpu.architecture):
            start, floor = section.get("start_mhz"), section.get("floor")
            fitted = MemoryEfficiency(
                section["clock_mhz"].value, start.value if start else 0.0, floor.value if floor else 0.0
            )
            return fitted.beside_memory(gpu.dram_bytes_per_s / load_gpu(name).dram_bytes_per_s)
    through = _SHARE_OF_L2 * gpu.l2_bytes_per_clock * 1e6
    if not (through > 0 and np.isfinite(gpu.dram_bytes_per_s)):
        return MemoryEfficiency(_USUAL_CLOCK * gpu.clock_max_mhz)
    return MemoryEfficiency(
        float(np.clip(gpu.dram_bytes_per_s / through, _LEAST_CLOCK * gpu.clock_max_mhz, gpu.clock_max_mhz))
    )
