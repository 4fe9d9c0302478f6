"""Time, power and energy of rows at clocks: the physics put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction, Timing, joined
from tracetool.hardware.gpu import Gpu
from tracetool.model.anchor import Anchor, scaled_timing, with_memory_efficiency
from tracetool.model.anchor_groups import between, blended
from tracetool.model.blocks import PLANNED_ROWS, SETTLED_ROWS, predicted_in_blocks, slices
from tracetool.model.counters import (
    counted_shares,
    counter_timing,
    from_counters,
    measured_at_several,
    with_fitted_split,
)
from tracetool.model.idle import idle_power_w, leakage_change, leakage_w
from tracetool.model.intervals import with_intervals
from tracetool.model.operands import as_measured, content_sd
from tracetool.model.operating_point import loop_groups
from tracetool.model.own_kernels import with_own_kernels
from tracetool.model.own_scatter import own_scatter
from tracetool.model.phases import govern
from tracetool.model.power import PowerParts, anchored_parts, power_parts
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of
from tracetool.model.power_transfer import with_base_under
from tracetool.model.sequence import SequenceFactors, in_sequence, sequence_factors
from tracetool.model.shares import TimeShares
from tracetool.model.thermal import Surroundings, self_heating_w, steady_temperature_c
from tracetool.model.timing import RowPieces, TimeCalibration, row_pieces, time_rows
from tracetool.model.traced import as_recorded

#: Rounds of power and temperature: each adds a few per cent of the one before. [1] By definition of the
#: fixed-point iteration: where it stops.
_WARMING = 6


@dataclass(frozen=True)
class _Workload:
    """Rows on a GPU, to be predicted at any clocks."""

    rows: OperatorColumns
    gpu: Gpu
    mem_clock_mhz: float | None
    pieces: RowPieces
    power: PowerCalibration
    anchor: Anchor | None
    sequence: SequenceFactors | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    shares: TimeShares | None = None
    #: Rows whose kernel was measured at several clocks. Shape (n,).
    several: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    as_measured: bool = False

    def take(self, chosen: Ints) -> _Workload:
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
        """Return the power with nothing running. [W]"""
        usual = self.gpu.memory_clock_mhz
        return idle_power_w(
            self.gpu, clock_mhz, self.power, memory_share=(self.mem_clock_mhz or usual) / usual
        )

    def _parts(self, timing: Timing, clock_mhz: Floats, mem_clock_mhz: float | None) -> PowerParts:
        usual = np.full(len(self.rows), self.gpu.memory_clock_mhz)
        if mem_clock_mhz is not None:
            share = mem_clock_mhz / usual
        elif self.anchor is not None:
            share = self.anchor.mem_clock_mhz / usual
        else:
            share = np.ones(len(self.rows))

        metered = None if self.anchor is None else self.anchor.measured & (self.anchor.power_w > 0)

        def parts(power: PowerCalibration) -> PowerParts:
            return power_parts(
                self.rows,
                self.gpu,
                timing,
                clock_mhz,
                power=power,
                memory_share=share[:, None],
                metered=metered,
            )

        operator_parts = self._heated(parts(self.power), self.power, timing, clock_mhz)
        if self.anchor is None or self.power.monitored is None:
            return operator_parts
        other = self._heated(parts(self.power.monitored), self.power.monitored, timing, clock_mhz)
        return operator_parts.where(self.anchor.measured & from_counters(self.rows), other)

    def _heated(
        self, parts: PowerParts, power: PowerCalibration, timing: Timing, clock_mhz: Floats
    ) -> PowerParts:
        """Return the parts with what a chip warmed by them leaks more, unless its temperature is said."""
        if power.leakage_per_w == 0.0 or self.surroundings != Surroundings():
            return parts
        leaks = leakage_w(self.gpu, clock_mhz, power)
        seconds = np.maximum(timing.duration_s, 1e-15)
        idle = parts.joules["base"] / seconds
        heat_w = self_heating_w(parts.power_w(timing), idle, leaks, power.leakage_per_w)
        if self.as_measured:
            read_c = self.rows.number("temperature_c")[:, None]
            heat_w = np.where(np.isnan(read_c), heat_w, leaks * leakage_change(power, read_c))
        more = heat_w * timing.duration_s
        return replace(parts, joules={**parts.joules, "base": parts.joules["base"] + more})

    def _warm(self, parts: PowerParts, timing: Timing, clock_mhz: Floats) -> PowerParts:
        """Return the parts with leakage at the temperature their own power leads to: a fixed point."""
        usual = idle_power_w(self.gpu, clock_mhz, self.power)
        cold = parts
        for _ in range(_WARMING):
            warm = steady_temperature_c(parts.power_w(timing), self.gpu, self.surroundings)
            if warm is None:
                return parts
            added = idle_power_w(self.gpu, clock_mhz, self.power, warm) - usual
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
        for usual in np.unique(self.anchor.mem_clock_mhz[~counted]):
            chosen = np.flatnonzero(~counted & (self.anchor.mem_clock_mhz == usual))
            pieces.append((chosen, self.take(chosen)._scaled(clock_mhz[chosen], mem_clock_mhz, float(usual))))
        timing = joined(len(self.rows), clock_mhz.shape[1], pieces)
        by_times = self.several & ~counted
        if self.shares is None or not by_times.any():
            return timing
        return with_fitted_split(timing, self.anchor, self.shares, clock_mhz, mem_clock_mhz, by_times)

    def _with_open_conditions(self, timing: Timing, clock_mhz: Floats) -> Timing:
        """Return a timing with intervals that hold what a recording leaves open of its rows."""
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


def predict_rows(
    rows: OperatorColumns,
    gpu: Gpu,
    clocks_mhz: Floats,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    time_calibration: TimeCalibration | None = None,
    power_calibration: PowerCalibration | None = None,
    anchor: bool = False,
    from_others: bool = False,
    among_others: bool | SequenceFactors = False,
    surroundings: Surroundings | None = None,
    launches: Floats | None = None,
) -> Prediction:
    r"""Predict time, power and energy of each row at each clock.

    .. math:: E = t P_{base}(f, V) + V^2 (\sum_i e_i N_i + e_{SM} S \phi f t) + \sum_o e_o N_o

    Parameters
    ----------
    rows : OperatorColumns
        n pieces of work.
    gpu : Gpu
        The GPU they run on.
    clocks_mhz : array, shape (c,)
        Core clocks asked for. [MHz]
    mem_clock_mhz : float, optional
        Memory clock, by default the GPU's (anchored rows: the measured one). [MHz]
    power_cap_w : float, optional
        Power limit, by default the GPU's. [W]
    time_calibration, power_calibration : optional
        Coefficients; by default the GPU's own, else priors.
    anchor : bool
        Scale rows with a measured ``duration_us`` at ``recorded_clock_mhz`` (and ``power_w``) by
        the model's ratio between the clocks; rows of known shape without one are predicted from those
        (:mod:`tracetool.model.own_kernels`).
    from_others : bool
        Predict each row from the measured ones of other shapes instead, whatever its own measurement.
    among_others : bool
        The rows run as parts of a model, not each in a loop of its own; see :mod:`tracetool.model.sequence`.
        Factors of one's own may be given.
    surroundings : Surroundings, optional
        How warm the GPU is; by default as warm as when its coefficients were measured.
    launches : array, shape (n,), optional
        How often each row runs in one sequence. The cap then acts on the mean power of its short rows
        together, as a governor slower than they are does; by default on each row as if it ran alone.

    Returns
    -------
    Prediction
        Arrays of shape (n, c); see the record.

    Raises
    ------
    BadInput
        If too little is known of the GPU to predict on it.
    """
    gpu.require_model()
    clocks = np.atleast_1d(np.asarray(clocks_mhz, np.float64))
    power = power_calibration or power_calibration_of(gpu)
    start = Anchor.of(rows, gpu) if anchor and not from_others else None
    if start is not None:
        has_power = start.measured & (start.power_w > 0)
        read = (array[has_power] for array in (start.power_w, start.clock_mhz, start.mem_clock_mhz))
        power_w, read_mhz, memory_mhz = read
        power = with_base_under(power, gpu, power_w, read_mhz, memory_mhz / gpu.memory_clock_mhz)
    factors = sequence_factors() if among_others is True else among_others or None
    warm = surroundings or Surroundings()
    limit_w = _limit_w(gpu, start, power_cap_w)
    measured_limit_w = _limit_w(gpu, start, None)
    reached = reached_clocks(clocks, gpu, start)

    def settled(workload: _Workload) -> Prediction:
        return _settled(workload, clocks, reached, limit_w, measured_limit_w, launches)

    if len(rows) > PLANNED_ROWS and not anchor and not from_others and launches is None:

        def of_block(block: slice) -> Iterator[tuple[slice, Prediction]]:
            some = rows.take(np.arange(block.start, block.stop))
            pieces = row_pieces(some, gpu, time_calibration)
            for part in slices(0, len(some), SETTLED_ROWS):
                workload = _Workload(
                    some.take(np.arange(part.start, part.stop)),
                    gpu,
                    mem_clock_mhz,
                    pieces.take(part),
                    power,
                    None,
                    factors,
                    warm,
                    several=np.zeros(part.stop - part.start, np.bool_),
                )
                yield slice(block.start + part.start, block.start + part.stop), settled(workload)

        return predicted_in_blocks(len(rows), of_block)
    # tiles and splits do not depend on the clock: they are laid out once for all clocks
    pieces = row_pieces(rows, gpu, time_calibration)
    if anchor or from_others:
        pieces = with_own_kernels(rows, gpu, pieces, start or Anchor.of(rows, gpu), leave_out=from_others)
    shares = None if start is None else counted_shares(rows, gpu, start)
    several = np.zeros(len(rows), np.bool_) if start is None else measured_at_several(rows, start)
    return settled(_Workload(rows, gpu, mem_clock_mhz, pieces, power, start, factors, warm, shares, several))


def _settled(
    workload: _Workload,
    clocks: Floats,
    reached: Floats,
    limit_w: float,
    measured_limit_w: float,
    launches: Floats | None,
) -> Prediction:
    """Return the rows at the operating points their power limit leaves them, with intervals."""
    rows, start, power = workload.rows, workload.anchor, workload.power
    timing, parts = workload.at(np.broadcast_to(reached, (len(rows), len(clocks))))
    cap_w = power.cap_share * limit_w
    governed = govern(
        workload.of,
        (timing, parts),
        reached,
        workload.gpu.supported_clocks_mhz(),
        cap_w,
        groups=loop_groups(timing.duration_s, launches),
        anchor=start,
        measured_cap_w=power.cap_share * measured_limit_w,
    )
    if launches is None and governed.throttled.any():
        governed = replace(governed, parts=governed.parts.at_most(cap_w, governed.timing))
    if start is not None and (place := between(rows, start, reached)) is not None:
        assert workload.shares is not None
        per_octave, read_voltage = workload.shares.log_sd_per_octave, workload.voltage_read
        own = own_scatter(rows, start, workload.of, per_octave, voltage_read=read_voltage)
        timing, parts = blended(
            governed.timing, governed.parts, place, per_octave, start,
            scatter=own.beside(place), voltage_read=read_voltage,
        )  # fmt: skip
        governed = replace(governed, timing=timing, parts=parts)
    programs = np.zeros(len(rows), np.bool_) if start is None else start.programs()
    return with_intervals(governed, clocks, workload.idle_w(clocks), limit_w, programs)


def reached_clocks(clocks_mhz: Floats, gpu: Gpu, start: Anchor | None) -> Floats:
    """Return the clocks a GPU runs at when asked for some: none above its highest or a measured one."""
    stated = gpu.numbers.get("clock_max_mhz")
    top = max(gpu.clock_max_mhz, stated.high if stated is not None else 0.0)
    if start is not None and start.measured.any():
        top = max(top, float(start.clock_mhz[start.measured].max()))
    return np.minimum(clocks_mhz, top)


def _limit_w(gpu: Gpu, start: Anchor | None, asked_w: float | None) -> float:
    """Return the power limit: the one asked for, else the GPU's.

    A GPU that was measured may have been set to any limit its kind allows, and a reading says that
    its limit was no lower.
    """
    if asked_w is not None:
        return float(asked_w)
    if start is None or not start.measured.any():
        return gpu.power_limit_w
    most = max(gpu.power_limit_w, np.nan_to_num(gpu.power_limit_max_w))
    return float(np.nanmax([most, *start.power_w[start.measured]]))
