"""What an averaging sampler saw of a campaign: which part of each window every execution filled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.measure.fingrav.basis import Basis
from tracetool.measure.fingrav.executions import Executions
from tracetool.measure.fingrav.stitch import Placed, Samples, place
from tracetool.vocabulary.arrays import Bools, Floats, Ints

#: A sample that holds more than this of executions outside the golden bin is left out.
_ODD = 0.1
#: Time constants of settling tried: a quarter apart, so that none lies far from one.
_CONSTANTS = 14
#: Probe of the windows' place and width, in windows.
_PROBE = 2e-3


@dataclass(frozen=True)
class Windows:
    """Samples used, and where in their run executions stand."""

    executions: Executions
    inside: Bools  # (e,) of the golden bin, steady execution and after
    sse: int
    last: int
    samples: Samples  # those that touch a run or lie beside one
    constants: Floats  # (c,) executions over which power may settle

    @classmethod
    def of(cls, executions: Executions, samples: Samples, inside: Bools, sse: int, last: int) -> Windows:
        """Choose the samples: what touches a run tells its powers, what lies beside one the idle power."""
        count = len(samples.time_s)
        close = np.zeros(count, dtype=bool)
        close[place(replace(samples, window_s=3.0 * samples.window_s), executions).sample] = True
        placed = place(samples, executions)
        odd = ~inside[placed.execution] & (executions.position[placed.execution] >= sse)
        close &= np.bincount(placed.sample, placed.share * odd, minlength=count) < _ODD
        kept = replace(
            samples, time_s=samples.time_s[close], power_w={k: v[close] for k, v in samples.power_w.items()}
        )
        constants = np.geomspace(1.5, max(0.6 * (last - sse), 3.0), _CONSTANTS)
        return cls(executions, inside, sse, last, kept, constants)

    def placed(self, place_s: float, width_s: float) -> Placed:
        """Return where windows fall if each ends ``place_s`` later and is ``width_s`` long. [s]"""
        return place(
            replace(self.samples, time_s=self.samples.time_s + place_s, window_s=width_s), self.executions
        )

    def settling(self, position: Ints) -> Floats:
        """Return what of settling is left at a place in the run, by constant. Shape (n, c)."""
        away = np.maximum(position - self.sse, 0)
        return np.asarray(np.exp(-away[:, None] / self.constants))

    def levels(self, placed: Placed) -> tuple[Floats, Floats]:
        """Return the share of each window by kind of execution, and of settling power by constant.

        Returns
        -------
        shares : array, shape (n, sse + 3)
            Steady executions, each warm-up, odd ones, pauses.
        settling : array, shape (n, c)
            What of settling is left, by constant, summed over steady executions.
        """
        count = len(self.samples.time_s)
        position = self.executions.position[placed.execution]
        steady = self.inside[placed.execution]

        def spent(weight: Floats | Bools) -> Floats:
            return np.asarray(np.bincount(placed.sample, placed.share * weight, minlength=count), np.float64)

        shares = [spent(steady), *(spent(position == k) for k in range(self.sse))]
        shares += [spent(~steady & (position >= self.sse)), 1.0 - spent(np.ones(len(position)))]
        left = self.settling(np.arange(int(position.max(initial=0)) + 1)).T
        settling = [spent(steady * of_one[position]) for of_one in left]
        return np.stack(shares, axis=1), np.stack(settling, axis=1)

    def course(self, placed: Placed, basis: Basis, scale: Floats) -> Floats:
        """Return each window's mean of what the course departs from its own mean. Shape (n, k).

        ``scale`` is each execution's power over the steady one, shape (e,): the departure goes with it.
        Whole executions add nothing.
        """
        width = placed.end - placed.begin
        part = np.flatnonzero(width < 1.0 - 1e-9)
        whole = basis.integral(np.array([1.0]))
        begin, end = placed.begin[part], placed.end[part]
        inner = basis.integral(end) - basis.integral(begin) - (end - begin)[:, None] * whole
        share = placed.share[part] / np.maximum(end - begin, 1e-12) * scale[placed.execution[part]]
        out = np.zeros((len(self.samples.time_s), basis.size))
        np.add.at(out, placed.sample[part], inner * share[:, None])
        return out

    def probe_s(self) -> float:
        """Step by which place and width are moved to see how samples answer. [s]"""
        return _PROBE * self.samples.window_s
