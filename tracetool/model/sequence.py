"""Kernels among others: their time in a model's run, relative to that in a loop of the kernel alone.

Measured in a loop, a kernel finds its operands in the cache and its code and pages warm, and the
power governor at rest. In a model's run it follows other kernels, starts cold, and on a slow core
clock the streams between them cannot keep memory busy. A few factors by kind of kernel say how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.families.registry import families_where
from tracetool.families.spec import Sequence
from tracetool.hardware.coefficient_files import shared_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.model.memory_efficiency import memory_efficiency

#: Families that stream through memory. Batched products do too: scores are written and read.
_STREAMS = families_where(lambda family: family.sequence is Sequence.STREAM)
_PRODUCTS = families_where(lambda family: family.sequence is Sequence.PRODUCT)
_SOFTMAX = families_where(lambda family: family.sequence is Sequence.SOFTMAX)
#: Units that multiply.
_PIPES = ("tensor", "fp32", "fp64", "int")


@dataclass(frozen=True)
class SequenceFactors:
    """Time in a run over time in a loop, beside fixed costs.

    ``product`` is what a product takes longer, in times of its multiplications at the peak rate: operands
    arrive as fast as the whole chip can fetch them, so that what a last wave or a short sum loses is not
    lost twice. ``stream`` and ``softmax`` are ratios. ``efficiency_ratio`` times its memory-limit clock is
    the core clock at which streams slow down by half the square root of two; ``log_sd`` is what all kernels
    of one run err by in common, beside what each errs by itself: the spread of whole models left out of the
    fit. ``own_share`` is how much of its own error a kernel keeps on the GPU the factors were fitted on
    (``fitted_on``): what the laws err by in common there, the factors took in.
    """

    product: float
    stream: float
    softmax: float
    efficiency_ratio: float
    log_sd: float
    own_share: float = 1.0
    fitted_on: str = ""

    def own_share_on(self, gpu: Gpu) -> float:
        """Return the share of its own error a kernel keeps on a GPU."""
        return self.own_share if gpu.name == self.fitted_on else 1.0


@cache
def sequence_factors() -> SequenceFactors:
    """Return the delivered factors."""
    file = shared_calibration("sequence")
    numbers = {k: n.value for k, n in file.section("sequence").items()}
    return SequenceFactors(**numbers, fitted_on=str(file.about.get("gpu", "")))


def in_sequence(
    timing: Timing, rows: OperatorColumns, gpu: Gpu, clock_mhz: Floats, factors: SequenceFactors
) -> Timing:
    """Return the timing of rows as they run among others.

    Parameters
    ----------
    timing : Timing
        Rows by themselves, (n, c).
    clock_mhz : array, shape (n, c)
        Core clocks. [MHz]
    """
    factor = sequence_ratio(timing, rows, gpu, clock_mhz, factors)
    fixed = np.minimum(timing.fixed_s[:, None], timing.duration_s)
    moving = timing.duration_s - fixed
    # A softmax that is faster than its tensors could be moved finds part of them on the chip.
    softmax = rows.in_families(*_SOFTMAX)
    moved = np.where(softmax, min(factors.softmax, 1.0), 1.0)
    work = timing.work
    duration = fixed + moving * factor
    return replace(
        timing,
        duration_s=duration,
        busy_s={unit: np.minimum(busy, duration) for unit, busy in timing.busy_s.items()},
        core_s=timing.core_s * factor,
        memory_s=timing.memory_s * factor,
        work=replace(work, dram_bytes=work.dram_bytes * moved, l2_bytes=work.l2_bytes * moved),
    )


def sequence_ratio(
    timing: Timing, rows: OperatorColumns, gpu: Gpu, clock_mhz: Floats, factors: SequenceFactors
) -> Floats:
    """Return the factor on the part of each row's time that is not fixed, at each clock. Shape (n, c). [1]"""
    product = rows.in_families(*_PRODUCTS)
    batched = product & (rows.number("batch", 1.0) > 1)
    stream = rows.in_families(*_STREAMS) | batched
    softmax = rows.in_families(*_SOFTMAX)
    level = np.where(stream, factors.stream, np.where(softmax, factors.softmax, 1.0))
    corner = factors.efficiency_ratio * memory_efficiency(gpu).clock_mhz

    def path(clock: Floats | float) -> Floats:
        return np.asarray(np.hypot(1.0, corner / np.asarray(clock, np.float64)))

    slow = path(clock_mhz) / path(gpu.clock_boost_mhz)
    ratio = np.where((stream | softmax)[:, None], level[:, None] * slow, 1.0)
    fixed = np.minimum(timing.fixed_s[:, None], timing.duration_s)
    moving = timing.duration_s - fixed
    peak = np.maximum.reduce([timing.busy_s[unit] for unit in _PIPES])
    added = 1.0 + factors.product * np.divide(peak, moving, out=np.zeros_like(peak), where=moving > 0)
    return np.where((product & ~batched)[:, None], added, ratio)
