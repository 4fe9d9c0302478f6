"""Energy of rows by part, and its scaling to a measured power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, by_clock, by_row
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.families.formats import multiplied_format
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.activity import fed_share
from tracetool.model.anchor import Anchor
from tracetool.model.dynamic import active_energy_j, core_energy_j, outer_energy_j
from tracetool.model.idle import core_voltage_v, idle_power_w
from tracetool.model.operands import content_factor
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_transfer import stream_clock, stream_way
from tracetool.model.residency import missed_bytes, streamed_bytes, weight_bytes

#: Parts that follow counts, not the time in which SMs hold a block.
COUNTED_PARTS = ("compute", "onchip", "dram", "link")
#: Energy per clock of SMs that hold a block grows with their cycles to this power when a kernel's cycles
#: grow: an SM that waits for memory stops most of its clocks.
WAITING = prior_number("power.waiting")
#: Most of a measured power that counts as base.
_MOST_BASE = prior_number("power.most_base")
#: Spread of an anchored power's reading, relative.
ANCHOR_SD = prior_number("anchor.power_reading")


@dataclass(frozen=True)
class PowerParts:
    """Energy of n rows at c clocks by part, with its uncertainty.

    ``square_v2`` is the square of the core voltage at each place; ``relative_sd`` the spread of the
    power that rests on the coefficients. Both (n, c).
    """

    joules: Mapping[str, Floats]
    square_v2: Floats
    relative_sd: Floats

    def total(self) -> Floats:
        """Return the energy of each row at each clock. [J]"""
        first, *following = self.joules.values()
        total = np.array(first, np.float64)
        for joules in following:
            total += joules
        return total

    def power_w(self, timing: Timing) -> Floats:
        """Return the mean power over the row; 0 where it takes no time. [W]"""
        energy, duration = self.total(), timing.duration_s
        return np.divide(energy, duration, out=np.zeros(energy.shape), where=duration > 0)

    def where(self, rows: Bools, other: PowerParts) -> PowerParts:
        """Return these parts with the chosen rows taken from another's."""
        chosen = rows[:, None]
        return PowerParts(
            {k: np.where(chosen, other.joules[k], v) for k, v in self.joules.items()},
            np.where(chosen, other.square_v2, self.square_v2),
            np.where(chosen, other.relative_sd, self.relative_sd),
        )

    def wider(self, relative_sd: Floats) -> PowerParts:
        """Return these parts with a further spread of each row's power. Shape (n,)."""
        wider = np.hypot(by_row(self.relative_sd), relative_sd[:, None])
        return replace(self, relative_sd=np.broadcast_to(wider, self.square_v2.shape))

    def at_most(self, cap_w: float, timing: Timing) -> PowerParts:
        """Return the parts shrunk where even the lowest clock exceeds the cap: hardware gates clocks then."""
        power = self.power_w(timing)
        if not (power > cap_w).any():
            return self
        factor = np.where(power > cap_w, cap_w / np.maximum(power, 1e-12), 1.0)
        return replace(self, joules={k: v * factor for k, v in self.joules.items()})


def power_parts(
    rows: OperatorColumns,
    gpu: Gpu,
    timing: Timing,
    clock_mhz: Floats,
    *,
    power: PowerCalibration,
    memory_share: Floats | float = 1.0,
    metered: Bools | None = None,
) -> PowerParts:
    """Return the energy of each part from counts, clocks and voltage.

    Parameters
    ----------
    rows : OperatorColumns
        n rows; their ``dtype`` chooses the energy of tensor cores.
    timing : Timing
        Durations and counts, (n, c).
    clock_mhz : array, shape (n, c)
        Core clocks. [MHz]
    power : PowerCalibration
        Coefficients.
    memory_share : float or array, shape (n, 1)
        Memory clock over the GPU's usual one.
    metered : array of bool, shape (n,), optional
        Rows whose power was measured and will be scaled to; by default none.
    """
    clock = by_clock(clock_mhz)  # (1, c) where every row is asked at the same clocks
    squared = core_voltage_v(gpu, clock, power) ** 2
    # what operands hold scales all that the core domain switches for them
    switched = content_factor(rows, timing.work)[:, None] * squared
    weights = weight_bytes(rows, timing.work)
    stream_bytes = streamed_bytes(rows, timing.work, weights) * stream_way(rows, power)
    core = core_energy_j(timing.work, multiplied_format(rows.text("dtype"), gpu), power, stream_bytes)
    outer = outer_energy_j(timing.work, missed_bytes(rows, timing.work, gpu, weights), power)
    clocked = stream_clock(rows, power)
    clocked = clocked if metered is None else np.where(metered, 1.0, clocked)
    active = timing.sm_active * (fed_share(rows) * clocked)[:, None]
    joules = {
        "base": idle_power_w(gpu, clock, power, memory_share=memory_share) * timing.duration_s,
        "clock": switched * active_energy_j(active, timing.duration_s, clock, power, gpu.sm_count),
        "compute": switched * core["compute"][:, None],
        "onchip": switched * core["onchip"][:, None],
        **{part: np.broadcast_to(of_rows[:, None], clock_mhz.shape) for part, of_rows in outer.items()},
    }
    flat = (np.broadcast_to(values, clock_mhz.shape) for values in (squared, power.relative_sd))
    return PowerParts(joules, *flat)


def anchored_parts(
    parts: PowerParts,
    origin: PowerParts,
    origin_timing: Timing,
    timing: Timing,
    *,
    anchor: Anchor,
    monitored: Bools,
    clock_mhz: Floats,
    voltage_read: bool,
) -> PowerParts:
    """Return the parts scaled so that each row has its measured power at its measured clock.

    The measured power less the base is what the work costs there: the modeled parts of work share it in
    proportion. A power below the modeled base scales the base too.

    Parameters
    ----------
    parts, timing
        At the clocks asked for, (n, c).
    origin, origin_timing
        At each row's own measured clock, (n, 1).
    monitored : array of bool, shape (n,)
        Rows whose counts come from a monitor's shares.
    clock_mhz : array, shape (n, c)
        Clocks asked for. [MHz]
    voltage_read : bool
        Whether the GPU's voltage over its clocks was measured.
    """
    has_power = anchor.measured & (anchor.power_w > 0)
    measured = np.where(has_power, anchor.power_w, 1.0)
    seconds = origin_timing.duration_s[:, 0]
    base = origin.joules["base"][:, 0] / seconds
    work = (origin.total()[:, 0] - origin.joules["base"][:, 0]) / seconds
    # At least a twentieth of the power is work: a reading under the modeled idle lowers the base.
    base_factor = np.where(has_power, np.minimum(1.0, _MOST_BASE * measured / np.maximum(base, 1e-9)), 1.0)
    work_w = np.maximum(measured - base * base_factor, 0.0)
    factor = np.where(has_power, work_w / np.maximum(work, 1e-9), 1.0)
    stretched = (timing.duration_s / _moving(timing)) / (origin_timing.duration_s / _moving(origin_timing))
    # A monitor's shares hold for the time the GPU works; what the host adds in time repeats them.
    density = np.where((has_power & monitored)[:, None], stretched, 1.0)
    scaled = {k: v * factor[:, None] for k, v in parts.joules.items() if k != "base"}
    scaled |= {k: scaled[k] * density for k in COUNTED_PARTS}
    cycles = _moving(timing) * clock_mhz / (_moving(origin_timing) * anchor.start_clock(clock_mhz))
    waiting = np.maximum(cycles, 1e-9) ** (WAITING - 1.0)
    scaled["clock"] = scaled["clock"] * np.where(has_power[:, None], waiting, 1.0)
    scaled["base"] = parts.joules["base"] * base_factor[:, None]
    octaves = np.abs(np.log2(clock_mhz / anchor.start_clock(clock_mhz)))
    away = anchor.power_sd(octaves, voltage_read=voltage_read)
    sd = np.where(has_power[:, None], np.hypot(ANCHOR_SD, away), parts.relative_sd)
    return replace(parts, joules=scaled, relative_sd=sd)


def _moving(timing: Timing) -> Floats:
    """Time that moves with a clock, (n, c)."""
    return np.asarray(np.maximum(timing.duration_s - timing.fixed_s[:, None], 1e-3 * timing.duration_s))
