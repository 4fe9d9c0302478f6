"""A run's timeline ready to be replayed: its dependencies, what-ifs applied, and the model's prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Numbers
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.families import names
from tracetool.kernels.collective_matching import Meetings
from tracetool.replay.activities import (
    Activities,
    HostCalls,
    Pauses,
)
from tracetool.replay.governed_replay import Governed, HeldLaunches, held_at
from tracetool.replay.governor import Governor
from tracetool.replay.graph import Graph
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve, count_weights, power_curve, scaled_to
from tracetool.replay.range_tree import Costs
from tracetool.replay.reused_memory import Memory, at_each
from tracetool.replay.scope_totals import COPIES
from tracetool.replay.timeline import Cap, Replayed, at_full_speed, overlapping, recorded_speed, replay
from tracetool.replay.totals import (
    ClockTotals,
    RunTotals,
    clock_totals,
    device_totals,
    only_device,
    peak_together_w,
    rates_at,
    run_totals,
)
from tracetool.tables.run import Run

Launching = Literal["recorded", "eager", "graph"]


@dataclass(frozen=True)
class RunReplay:
    """Everything one run's replays share."""

    run: Run
    work: Activities
    calls: HostCalls
    graph: Graph
    rows: OperatorColumns
    predicted: Prediction
    longer_than_s: Floats  # (s,) recorded time of each signature that the predicted one stands for, mean
    in_replay: Bools  # (n,) activities that were not dropped
    met: Meetings  # collectives that waited for one another across devices
    cap: Cap  # the power limit that activities running at once keep together
    pauses: Pauses  # silences left out of the timeline
    governed: Governed | None = None  # where the cap binds and its governor lets bursts pass
    pace: Floats | None = None  # (n,) factor on the time of each activity; None: 1
    memory: Memory = field(default_factory=Memory, repr=False)

    @property
    def launches(self) -> Floats:
        """Launches of each signature that still run. Shape (s,)."""
        count = np.bincount(self.work.signature[self.in_replay], minlength=len(self.rows))
        return count.astype(np.float64)

    @property
    def cap_may_bind(self) -> bool:
        """Whether the cap lowers any kernel's clock, or kernels run at once and it might."""
        return bool(self.predicted.throttled.any()) or overlapping(self.work)

    @property
    def collective(self) -> Bools:
        """Which activities are collectives. Shape (n,)."""
        return np.asarray((self.rows.family == names.COLLECTIVE)[self.work.signature])

    @property
    def _counted(self) -> Floats:
        """Share of its energy by counts that each activity draws: less where a cap lowered it. (n,)"""
        full = np.ones(len(self.work)) if self.cap.speed is None else self.cap.speed
        return np.where(self.in_replay, full, 0.0)

    def at(self, j: int, *, each: bool = False, memory: Memory | None = None) -> Replayed:
        """Replay at clock j; ``each`` keeps every activity's shares of the base and clock power.

        Without ``each`` the next call overwrites the starts and ends that this one returned.
        """
        held_launches = self._held_launches(j)
        source = self.predicted if held_launches is None or self.governed is None else self.governed.free
        predicted, mean = source.timing.duration_s[:, j], self.longer_than_s
        longer = np.divide(predicted, mean, out=np.ones_like(mean), where=mean > 0)
        duration = self.work.duration_ns * longer[self.work.signature]
        duration[~self.in_replay] = 0.0
        if held_launches is not None and held_launches.recorded:
            duration = np.where(self.in_replay, self.work.duration_ns, 0.0)
        elif held_launches is not None:
            duration *= held_launches.stretch(self.work.signature)
            duration *= 1.0 if self.cap.speed is None else self.cap.speed
        if self.pace is not None:
            duration = duration * self.pace
        return replay(
            self.graph,
            self.work,
            duration,
            rates_at(self.predicted, j),
            self.collective,
            cap=self._cap(j),
            each=each,
            memory=None if each else memory or self.memory,
        )

    def _held_launches(self, j: int) -> HeldLaunches | None:
        return None if self.governed is None else self.governed.at.get(j)

    def _cap(self, j: int) -> Cap:
        """Return the power limit at clock j, and the slowdown by it that the activities' times include."""
        held_launches = self._held_launches(j)
        if held_launches is None or self.governed is None:
            return self.cap
        return Cap(self._limit_w(j), self.governed.speed if held_launches.recorded else None)

    def _limit_w(self, j: int) -> float:
        """Return the power no moment passes at clock j: higher where a governor lets bursts pass. [W]"""
        if self.governed is None or j not in self.governed.at:
            return self.cap.limit_w
        return self.governed.burst_w

    def under(
        self, governor: Governor, free: Prediction, burst_w: float, recorded_at: int | None = None
    ) -> RunReplay:
        """Return this replay with the cap kept by a governor that has a time constant.

        Parameters
        ----------
        governor : Governor
            Its time constant.
        free : Prediction
            The signatures at the same clocks, with nothing but bursts limited.
        burst_w : float
            What no moment of them passes. [W]
        recorded_at : int, optional
            Clock at which everything is as it was recorded: every activity takes its recorded time.
        """
        uncapped = replace(self, predicted=free, cap=Cap(burst_w, self.cap.speed))
        # one clock after another: two at once are no quicker and take 0.4 GiB more of 2.5 million activities
        at = {
            j: held_launches
            for j in range(len(free.requested_mhz))
            if (held_launches := self._held_under(governor, uncapped, j)) is not None
        }
        if recorded_at in at:
            asked_s, capped_s = (p.timing.duration_s[:, recorded_at] for p in (free, self.predicted))
            at[recorded_at] = at[recorded_at].as_recorded(asked_s, capped_s, self.longer_than_s)
        if not at:
            return self
        governed = Governed(free, self.predicted, at, burst_w, governor)
        predicted = governed.predicted()
        if recorded_at in at:  # bursts kept their limit when they were recorded too
            rates = rates_at(predicted, recorded_at)
            speed = recorded_speed(self.work, rates, burst_w, self.met.member)
            governed = replace(governed, speed=speed)
        return replace(self, predicted=predicted, governed=governed)

    def _held_under(self, governor: Governor, uncapped: RunReplay, j: int) -> HeldLaunches | None:
        free, capped = (rates_at(one.predicted, j) for one in (uncapped, self))
        at_asked_clock = uncapped.at(j)
        if at_asked_clock.demand_w <= self.cap.limit_w:
            return None
        before, after = (one.predicted.timing.duration_s[:, j] for one in (uncapped, self))
        longer = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        if overlapping(self.work):
            steady, signature, s = self.at(j, each=True), self.work.signature, len(before)
            times = [
                np.bincount(signature, r.end_ns - r.start_ns, minlength=s) for r in (at_asked_clock, steady)
            ]
            longer = np.divide(times[1], times[0], out=longer, where=times[0] > 0)
        return held_at(
            self.work.signature,
            self.work.device,
            at_asked_clock.start_ns,
            at_asked_clock.end_ns,
            free=free,
            capped=capped,
            longer=np.maximum(longer, 1.0),
            idle_w=float(uncapped.predicted.idle_w[j]),
            limit_w=self.cap.limit_w,
            governor=governor,
        )

    def totals(self, *, anchored: bool, brief: bool = False) -> RunTotals:
        """Return time, power and energy of the run at every clock; the records state ``anchored``.

        ``brief``: without the power over time, from which the records of GPUs and highest powers are.
        """
        of_clock = self._sums if brief else self._totals
        clocks = at_each(len(self.predicted.requested_mhz), of_clock, self.memory, len(self.work))
        totals = run_totals(self.rows, self.predicted, clocks, devices=self.work.devices, anchored=anchored)
        for j, (record, clock) in enumerate(zip(totals.records, clocks, strict=True)):
            record.update(self._throttled_ends(record, j))
            self._widen(record, j)
            if not brief:
                record["devices"] = clock.devices or [only_device(int(self.work.device[0]), record)]
        return totals

    def _sums(self, j: int, memory: Memory) -> ClockTotals:
        return self._summed(self.at(j, memory=memory), j)

    def _summed(self, replayed: Replayed, j: int) -> ClockTotals:
        counted = np.bincount(self.work.signature, weights=self._counted, minlength=len(self.rows))
        return clock_totals(self.predicted, counted.astype(np.float64), self.work.signature, replayed, j)

    def _totals(self, j: int, memory: Memory) -> ClockTotals:
        replayed = self.at(j, memory=memory)
        totals = self._summed(replayed, j)
        if self.work.devices == 1 and self._held_launches(j) is None:
            return totals
        capped = self._curves(replayed, j)
        if self.work.devices == 1:
            return replace(totals, peak_w=peak_together_w(capped))
        copies = np.isin(self.rows.family.astype(str), COPIES)[self.work.signature]
        devices = device_totals(self.work, replayed, copies, self._curves(replayed, j, weighted=True), capped)
        # the peak is that of all GPUs, as the mean beside it
        return replace(totals, peak_w=peak_together_w(capped), devices=devices)

    def _throttled_ends(self, record: Mapping[str, Any], j: int) -> dict[str, float]:
        """Return the interval of a clock's throttled share: that of the governor's time constant."""
        share, ends = float(record["throttled_share"]), []
        if self.governed is not None and j in self.governed.at:
            held_launches, kernels = self.governed.at[j], ~np.isin(self.rows.family.astype(str), COPIES)
            free_s = self.governed.free.timing.duration_s[:, j] * self.launches * kernels
            for held_share in (held_launches.slow, held_launches.fast):
                slowed = free_s * held_share * held_launches.longer * (held_launches.longer > 1.0)
                kernel_s = free_s * (1.0 + held_share * (held_launches.longer - 1.0))
                ends.append(float(slowed.sum() / kernel_s.sum()) if kernel_s.sum() > 0 else share)
        low, high = min([share, *ends]), max([share, *ends])
        return {"throttled_share_low": low, "throttled_share_high": high}

    def _widen(self, record: dict[str, Any], j: int) -> None:
        """Widen the intervals of a clock's totals by that of the governor's time constant, in place."""
        if self.governed is None or j not in self.governed.at:
            return
        free_s = self.governed.free.timing.duration_s[:, j] * self.launches
        time, energy = self.governed.spread(j, free_s, self.launches)
        for name, unit, sides in (
            ("kernel_time", "ms", time * 1e3),
            ("makespan", "ms", time * 1e3),
            ("kernel_energy", "j", energy),
            ("energy", "j", energy),
        ):
            value = record[f"{name}_{unit}"]
            for end, side, sign in zip(("low", "high"), sides, (-1.0, 1.0), strict=True):
                apart = float(np.hypot(record[f"{name}_{end}_{unit}"] - value, side))
                record[f"{name}_{end}_{unit}"] = max(value + sign * apart, 0.0)

    def curves(self, j: int) -> dict[int, PowerCurve]:
        """Return the power of each device over time at clock j, within the span of the timeline."""
        return self._curves(self.at(j, each=True), j, weighted=True)

    def recorded_curves(self, j: int) -> dict[int, PowerCurve]:
        """Return the power of each device over the recorded times, from the run's first start, at clock j."""
        rows = self.run.table("kernels", ["start_ns", "duration_ns"])
        start = (rows["start_ns"] - rows["start_ns"].min()).cast(pl.Float64).to_numpy()
        return self._drawn(start, start + rows["duration_ns"].cast(pl.Float64).to_numpy(), j, None)

    def _curves(self, replayed: Replayed, j: int, *, weighted: bool = False) -> dict[int, PowerCurve]:
        """Return each device's power over a replayed timeline; ``weighted``: its integral is the energy."""
        weight = None
        if weighted:
            rates, signature = self._levels(j)
            done = at_full_speed(self.work, replayed, rates_at(self.predicted, j), self._limit_w(j))
            weight = count_weights(done, self._counted, signature, rates)
        curves = self._drawn(replayed.start_ns, replayed.end_ns, j, weight)
        if not weighted or self._held_launches(j) is None:
            return curves
        # Powers are those of the nearest level: what that rounds is given back above the idle power.
        run = self._summed(replayed, j)
        idle_w = float(self.predicted.idle_w[j])
        energy_j = float(run.energy_j.sum()) + idle_w * float(run.gap_s.sum())
        return scaled_to(curves, energy_j, idle_w)

    def _drawn(
        self, start_ns: Floats, end_ns: Floats, j: int, weight: Floats | None
    ) -> dict[int, PowerCurve]:
        span = float(start_ns.min(initial=np.inf)), float(end_ns.max(initial=-np.inf))
        rates, signature = self._levels(j)
        return {
            device: power_curve(
                start_ns,
                end_ns,
                signature,
                rates,
                idle_w=float(self.predicted.idle_w[j]),
                span_ns=span,
                members=members,
                cap_w=self._limit_w(j),
                weight=weight,
            )
            for device, members in self.work.by_device
        }

    def _levels(self, j: int) -> tuple[Rates, Numbers]:
        """Return powers at clock j, and each activity's row in them."""
        if self.governed is None or j not in self.governed.at:
            return rates_at(self.predicted, j), self.work.signature
        return self.governed.levels(j, self.work.signature)

    def costs(self, j: int) -> Costs:
        """Return when every activity runs at clock j and the energy it answers for."""
        replayed = self.at(j, each=True)
        rates, s = rates_at(self.predicted, j), self.work.signature
        shares = rates.base_w[s] * replayed.each_base_ns + rates.clock_w[s] * replayed.each_clock_ns
        energy = shares * 1e-9 + self._counted * rates.counts_j[s]
        return Costs(replayed.start_ns, replayed.end_ns, energy)
