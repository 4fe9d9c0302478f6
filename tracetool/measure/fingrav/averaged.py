"""Windows of an averaging sampler over a campaign: the part of each that every execution filled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.measure.fingrav.basis import Basis
from tracetool.measure.fingrav.executions import Executions
from tracetool.measure.fingrav.stitch import Samples

#: A sample that holds more than this of executions outside the golden bin is left out.
_ODD = 0.1
#: Time constants of settling tried: a quarter apart, so that none lies far from one; and in place of one that
#: explains nearly all, about it.
_CONSTANTS, _CLOSER = 14, 7
#: Probe of the windows' place and width, in windows.
_PROBE = 2e-3


@dataclass(frozen=True)
class _Cuts:
    """Execution and phase at each of n moments; executions are in order of time."""

    execution: Ints  # (n,) the last begun before each moment
    phase: Floats  # (n,) how far it was, 1 once over

    @classmethod
    def at(cls, time_s: Floats, start_s: Floats, end_s: Floats) -> _Cuts:
        last = np.searchsorted(start_s, time_s, side="right") - 1
        nth = np.maximum(last, 0)
        length = np.maximum(end_s[nth] - start_s[nth], 1e-12)
        return cls(nth, np.where(last < 0, 0.0, np.clip((time_s - start_s[nth]) / length, 0.0, 1.0)))

    def spent(self, seconds: Floats, before: Floats | None = None) -> Floats:
        """Return the sum of ``seconds`` of executions, shape (e,), up to each moment. Shape (n,).

        ``before`` is the sum of those before each, where it is known.
        """
        before = np.cumsum(seconds) - seconds if before is None else before
        return np.asarray(before[self.execution] + self.phase * seconds[self.execution])


@dataclass(frozen=True)
class Windows:
    """Samples used, and the positions of executions in their runs.

    Integrals are differences of running sums at both ends of a window: an hour of executions costs no more
    than the samples that saw it. Executions do not overlap.
    """

    executions: Executions  # in order of time
    inside: Bools  # (e,) of the golden bin, steady execution and after
    sse: int
    last: int
    samples: Samples  # those that touch a run or lie beside one
    constants: Floats  # (c,) executions over which power may settle

    @classmethod
    def of(cls, executions: Executions, samples: Samples, inside: Bools, sse: int, last: int) -> Windows:
        """Choose the samples: those that touch a run show its power, those next to one the idle power."""
        order = np.argsort(executions.start_s, kind="stable")
        e = executions
        ordered = Executions(e.run[order], e.position[order], e.start_s[order], e.end_s[order])
        constants = np.geomspace(1.5, max(0.6 * (last - sse), 3.0), _CONSTANTS)
        all_windows = cls(ordered, inside[order], sse, last, samples, constants)
        wide = replace(all_windows, samples=replace(samples, time_s=samples.time_s + samples.window_s))
        near = wide.share(np.ones(len(order)), 3.0 * samples.window_s) > 0
        odd = ~all_windows.inside & (ordered.position >= sse)
        near &= all_windows.share(odd.astype(np.float64)) < _ODD
        near_power_w = {name: power[near] for name, power in samples.power_w.items()}
        return replace(
            all_windows, samples=replace(samples, time_s=samples.time_s[near], power_w=near_power_w)
        )

    def about(self, constant: int) -> Windows:
        """Return these windows with closer time constants, from one before a constant to one after."""
        each = self.constants
        apart = each[1] / each[0]
        closer = np.geomspace(each[constant] / apart, each[constant] * apart, _CLOSER)
        return replace(self, constants=closer)

    def ends(self, place_s: float, width_s: float) -> tuple[_Cuts, _Cuts]:
        """Return begin and end of windows that each end ``place_s`` later and are ``width_s`` long. [s]"""
        end = self.samples.time_s + place_s
        start_s, end_s = self.executions.start_s, self.executions.end_s
        return _Cuts.at(end - width_s, start_s, end_s), _Cuts.at(end, start_s, end_s)

    def share(self, weight: Floats, width_s: float | None = None) -> Floats:
        """Return the share of each sample's window that executions filled, each counted ``weight`` times."""
        width = self.samples.window_s if width_s is None else width_s
        begin, end = self.ends(0.0, width)
        seconds = weight * self.executions.duration_s
        return (end.spent(seconds) - begin.spent(seconds)) / width

    def settling(self, position: Ints) -> Floats:
        """Return the share of settling left at a position in the run, by constant. Shape (n, c). [1]"""
        away = np.maximum(position - self.sse, 0)
        return np.asarray(np.exp(-away[:, None] / self.constants))

    def columns(self, place_s: float, width_s: float, basis: Basis, scale: Floats) -> Floats:
        """Return each window's share of a profile, of mean powers and of settling.

        Parameters
        ----------
        place_s, width_s : float
            As for :meth:`ends`. [s]
        basis : Basis
            Of the profile's departure from its mean, k functions.
        scale : array, shape (e,)
            Each execution's power over the steady one: the departure goes with it.

        Returns
        -------
        array, shape (n, k + sse + 3 + c)
            Means of the departure, for which whole executions add nothing; shares of steady executions, of
            each warm-up, of odd ones, of idle times; what of settling is left, by constant.
        """
        begin, end = self.ends(place_s, width_s)
        length = self.executions.duration_s
        full_integral = basis.integral(np.array([1.0]))

        def departed(cut: _Cuts) -> Floats:
            inner = basis.integral(cut.phase) - cut.phase[:, None] * full_integral
            return np.asarray(inner * (scale * length)[cut.execution][:, None])

        shares = np.stack([end.spent(*one) - begin.spent(*one) for one in self._running], axis=1) / width_s
        shares[:, self.sse + 2] = 1.0 - shares[:, self.sse + 2]
        return np.hstack([(departed(end) - departed(begin)) / width_s, shares])

    @cached_property
    def _running(self) -> list[tuple[Floats, Floats]]:
        """Seconds of each kind of execution, of all, and settling by constant; with their running sums."""
        length, position = self.executions.duration_s, self.executions.position
        steady = np.where(self.inside, length, 0.0)
        kinds = [steady, *(np.where(position == k, length, 0.0) for k in range(self.sse))]
        kinds += [np.where(~self.inside & (position >= self.sse), length, 0.0), length]
        unsettled = self.settling(np.arange(int(position.max(initial=0)) + 1)).T
        kinds += [steady * of_one[position] for of_one in unsettled]
        return [(one, np.cumsum(one) - one) for one in kinds]

    def probe_s(self) -> float:
        """Step by which place and width are moved to see how samples answer. [s]"""
        return _PROBE * self.samples.window_s
