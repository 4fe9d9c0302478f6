"""Anchored prediction: a measured kernel, scaled by the model's ratio between two clocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.memory_efficiency import memory_efficiency
from tracetool.model.time_shares import PROGRAM_S

#: Basis of a time that came from a family's usual split and the row's own measurement.
FROM_SPLIT = "family rate"
#: Spread of such a time per doubling of a clock, relative; and of any time measured again at its own clock.
SPLIT_SD_PER_OCTAVE = prior_number("anchor.split_per_octave")
_READING_SD = prior_table("anchor.reading")
#: Power to which the band of the model's own error is taken between two clocks.
_ERROR_LEFT = prior_number("anchor.error_left")
#: Spread of an anchored power per doubling of the clock: of a kernel, of a program, which waits too, and, per
#: root of it, where the GPU's voltage was not read.
_POWER_PER_OCTAVE = prior_table("anchor.power_per_octave")


def kernel_power_sd(octaves: Floats, *, voltage_read: bool) -> Floats:
    r"""Return the relative spread of a kernel's anchored power some octaves of clock away, of their shape.

    .. math:: s^2 = (a o)^2 + u^2 o

    The second term applies where the GPU's voltage was not read over its clocks: its steps may be close
    to the measured clock.

    Parameters
    ----------
    octaves : array
        o, doublings from the measured clock, at least 0.
    voltage_read : bool
        Whether the GPU's voltage over its clocks was measured.
    """
    return _power_sd("kernel", octaves, voltage_read=voltage_read)


def _power_sd(of: str, octaves: Floats, *, voltage_read: bool) -> Floats:
    unread = 0.0 if voltage_read else _POWER_PER_OCTAVE["unread"]
    return np.sqrt((_POWER_PER_OCTAVE[of] * octaves) ** 2 + unread**2 * octaves)


@dataclass(frozen=True)
class Anchor:
    """Where each row was measured: duration, clocks and, where known, power. Shape (n,) each.

    Parameters
    ----------
    clock_low_mhz : array
        Lowest clock the row may have been measured at; ``clock_mhz`` itself where that was stated.
    duration_sd_s : array
        Standard deviation of the duration from the resolution of the clock that timed it.
    """

    duration_s: Floats
    clock_mhz: Floats
    mem_clock_mhz: Floats
    power_w: Floats
    measured: Bools
    clock_low_mhz: Floats
    duration_sd_s: Floats

    @classmethod
    def of(cls, rows: OperatorColumns, gpu: Gpu) -> Anchor:
        """Return the anchors of the rows; a row without duration or clock has none."""
        duration = rows.number("duration_us") * 1e-6
        clock = rows.number("recorded_clock_mhz")
        return cls(
            duration,
            clock,
            rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz),
            rows.number("power_w"),
            np.asarray((duration > 0) & (clock > 0)),
            np.fmin(rows.number("recorded_clock_low_mhz"), clock),
            rows.number("duration_sd_us", 0.0) * 1e-6,
        )

    def take(self, chosen: Ints) -> Anchor:
        """Return the anchors of the chosen rows."""
        return Anchor(
            self.duration_s[chosen],
            self.clock_mhz[chosen],
            self.mem_clock_mhz[chosen],
            self.power_w[chosen],
            self.measured[chosen],
            self.clock_low_mhz[chosen],
            self.duration_sd_s[chosen],
        )

    def programs(self) -> Bools:
        """Return the rows that are programs measured with their power: of a second or more. Shape (n,)."""
        return np.asarray(self.measured & (self.power_w > 0) & (self.duration_s >= PROGRAM_S))

    def reading_sd(self) -> Floats:
        """Return the relative spread of each row's time measured again. Shape (n,)."""
        return np.where(self.duration_s >= PROGRAM_S, _READING_SD["program"], _READING_SD["kernel"])

    def time_sd(self, per_octave: Floats, octaves: Floats) -> Floats:
        r"""Return the spread of ln time of each row some octaves of clock away. Shape of ``octaves``.

        .. math:: s^2 = (a o)^2 + r^2

        Parameters
        ----------
        per_octave : array, shape (n,)
            a, spread per doubling of the clock.
        octaves : array, shape (n, c)
            o, doublings from the measured clock, at least 0.
        """
        return np.asarray(np.hypot(per_octave[:, None] * octaves, self.reading_sd()[:, None]))

    def power_sd(self, octaves: Floats, *, voltage_read: bool) -> Floats:
        """Return the relative spread of each row's power some octaves of clock away. Shape of ``octaves``."""
        programs = self.programs()[:, None]
        return np.where(
            programs,
            _power_sd("program", octaves, voltage_read=voltage_read),
            kernel_power_sd(octaves, voltage_read=voltage_read),
        )

    def start_clock(self, clock_mhz: Floats) -> Floats:
        """Return each row's measured clock, else its first requested one. Shape (n, 1). [MHz]"""
        return np.where(self.measured, self.clock_mhz, clock_mhz[:, 0])[:, None]

    def lowest_clock(self, clock_mhz: Floats) -> Floats:
        """Return the lowest clock each row may have been measured at. Shape (n, 1). [MHz]"""
        return np.where(self.measured, self.clock_low_mhz, clock_mhz[:, 0])[:, None]

    def timing_error(self) -> Floats:
        """Return the 90 % error that the timer's resolution leaves, as ln of a factor. (n,)"""
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(self.measured, Z90 * self.duration_sd_s / self.duration_s, 0.0)
        return np.asarray(np.log1p(relative))


def with_memory_efficiency(timing: Timing, gpu: Gpu, clock_mhz: Floats, start_mhz: Floats) -> Timing:
    """Return the timing with the memory time a slow core adds, where only the family's split is known.

    Rows of known shape have their memory's time by their own law.

    Parameters
    ----------
    timing : Timing
        At clocks of shape (n, c).
    clock_mhz, start_mhz : array, shapes (n, c) and (n, 1)
        Those clocks, and the one each row was measured at. [MHz]
    """
    efficiency = memory_efficiency(gpu)
    split = (timing.basis == FROM_SPLIT)[:, None]
    slower = np.where(split, efficiency.at(clock_mhz) / efficiency.at(start_mhz), 1.0)
    added = timing.memory_s * (slower - 1.0)
    return replace(timing, duration_s=timing.duration_s + added, memory_s=timing.memory_s + added)


def scaled_timing(
    predicted: Timing, reference: Timing, anchor: Anchor, octaves: Floats, slowest: Timing | None = None
) -> Timing:
    r"""Return the model's timing with every anchored row scaled to its measurement.

    .. math:: t(f) = t_{measured} \, T_{model}(f) / T_{model}(f_0)

    Parameters
    ----------
    predicted : Timing
        Model at the clocks asked for, (n, c).
    reference : Timing
        Model at each row's own measured clock, (n, 1).
    anchor : Anchor
        The measurements.
    octaves : array, shape (n, c)
        How far the clocks asked for are from the measured ones.
    slowest : Timing, optional
        Model at the lowest clock each row may have been measured at, (n, 1). A row that ran slower than
        taken for is faster at every clock: the interval's low end holds that.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(anchor.measured, anchor.duration_s / reference.duration_s[:, 0], 1.0)
    factor = np.where(np.isfinite(factor) & (factor > 0), factor, 1.0)
    wide = factor[:, None]
    duration = predicted.duration_s * wide
    # What is left of the model's error is in the ratio: none at the measured clock itself.
    exponent = np.where(anchor.measured, _ERROR_LEFT, 1.0)[:, None]
    low, high = predicted.low**exponent, predicted.high**exponent
    split = (anchor.measured & (predicted.basis == FROM_SPLIT))[:, None]
    spread = np.exp(Z90 * anchor.time_sd(np.full(len(factor), SPLIT_SD_PER_OCTAVE), octaves))
    low, high = np.where(split, 1.0 / spread, low), np.where(split, spread, high)
    error = anchor.timing_error()[:, None]
    faster = np.zeros(len(factor))
    if slowest is not None:
        faster = np.log(np.maximum(slowest.duration_s[:, 0] / reference.duration_s[:, 0], 1.0))
        faster = np.where(anchor.measured & np.isfinite(faster), faster, 0.0)
    return replace(
        predicted,
        duration_s=duration,
        low=np.exp(-np.sqrt(np.log(low) ** 2 + error**2 + faster[:, None] ** 2)),
        high=np.exp(np.hypot(np.log(high), error)),
        busy_s={u: np.minimum(b * wide, duration) for u, b in predicted.busy_s.items()},
        fixed_s=predicted.fixed_s * factor,
        core_s=predicted.core_s * wide,
        memory_s=predicted.memory_s * wide,
        basis=np.where(anchor.measured, "anchored", predicted.basis).astype(object),
        clock_low=None if slowest is None else np.exp(-faster),
    )
