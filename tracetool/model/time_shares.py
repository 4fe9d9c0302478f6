"""Shares of a measured kernel's time that follow the core clock, memory, and neither."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.activity import has_mix
from tracetool.model.memory_efficiency import MemoryEfficiency, memory_efficiency

#: Norm in which core and memory time overlap: 1 would be one after the other, large both at once. A program
#: is many kernels, each bound by its own, so its norm is lower than a kernel's.
_OVERLAP, _FULL_MEMORY = prior_table("monitor.overlap"), prior_table("monitor.full_memory")
#: A measurement this long is a program's run, not a kernel: part of it is its host's. [s]
PROGRAM_S = prior_number("monitor.program")
_HOST_SHARE, _HOST_PER_IDLE = prior_number("monitor.host_share"), prior_number("monitor.host_per_idle")
#: A tensor core busier than this in the mean leaves no capacity for a host.
_HOST_SHARPNESS = prior_number("monitor.host_sharpness")
_SD_PER_OCTAVE = prior_table("monitor.sd_per_octave")


@dataclass(frozen=True)
class TimeShares:
    r"""Shares of each row's measured time; each array of shape (n,).

    .. math:: t / t_0 = s_f + (1 - s_f) ((s_c f_0 / f)^p + (s_m G(f) / G(f_0))^p)^{1/p}

    with :math:`s_c^p + s_m^p = 1`.

    Parameters
    ----------
    core, memory : array
        :math:`s_c, s_m`.
    fixed : array
        :math:`s_f`.
    efficiency : MemoryEfficiency
        :math:`G`.
    overlap : array
        :math:`p`.
    log_sd_per_octave : array
        Spread of the logarithm of the ratio of two times, per doubling of the clock between them.
    """

    core: Floats
    memory: Floats
    fixed: Floats
    efficiency: MemoryEfficiency
    overlap: Floats
    log_sd_per_octave: Floats

    def take(self, rows: Ints) -> TimeShares:
        """Return the shares of the chosen rows."""
        return TimeShares(
            self.core[rows],
            self.memory[rows],
            self.fixed[rows],
            self.efficiency,
            self.overlap[rows],
            self.log_sd_per_octave[rows],
        )


def shares_of_activity(
    rows: OperatorColumns, gpu: Gpu, duration_s: Floats, clock_mhz: Floats, active: Bools
) -> TimeShares:
    """Return the shares of rows from measured activity at their own clock.

    Memory is bound as far as it is busy against what the SMs can draw from it at that clock. A row
    without activity of the SMs or of memory follows the core clock.

    Parameters
    ----------
    rows : OperatorColumns
        n rows with ``act_*`` columns.
    duration_s, clock_mhz : array, shape (n,)
        Where they were measured.
    active : array of bool, shape (n,)
        Rows whose activity is known.
    """
    efficiency = memory_efficiency(gpu)
    busy = np.clip(rows.number("act_dram", 0.0), 0.0, 1.0)
    program = duration_s >= PROGRAM_S
    full, overlap = (
        np.where(program, by_kind["program"], by_kind["kernel"]) for by_kind in (_FULL_MEMORY, _OVERLAP)
    )
    memory = np.minimum(1.0, busy * efficiency.at(clock_mhz) / full)
    core = (1.0 - memory**overlap) ** (1.0 / overlap)
    of_kernel = np.where(
        active, _SD_PER_OCTAVE["core"] + _SD_PER_OCTAVE["memory"] * memory, _SD_PER_OCTAVE["no_activity"]
    )
    of_program = np.where(active, _SD_PER_OCTAVE["program"], _SD_PER_OCTAVE["program_no_activity"])
    return TimeShares(
        core=core,
        memory=memory,
        fixed=np.where(active | ~has_mix(rows), host_share(rows, gpu, duration_s, clock_mhz), 0.0),
        efficiency=efficiency,
        overlap=overlap,
        log_sd_per_octave=np.where(program, of_program, of_kernel),
    )


def host_share(rows: OperatorColumns, gpu: Gpu, duration_s: Floats, clock_mhz: Floats) -> Floats:
    """Return the share of each row's time that is its host's; zero for kernels.

    A kernel's launch is outside its duration. A whole program's time holds setup and waiting, and
    what the monitor saw of the SMs hints at how much. Stated at the highest clock and carried to
    the measured one: the host's part is the smaller a share, the slower the GPU.
    """
    full = np.maximum(rows.number("act_tensor", 0.0), rows.number("act_fp64", 0.0))
    idle = 1.0 - np.clip(rows.number("act_sm", 1.0), 0.0, 1.0)
    top = _HOST_SHARE * (1.0 - np.clip(full, 0.0, 1.0) ** _HOST_SHARPNESS)
    top = top + (1.0 - top) * _HOST_PER_IDLE * idle
    top = np.where(duration_s >= PROGRAM_S, np.clip(top, 0.0, 1.0), 0.0)
    slower = gpu.clock_max_mhz / np.maximum(clock_mhz, 1.0)
    return np.asarray(top / (top + (1.0 - top) * slower))
