"""A kernel's time, split by what each part scales with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.work import Work
from tracetool.families.loops import on_steps

#: How sharply the host's floor and the GPU's time meet: the exponent of the norm. [1] A prior, close to the
#: longer of the two alone.
FLOOR_NORM = 12.0
#: What half of the errors are below, over half the width of their 90 % band. [1] A prior: 0.41 of a normal
#: distribution, 0.2 to 0.3 of rows held back.
WITHIN_BAND = 0.25
#: Least number that another is divided by. [1] By definition of the number format: near its least normal one.
_LEAST = 1e-300


def _zeros() -> Floats:
    """Return an empty array, which means zero for every row."""
    return np.zeros(0)


@dataclass(frozen=True)
class Pieces:
    r"""Parts of the time of n rows; each of shape (n,).

    .. math:: t = \left\| t_{floor}, \; t_{fixed} + \frac{c_{serial}}{f} + t_{stream} \frac{f_{m0}}{f_m}
       + \left\| \frac{c_{core}}{f}, \; t_{mem} \frac{f_{m0}}{f_m} \right\|_p \right\|_{12}

    In a loop of n operators the host is done an operator before the GPU: ``loop_end`` of 1/n adds that.
    """

    fixed_s: Floats  # scales with no clock [s]
    serial_cycles: Floats  # latencies of the core domain that nothing hides [clk]
    core_cycles: Floats  # steady state of the core domain [clk]
    memory_s: Floats  # steady state of memory, at the GPU's memory clock [s]
    norm: Floats  # p: 1 no overlap, infinite perfect overlap [1]
    active: Floats  # share of SMs holding a block while the kernel runs [1]
    work: Work
    stream_s: Floats  # passes over memory before and after, at the GPU's memory clock [s]
    floor_s: Floats  # the host issues no faster than this [s]
    graph_step_s: Floats = field(default_factory=_zeros)  # graphs begin on multiples of this, 0: whenever [s]
    loop_s: Floats = field(default_factory=_zeros)  # of a loop over such graphs, the start's share [s]
    loop_end: Floats = field(
        default_factory=_zeros
    )  # of a loop its host issues, the last operator's share [1]
    vary: Floats = field(default_factory=_zeros)  # half of such errors are less, relative [1]

    def __post_init__(self) -> None:
        """Fill the fields of loops with zeros where they are empty."""
        for name in ("graph_step_s", "loop_s", "loop_end", "vary"):
            if len(getattr(self, name)) != len(self.fixed_s):
                object.__setattr__(self, name, np.zeros(len(self.fixed_s)))

    def take(self, rows: Ints | slice) -> Pieces:
        """Return the chosen rows."""
        return Pieces(
            **{f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "work"},
            work=self.work.take(rows),
        )

    def times(self, factor: Floats | float) -> Pieces:
        """Return these pieces with every part this much longer, at any clock: an array of shape (n,)."""
        durations = ("fixed_s", "serial_cycles", "core_cycles", "memory_s", "stream_s", "floor_s")
        return replace(self, **{name: getattr(self, name) * factor for name in durations})

    def looped(self, steps: Mapping[str, Floats]) -> Pieces:
        """Return these pieces as a loop over graphs has them: ``graph_step_s`` and ``loop_s``, if any."""
        return replace(self, graph_step_s=steps["graph_step_s"], loop_s=steps["loop_s"]) if steps else self

    def known_within(self, band: tuple[float, float]) -> Pieces:
        """Return these pieces for times known within a 90 % band of ln(measured / predicted).

        Steps that graphs begin on are counted where the time is known that well.
        """
        if not self.graph_step_s.any():
            return self
        return replace(self, vary=np.full(len(self.fixed_s), WITHIN_BAND * (band[1] - band[0]) / 2.0))

    def where(self, rows: Bools, other: Pieces) -> Pieces:
        """Return these pieces with the chosen rows taken from ``other``."""
        return Pieces(
            **{
                f.name: np.where(rows, getattr(other, f.name), getattr(self, f.name))
                for f in fields(self)
                if f.name != "work"
            },
            work=self.work.where(rows, other.work),
        )


def joined(sequence: Sequence[Pieces]) -> Pieces:
    """Return the pieces of rows in turn."""
    columns = {
        f.name: np.concatenate([getattr(pieces, f.name) for pieces in sequence])
        for f in fields(Pieces)
        if f.name != "work"
    }
    counts = {
        f.name: np.concatenate([getattr(pieces.work, f.name) for pieces in sequence]) for f in fields(Work)
    }
    return Pieces(**columns, work=Work(**counts))


def combined(a: Floats, b: Floats, p: Floats | float) -> Floats:
    """Return the p-norm of two non-negative arrays, safe where both are zero."""
    large, small = np.maximum(a, b), np.minimum(a, b)
    share = small / np.maximum(large, _LEAST)
    return np.asarray(large * (1.0 + share**p) ** (1.0 / p))


def duration_s(pieces: Pieces, hertz: Floats, slower: float = 1.0) -> Floats:
    """Return the time at core clocks. Shape (n, c). [s]

    Parameters
    ----------
    hertz : array, shape (n, c)
        Core clocks. [Hz]
    slower : float
        Usual memory clock over the one asked for.
    """
    core = pieces.core_cycles[:, None] / hertz
    memory = np.broadcast_to((pieces.memory_s * slower)[:, None], hertz.shape)
    steady = combined(core, memory, pieces.norm[:, None])
    alone_s = (pieces.fixed_s + pieces.stream_s * slower)[:, None] + pieces.serial_cycles[:, None] / hertz
    total = np.asarray(alone_s + steady)
    floored = np.flatnonzero(pieces.floor_s)
    if floored.size:
        # when the host has issued the last operator of its loop, that is still to run
        issued_s = pieces.floor_s[floored, None] + pieces.loop_end[floored, None] * total[floored]
        total[floored] = combined(total[floored], issued_s, FLOOR_NORM)
    stepped = np.flatnonzero(pieces.graph_step_s)
    if stepped.size:
        step_s, loop_s, vary = (
            column[stepped, None] for column in (pieces.graph_step_s, pieces.loop_s, pieces.vary)
        )
        total[stepped] = on_steps(total[stepped], step_s, loop_s, vary)
    return total
