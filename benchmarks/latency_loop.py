"""What the latency set's own loop adds to an operator: the host, a bias, and a clock that moves.

Its times lie between two marks of a host that issues one operator after another. A linear layer adds its
bias in a pass of its own. A GPU whose power limit a product exceeds runs it at the boost clock for as long
as its governor takes to notice, which is a number of microseconds a repetition, and then slower. A GPU that
idled before the set was begun starts near its base clock and climbs. None of this is the kernel's; each is
a number or two a GPU (and set), fitted beside the coefficients and kept out of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Coefficient, Coefficients, Law
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu

#: The loop's numbers with their bounds. A bias reads and writes the result again, in part in L2.
LOOP = {
    "bias_us": Coefficient(5.0, 0.1, 100.0, "us"),
    "bias_passes": Coefficient(1.0, 0.05, 10.0, "1"),
}
THROTTLE = {
    "slow": Coefficient(1.5, 1.0, 4.0, "1"),  # boost clock over the one the power limit leaves
    "burst_us": Coefficient(1000.0, 20.0, 2e4, "us"),  # of a repetition, before the governor acts
}
#: A GPU starts below its boost clock, and is halfway up after so many of the set's batches.
BEGINNING = {
    "begin": Coefficient(0.8, 0.3, 1.0, "1"),
    "settle": Coefficient(1200.0, 100.0, 4000.0, "1"),
}
#: The set's batches were drawn and measured cell by cell of a grid, so many a cell (its published generator):
#: least to most batch, in it least to most m, then k, then n.
EDGES, PER_CELL = (33.0, 65.0, 129.0, 257.0, 513.0), 15.0
#: How sharply the climb from the first clock to the boost clock is told.
_CLIMB = 8.0

#: Share of the boost clock below which a GPU's power limit is what its products run at.
CAPPED = 0.95
#: Choices the rows' own tiles say nothing of.
HABITS = ("batch_area", "most_area")


def throttles(clock_mhz: Floats, gpu: Gpu) -> bool:
    """Return whether a GPU's power limit slows its products, by the clocks the power model gives them."""
    return bool(np.median(clock_mhz) < CAPPED * gpu.clock_boost_mhz)


@dataclass(frozen=True)
class Setting:
    """What the loop asks of n rows beside their kernels: a pass over the result [s], and when it measured."""

    copy_s: Floats
    order: Floats

    @classmethod
    def of(cls, rows: OperatorColumns, gpu: Gpu) -> Setting:
        """Return the setting of rows; only the set of NVIDIA's GPUs is known to be in an order."""
        late = np.full(len(rows), np.inf)
        return cls(copies_s(rows, gpu), measured_order(rows) if gpu.vendor == "nvidia" else late)

    def take(self, rows: Ints) -> Setting:
        """Return the chosen rows."""
        return Setting(self.copy_s[rows], self.order[rows])


@dataclass(frozen=True)
class Loop:
    """One set's loop on one GPU."""

    host_us: float
    passes: float
    slow: float = 1.0
    burst_us: float = 0.0
    begin: float = 1.0
    settle: float = 1.0

    def seconds(self, pieces: Pieces, hertz: Floats, setting: Setting) -> Floats:
        """Return what the loop measures of kernels. Shape (n,)."""
        hertz = hertz * begun(setting.order, self.begin, self.settle)[:, None]
        fast = duration_s(pieces, hertz)[:, 0]
        if self.slow > 1.0:
            late = duration_s(pieces, hertz / self.slow)[:, 0]
            soon = np.minimum(1.0, self.burst_us * 1e-6 / np.maximum(fast, 1e-12))
            fast = soon * fast + (1.0 - soon) * late
        return np.asarray(fast + self.host_us * 1e-6 + self.passes * setting.copy_s)


def measured_order(rows: OperatorColumns) -> Floats:
    """Return how many batches the set measured before each row's cell; all else came late. (n,)"""
    cell = np.zeros(len(rows))
    for side in ("batch", "m", "k", "n"):
        cell = cell * (len(EDGES) + 1) + np.searchsorted(EDGES, rows.number(side, 1.0))
    batches = (rows.family == "gemm") & (rows.number("bias", 0.0) == 0.0)
    return np.where(batches, (cell + 0.5) * PER_CELL, np.inf)


def begun(order: Floats, begin: float, settle: float) -> Floats:
    """Return the GPU's clock, of its boost clock, when a row of this order was measured. Shape (n,)."""
    up = 1.0 / (1.0 + np.exp(np.clip(-_CLIMB * (order / settle - 1.0), -50.0, 50.0)))
    return np.asarray(begin + (1.0 - begin) * up)


def copies_s(rows: OperatorColumns, gpu: Gpu) -> Floats:
    """Return the time of one pass over the result of rows that add a bias, else 0. Shape (n,). [s]"""
    result = rows.number("batch", 1.0) * rows.number("m", 0.0) * rows.number("n", 0.0) * 4.0
    return np.asarray(rows.number("bias", 0.0) * result / gpu.dram_bytes_per_s)


def in_loop(law: Law, *, throttles: bool) -> Law:
    """Return a law of the loop around a law's kernels: its launch holds the host's wait too."""
    added = {**LOOP, **BEGINNING, **(THROTTLE if throttles else {})}
    held = {k: replace(law.priors[k], choices=()) for k in HABITS}

    def parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
        own = law.parts(rows, gpu, {k: v for k, v in c.items() if k not in added})
        bias, setting = rows.number("bias", 0.0), Setting.of(rows, gpu)
        extra = bias * c["bias_us"] * 1e-6
        loop = Loop(
            0.0, c["bias_passes"], c.get("slow", 1.0), c.get("burst_us", 0.0), c["begin"], c["settle"]
        )
        hertz = np.full((len(rows), 1), gpu.clock_boost_mhz * 1e6)
        kernel = replace(own, fixed_s=np.zeros(len(rows)))
        lasting = loop.seconds(kernel, hertz, setting)
        none = np.zeros(len(rows))
        return Pieces(
            fixed_s=own.fixed_s + extra + lasting, serial_cycles=none, stream_s=none, core_cycles=none,
            memory_s=np.full(len(rows), 1e-12), norm=own.norm, floor_s=none, active=own.active, work=own.work,
        )  # fmt: skip

    return replace(law, parts=parts, priors={**law.priors, **held, **added})


def fitted_loop(
    pieces: Pieces, hertz: Floats, setting: Setting, measured_s: Floats, *, throttles: bool, chosen: Bools
) -> Loop:
    """Return the loop that fits some rows best, for kernels whose coefficients are given."""
    rows = np.flatnonzero(chosen)
    some, clock, inside = pieces.take(rows), hertz[rows], setting.take(rows)
    asked = {"host_us": (20.0, 0.0, 80.0, 10.0), "passes": (0.5, 0.0, 10.0, 1.0)}
    if throttles:
        asked |= {"slow": (1.5, 1.0, 4.0, 1.0), "burst_us": (700.0, 20.0, 2e4, 300.0)}
    if np.isfinite(setting.order).any():
        asked |= {"begin": (0.8, 0.3, 1.0, 1.0), "settle": (1200.0, 100.0, 4000.0, 500.0)}
    start, low, most, scale = (np.array(column) for column in zip(*asked.values(), strict=True))

    def loop(x: Floats) -> Loop:
        return Loop(**dict(zip(asked, x.tolist(), strict=True)))

    def off(x: Floats) -> Floats:
        return np.asarray(np.log(loop(x).seconds(some, clock, inside) / measured_s[rows]))

    found = least_squares(off, start, bounds=(low, most), loss="soft_l1", f_scale=0.06, x_scale=scale)
    return loop(found.x)
