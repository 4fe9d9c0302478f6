"""A kernel's time taken apart by what each part scales with."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.work import Work


@dataclass(frozen=True)
class Pieces:
    """Parts of the time of n rows; each of shape (n,).

    ``t(f, f_m) = fixed_s + serial_cycles / f + ((core_cycles / f)^p + (memory_s f_m0 / f_m)^p)^(1/p)``
    """

    fixed_s: Floats  # scales with no clock [s]
    serial_cycles: Floats  # latencies of the core domain that nothing hides [clk]
    core_cycles: Floats  # steady state of the core domain [clk]
    memory_s: Floats  # steady state of memory, at the GPU's memory clock [s]
    norm: Floats  # p: 1 no overlap, infinite perfect overlap [1]
    active: Floats  # share of SMs holding a block while the kernel runs [1]
    work: Work
