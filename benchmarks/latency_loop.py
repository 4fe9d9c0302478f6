"""What the latency set's own loop adds to an operator: the host, a bias, and a clock that falls.

Its times lie between two marks of a host that issues one operator after another. A linear layer adds its
bias in a pass of its own. A board whose power limit a product exceeds runs it at the boost clock for as long
as its governor takes to notice, which is a number of microseconds a repetition, and then slower. None of this
is the kernel's; each is one number a board (and set), fitted beside the coefficients and kept out of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.pieces import Pieces, duration_s
from tracetool.vocabulary.arrays import Bools, Floats
from tracetool.vocabulary.operators import OperatorColumns

#: The loop's numbers with their bounds. A bias reads and writes the result again, in part in L2.
LOOP = {
    "bias_us": Coefficient(5.0, 0.1, 100.0, "us"),
    "bias_passes": Coefficient(1.0, 0.05, 10.0, "1"),
}
THROTTLE = {
    "slow": Coefficient(1.5, 1.0, 4.0, "1"),  # boost clock over the one the power limit leaves
    "burst_us": Coefficient(1000.0, 20.0, 2e4, "us"),  # of a repetition, before the governor acts
}


#: Share of the boost clock below which a board's power limit is what its products run at.
CAPPED = 0.95
#: Choices the rows' own tiles say nothing of.
HABITS = ("batch_area", "most_area")


def throttles(clock_mhz: Floats, gpu: Gpu) -> bool:
    """Return whether a board's power limit slows its products, by the clocks the power model gives them."""
    return bool(np.median(clock_mhz) < CAPPED * gpu.clock_boost_mhz)


@dataclass(frozen=True)
class Loop:
    """One set's loop on one board."""

    host_us: float
    passes: float
    slow: float = 1.0
    burst_us: float = 0.0

    def seconds(self, pieces: Pieces, hertz: Floats, copy_s: Floats) -> Floats:
        """Return what the loop measures of kernels; ``copy_s`` is one pass over the result. (n,)"""
        fast = duration_s(pieces, hertz)[:, 0]
        if self.slow > 1.0:
            late = duration_s(pieces, hertz / self.slow)[:, 0]
            soon = np.minimum(1.0, self.burst_us * 1e-6 / np.maximum(fast, 1e-12))
            fast = soon * fast + (1.0 - soon) * late
        return np.asarray(fast + self.host_us * 1e-6 + self.passes * copy_s)


def copies_s(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """Return the time of one pass over the result of rows that add a bias, else 0. Shape (n,). [s]"""
    result = rows.number("batch", 1.0) * rows.number("m", 0.0) * rows.number("n", 0.0) * 4.0
    return np.asarray(rows.number("bias", 0.0) * result / gpu.dram_bytes_per_s)


def in_loop(law: Law, *, throttles: bool) -> Law:
    """Return a law of the loop around a law's kernels: its launch holds the host's wait too."""
    added = {**LOOP, **(THROTTLE if throttles else {})}
    held = {k: replace(law.priors[k], choices=()) for k in HABITS}

    def parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
        own = law.parts(rows, gpu, {k: v for k, v in c.items() if k not in added})
        bias = rows.number("bias", 0.0)
        extra = bias * c["bias_us"] * 1e-6 + c["bias_passes"] * copies_s(rows, gpu)
        if not throttles:
            return replace(own, fixed_s=own.fixed_s + extra)
        loop = Loop(0.0, 0.0, c["slow"], c["burst_us"])
        hertz = np.full((len(rows), 1), gpu.clock_boost_mhz * 1e6)
        kernel = replace(own, fixed_s=np.zeros(len(rows)))
        lasting = loop.seconds(kernel, hertz, np.zeros(len(rows)))
        none = np.zeros(len(rows))
        return Pieces(
            fixed_s=own.fixed_s + extra + lasting, serial_cycles=none, stream_s=none, core_cycles=none,
            memory_s=np.full(len(rows), 1e-12), norm=own.norm, floor_s=none, active=own.active, work=own.work,
        )  # fmt: skip

    return replace(law, parts=parts, priors={**law.priors, **held, **added})


def fitted_loop(
    pieces: Pieces, hertz: Floats, copy_s: Floats, measured_s: Floats, *, throttles: bool, chosen: Bools
) -> Loop:
    """Return the loop that fits some rows best, for kernels whose coefficients are given."""
    rows = np.flatnonzero(chosen)
    some, clock, copy = pieces.take(rows), hertz[rows], copy_s[rows]

    def loop(x: Floats) -> Loop:
        return Loop(float(x[0]), float(x[1]), *((float(x[2]), float(x[3])) if throttles else ()))

    def off(x: Floats) -> Floats:
        return np.asarray(np.log(loop(x).seconds(some, clock, copy) / measured_s[rows]))

    begin, most = [20.0, 0.5], [80.0, 10.0]
    low = [0.0, 0.0]
    if throttles:
        begin, low, most = [*begin, 1.5, 700.0], [*low, 1.0, 20.0], [*most, 4.0, 2e4]
    scale = [10.0, 1.0, 1.0, 300.0][: len(begin)]
    found = least_squares(off, begin, bounds=(low, most), loss="soft_l1", f_scale=0.06, x_scale=scale)
    return loop(found.x)
