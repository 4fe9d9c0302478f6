"""Rows on a GPU, to be timed and powered at any clocks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, by_clock
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing, joined
from tracetool.hardware.gpu import Gpu
from tracetool.model.anchor import Anchor, scaled_timing, with_memory_efficiency
from tracetool.model.counters import counter_timing, from_counters, with_fitted_split
from tracetool.model.idle import idle_power_w, leakage_change, leakage_w
from tracetool.model.operands import as_measured, content_sd
from tracetool.model.power import PowerParts, anchored_parts, power_parts
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.profiler_overhead import as_recorded
from tracetool.model.sequence import SequenceFactors, in_sequence
from tracetool.model.thermal import Surroundings, self_heating_w, steady_temperature_c
from tracetool.model.time_shares import TimeShares
from tracetool.model.timing import RowPieces, time_rows

#: Rounds of power and temperature: each adds a few per cent of the one before. [1] By definition of the
#: fixed-point iteration: where it stops.
_WARMING = 6


@dataclass(frozen=True)
class Workload:
    """Rows on a GPU, to be predicted at any clocks.

    Attributes
    ----------
    rows : OperatorColumns
        n pieces of work.
    gpu : Gpu
        The GPU they run on.
    mem_clock_mhz : float or None
        Memory clock asked for; None: the GPU's, of anchored rows the measured one. [MHz]
    pieces : RowPieces
        Tiles, splits and traffic of the rows: what does not depend on the clock.
    power : PowerCalibration
        Coefficients of power.
    anchor : Anchor or None
        Measured times and powers the rows are scaled from.
    sequence : SequenceFactors or None
        What rows that run as parts of a model cost beside their own loop; None: each in a loop of its own.
    surroundings : Surroundings
        How warm the GPU is.
    shares : TimeShares or None
        Parts of the measured times that follow the core clock, the memory clock and neither.
    several : array, shape (n,)
        Rows whose kernel was measured at several clocks.
    as_measured : bool
        The rows are read at the temperature and with the operands they were measured with.
    """

    rows: OperatorColumns
    gpu: Gpu
    mem_clock_mhz: float | None
    pieces: RowPieces
    power: PowerCalibration
    anchor: Anchor | None
    sequence: SequenceFactors | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    shares: TimeShares | None = None
    several: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    as_measured: bool = False

    def take(self, chosen: Ints) -> Workload:
        """Return the chosen rows. Shape (r,)."""
        anchor = None if self.anchor is None else self.anchor.take(chosen)
        shares = None if self.shares is None else self.shares.take(chosen)
        return replace(
            self,
            rows=self.rows.take(chosen),
            pieces=self.pieces.take(chosen),
            anchor=anchor,
            shares=shares,
            several=self.several[chosen],
        )

    def at(self, clock_mhz: Floats) -> tuple[Timing, PowerParts]:
        """Return timing and energy parts at clocks of shape (n, c)."""
        timing = self._timing(clock_mhz, self.mem_clock_mhz)
        parts = self._warm(self._parts(timing, clock_mhz, self.mem_clock_mhz), timing, clock_mhz)
        if self.anchor is None or not (self.anchor.measured & (self.anchor.power_w > 0)).any():
            return timing, parts.wider(content_sd(self.rows, np.zeros(len(self.rows), np.bool_)))
        start = self.anchor.start_clock(clock_mhz)
        measured_timing = self._timing(start, None)
        measured_rows = replace(self.rows, columns=as_measured(self.rows.columns))
        origin = replace(self, rows=measured_rows, as_measured=True)._parts(measured_timing, start, None)
        counted = from_counters(self.rows)
        scaled = anchored_parts(
            parts,
            origin,
            measured_timing,
            timing,
            anchor=self.anchor,
            monitored=counted,
            clock_mhz=clock_mhz,
            voltage_read=self.voltage_read,
        )
        measured = self.anchor.measured & (self.anchor.power_w > 0)
        return timing, scaled.wider(content_sd(self.rows, measured))

    def of(self, chosen: Ints, clock_mhz: Floats) -> tuple[Timing, PowerParts]:
        """Return timing and energy parts of the chosen rows at clocks of shape (r, c)."""
        return self.take(chosen).at(clock_mhz)

    @property
    def voltage_read(self) -> bool:
        """Whether the GPU's voltage over its clocks was measured."""
        return (self.power.voltage or self.gpu.voltage).measured

    def idle_w(self, clock_mhz: Floats) -> Floats:
        """Return the idle power. [W]"""
        nominal_mhz = self.gpu.memory_clock_mhz
        memory_share = (self.mem_clock_mhz or nominal_mhz) / nominal_mhz
        return idle_power_w(self.gpu, clock_mhz, self.power, memory_share=memory_share)

    def _parts(self, timing: Timing, clock_mhz: Floats, mem_clock_mhz: float | None) -> PowerParts:
        share: Floats | float = 1.0
        if mem_clock_mhz is not None:
            share = mem_clock_mhz / self.gpu.memory_clock_mhz
        elif self.anchor is not None:
            share = (self.anchor.mem_clock_mhz / self.gpu.memory_clock_mhz)[:, None]

        metered = None if self.anchor is None else self.anchor.measured & (self.anchor.power_w > 0)

        def parts(power: PowerCalibration) -> PowerParts:
            return power_parts(
                self.rows,
                self.gpu,
                timing,
                clock_mhz,
                power=power,
                memory_share=share,
                metered=metered,
            )

        operator_parts = self._heated(parts(self.power), self.power, timing, clock_mhz)
        if self.anchor is None or self.power.monitored is None:
            return operator_parts
        monitored_parts = self._heated(parts(self.power.monitored), self.power.monitored, timing, clock_mhz)
        return operator_parts.where(self.anchor.measured & from_counters(self.rows), monitored_parts)

    def _heated(
        self, parts: PowerParts, power: PowerCalibration, timing: Timing, clock_mhz: Floats
    ) -> PowerParts:
        """Return the parts with what a chip warmed by them leaks more, unless its temperature is stated."""
        if power.leakage_per_w == 0.0 or self.surroundings != Surroundings():
            return parts
        leaks = leakage_w(self.gpu, by_clock(clock_mhz), power)
        seconds = np.maximum(timing.duration_s, 1e-15)
        idle = parts.joules["base"] / seconds
        heat_w = self_heating_w(parts.power_w(timing), idle, leaks, power.leakage_per_w)
        if self.as_measured:
            read_c = self.rows.number("temperature_c")[:, None]
            heat_w = np.where(np.isnan(read_c), heat_w, leaks * leakage_change(power, read_c))
        warmer_j = heat_w * timing.duration_s
        return replace(parts, joules={**parts.joules, "base": parts.joules["base"] + warmer_j})

    def _warm(self, parts: PowerParts, timing: Timing, clock_mhz: Floats) -> PowerParts:
        """Return the parts with leakage at the temperature their own power leads to: a fixed point."""
        if self.surroundings == Surroundings():
            return parts
        idle_w = idle_power_w(self.gpu, clock_mhz, self.power)
        cold = parts
        for _ in range(_WARMING):
            warm = steady_temperature_c(parts.power_w(timing), self.gpu, self.surroundings)
            if warm is None:
                return parts
            added = idle_power_w(self.gpu, clock_mhz, self.power, warm) - idle_w
            base = cold.joules["base"] + added * timing.duration_s
            parts = replace(cold, joules={**cold.joules, "base": base})
        return parts

    def _timing(self, clock_mhz: Floats, mem_clock_mhz: float | None) -> Timing:
        if self.anchor is None:
            alone = time_rows(self.rows, self.gpu, clock_mhz, mem_clock_mhz, pieces=self.pieces)
            alone = self._with_open_conditions(alone, clock_mhz)
            if self.sequence is None:
                return alone
            return in_sequence(alone, self.rows, self.gpu, clock_mhz, self.sequence)
        counted = self.anchor.measured & from_counters(self.rows)
        pieces = []
        if (chosen := np.flatnonzero(counted)).size:
            counted_rows = self.take(chosen)
            assert counted_rows.anchor is not None
            assert counted_rows.shares is not None
            timing = counter_timing(
                counted_rows.rows,
                self.gpu,
                counted_rows.anchor,
                counted_rows.shares,
                clock_mhz[chosen],
                mem_clock_mhz,
            )
            pieces.append((chosen, timing))
        for measured_mem_mhz in np.unique(self.anchor.mem_clock_mhz[~counted]).tolist():
            chosen = np.flatnonzero(~counted & (self.anchor.mem_clock_mhz == measured_mem_mhz))
            scaled = self.take(chosen)._scaled(clock_mhz[chosen], mem_clock_mhz, measured_mem_mhz)
            pieces.append((chosen, scaled))
        timing = joined(len(self.rows), clock_mhz.shape[1], pieces)
        by_times = self.several & ~counted
        if self.shares is None or not by_times.any():
            return timing
        return with_fitted_split(timing, self.anchor, self.shares, clock_mhz, mem_clock_mhz, by_times)

    def _with_open_conditions(self, timing: Timing, clock_mhz: Floats) -> Timing:
        """Return a timing with intervals that include the uncertainties of a recording."""
        if "duration_sd_us" not in self.rows.columns and "recorded_clock_low_mhz" not in self.rows.columns:
            return timing
        lowest = np.fmin(self.rows.number("recorded_clock_low_mhz"), clock_mhz[:, 0])[:, None]
        return as_recorded(timing, self.rows, time_rows(self.rows, self.gpu, lowest, pieces=self.pieces))

    def _scaled(self, clock_mhz: Floats, mem_clock_mhz: float | None, measured_mem_mhz: float) -> Timing:
        """Return the timing of rows measured at one memory clock, by the ratio of the model's times."""
        assert self.anchor is not None
        measured_mhz = self.anchor.start_clock(clock_mhz)
        mem = measured_mem_mhz if mem_clock_mhz is None else mem_clock_mhz
        predicted = time_rows(self.rows, self.gpu, clock_mhz, mem, pieces=self.pieces)
        origin = time_rows(self.rows, self.gpu, measured_mhz, measured_mem_mhz, pieces=self.pieces)
        octaves = np.hypot(np.log2(clock_mhz / measured_mhz), np.log2(mem / measured_mem_mhz))
        slowest = None
        if (lowest := self.anchor.lowest_clock(clock_mhz)).tolist() != measured_mhz.tolist():
            slowest = time_rows(self.rows, self.gpu, lowest, measured_mem_mhz, pieces=self.pieces)
            slowest = with_memory_efficiency(slowest, self.gpu, lowest, measured_mhz)
        scaled = with_memory_efficiency(predicted, self.gpu, clock_mhz, measured_mhz)
        return scaled_timing(scaled, origin, self.anchor, octaves, slowest)
