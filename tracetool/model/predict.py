"""Time, power and energy of rows at clocks: the physics put together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction, Timing, joined
from tracetool.hardware.gpu import Gpu
from tracetool.model.anchor import Anchor, scaled_timing, with_memory_efficiency
from tracetool.model.anchor_groups import between, blended
from tracetool.model.counters import counted_shares, counter_timing, from_counters
from tracetool.model.idle import idle_power_w, leakage_w
from tracetool.model.operands import as_measured, content_sd
from tracetool.model.operating_point import clocks_under_cap, loop_groups
from tracetool.model.power import PowerParts, anchored_parts, power_parts
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import power_calibration_of
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

    def take(self, chosen: Ints) -> _Workload:
        anchor = None if self.anchor is None else self.anchor.take(chosen)
        shares = None if self.shares is None else self.shares.take(chosen)
        return replace(
            self, rows=self.rows.take(chosen), pieces=self.pieces.take(chosen), anchor=anchor, shares=shares
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
        origin = replace(self, rows=measured_rows)._parts(measured_timing, start, None)
        counted = from_counters(self.rows)
        scaled = anchored_parts(
            parts, origin, measured_timing, timing, anchor=self.anchor, monitored=counted, clock_mhz=clock_mhz
        )
        measured = self.anchor.measured & (self.anchor.power_w > 0)
        return timing, scaled.wider(content_sd(self.rows, measured))

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

        def parts(power: PowerCalibration) -> PowerParts:
            return power_parts(
                self.rows, self.gpu, timing, clock_mhz, power=power, memory_share=share[:, None]
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
        more = self_heating_w(parts.power_w(timing), idle, leaks, power.leakage_per_w) * timing.duration_s
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
        return joined(len(self.rows), clock_mhz.shape[1], pieces)

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
        the model's ratio between the clocks.
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
    start = Anchor.of(rows, gpu) if anchor else None
    factors = sequence_factors() if among_others is True else among_others or None
    # tiles and splits do not depend on the clock: they are laid out once for all clocks
    pieces = row_pieces(rows, gpu, time_calibration)
    shares = None if start is None else counted_shares(rows, gpu, start)
    warm = surroundings or Surroundings()
    workload = _Workload(rows, gpu, mem_clock_mhz, pieces, power, start, factors, warm, shares)
    spread = np.broadcast_to(clocks, (len(rows), len(clocks))).copy()
    timing, parts = workload.at(spread)
    limit_w = _limit_w(gpu, start, power_cap_w)
    cap = power.cap_share * limit_w

    def at(chosen: Ints, clock_mhz: Floats) -> tuple[Floats, Floats]:
        row_timing, row_parts = workload.take(chosen).at(clock_mhz)
        return row_parts.total(), row_timing.duration_s

    supported = gpu.supported_clocks_mhz()
    cost = (parts.total(), timing.duration_s)
    groups = loop_groups(timing.duration_s, launches)
    settled = clocks_under_cap(at, cost, clocks, supported, cap, groups=groups)
    if (settled < spread).any():
        timing, parts = workload.at(settled)
        parts = parts.at_most(cap, timing) if launches is None else parts
    if start is not None and (place := between(rows, start, clocks)) is not None:
        assert shares is not None
        timing, parts = blended(timing, parts, place, shares.log_sd_per_octave)
    return _with_intervals(workload, clocks, settled, timing, parts, limit_w)


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


def _with_intervals(
    workload: _Workload, clocks: Floats, settled: Floats, timing: Timing, parts: PowerParts, limit_w: float
) -> Prediction:
    """Return the prediction with 90 % intervals.

    An error of the coefficients and an error of the time are independent. If a kernel takes longer
    than predicted, its counts cost the same: the base energy grows with the time, and the power of
    the counts falls.
    """
    energy = parts.total()
    with np.errstate(divide="ignore", invalid="ignore"):
        base_share = np.where(energy > 0, parts.joules["base"] / energy, 1.0)
    base_share = np.clip(base_share, 0.0, 1.0)
    coefficients = Z90 * parts.relative_sd
    slower, faster = np.log(timing.high)[:, None], -np.log(timing.low)[:, None]

    def spread(time: Floats, share: Floats) -> Floats:
        return np.asarray(np.exp(np.hypot(coefficients, time * share)))

    power_w = parts.power_w(timing)
    # The governor lets no power stand above the limit, whatever the error of the coefficients.
    most = np.maximum(power_w, limit_w)
    return Prediction(
        requested_mhz=clocks,
        clock_mhz=np.asarray(settled),
        timing=timing,
        power_w=power_w,
        power_low_w=power_w / spread(slower, 1.0 - base_share),
        power_high_w=np.minimum(power_w * spread(faster, 1.0 - base_share), most),
        energy_j=energy,
        energy_low_j=energy / spread(faster, base_share),
        energy_high_j=energy * spread(slower, base_share),
        parts_j=parts.joules,
        throttled=settled < clocks,
        idle_w=workload.idle_w(clocks),
    )
