"""A kernel measured at several clocks: predictions from each measurement, joined between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.hardware.priors import prior_number
from tracetool.model.anchor import Anchor
from tracetool.model.power import PowerParts

#: Columns that separate one kernel from another of the same name.
_IDENTITY = ("blocks", "threads", "registers", "shared_bytes", "recorded_mem_clock_mhz")

#: Spread of a power between two readings of the same kernel, relative: they share no error.
BETWEEN_SD = prior_number("anchor.power_between")


@dataclass(frozen=True)
class Between:
    """For each row and clock, the measurements beside it and the weight of the upper one; (n, c) each.

    ``octaves`` is the distance to the nearer of the two, ``several`` (n,) marks the kernels measured at
    several clocks.
    """

    lower: Ints
    upper: Ints
    weight: Floats
    octaves: Floats
    several: Bools


def kernels(rows: OperatorColumns, anchor: Anchor) -> Ints:
    """Return a number per row: rows of one number are one kernel, measured at one clock or several.

    Rows are one kernel if their name and launch agree. Rows without a name or a measurement stand alone.
    """
    # by places of distinct texts: in an array of texts all names take the memory of the longest
    names, number = rows.distinct("name")
    named = np.array([name != "" for name in names], dtype=np.bool_)[number]
    for column in _IDENTITY:
        values = np.nan_to_num(rows.number(column), nan=-1.0)
        if (values != values[:1]).any():
            _, place = np.unique(values, return_inverse=True)
            _, number = np.unique(number * (int(place.max()) + 1) + place, return_inverse=True)
    return np.asarray(np.where(anchor.measured & named, number, -1 - np.arange(len(rows))))


def between(rows: OperatorColumns, anchor: Anchor, clock_mhz: Floats) -> Between | None:
    """Return the neighbors of each place among its kernel's measured clocks, or None if all are alone.

    Parameters
    ----------
    clock_mhz : array, shape (c,)
        Clocks asked for. [MHz]
    """
    kernel = kernels(rows, anchor)
    order = np.lexsort((anchor.clock_mhz, kernel))
    starts = np.flatnonzero(np.r_[True, np.diff(kernel[order]) != 0])
    sizes = np.diff(np.r_[starts, len(order)])
    if (sizes == 1).all():
        return None
    shape = (len(rows), len(clock_mhz))
    lower, upper, weight = np.empty(shape, np.int64), np.empty(shape, np.int64), np.zeros(shape)
    lower[:], upper[:] = np.arange(shape[0])[:, None], np.arange(shape[0])[:, None]
    several = np.zeros(len(rows), np.bool_)
    # A loop over kernels measured more than once: few, each a handful of rows.
    for start, size in zip(starts[sizes > 1], sizes[sizes > 1], strict=True):
        members = order[start : start + size]
        clocks, first = np.unique(anchor.clock_mhz[members], return_index=True)
        if len(clocks) == 1:
            continue  # the same kernel measured again: each row answers for itself
        members = members[first]
        above = np.clip(np.searchsorted(clocks, clock_mhz), 0, len(clocks) - 1)
        below = np.clip(above - 1, 0, None)
        span = np.log(clocks[above]) - np.log(clocks[below])
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(span > 0, (np.log(clock_mhz) - np.log(clocks[below])) / span, 0.0)
        everyone = order[start : start + size]
        several[everyone] = True
        lower[everyone], upper[everyone] = members[below], members[above]
        weight[everyone] = np.clip(share, 0.0, 1.0)
    away = [np.abs(np.log2(clock_mhz / anchor.clock_mhz[side])) for side in (lower, upper)]
    return Between(lower, upper, weight, np.minimum(*away), several)


def blended(
    timing: Timing,
    parts: PowerParts,
    place: Between,
    log_sd_per_octave: Floats,
    anchor: Anchor,
    *,
    scatter: tuple[Floats, Floats],
    voltage_read: bool = True,
) -> tuple[Timing, PowerParts]:
    """Return timing and energies that pass through every measurement of a kernel.

    Between two measured clocks the two predictions are joined in proportion to the logarithm of the
    clock; outside them the nearest holds. All rows of one kernel get the same answer, with an interval
    that widens from the nearest measurement.

    Parameters
    ----------
    log_sd_per_octave : array, shape (n,)
        Spread of a time per doubling of the clock from the nearest measurement.
    anchor : Anchor
        The measurements.
    scatter : (array, array), shapes (n, c)
        Spread of ln time and ln power that a kernel's own readings show beside the model's.
    voltage_read : bool
        Whether the GPU's voltage over its clocks was measured.
    """
    column = np.arange(timing.duration_s.shape[1])[None, :]
    nearest = np.where(place.weight < 0.5, place.lower, place.upper)

    def joined(values: Floats) -> Floats:
        low, high = np.log(values[place.lower, column]), np.log(values[place.upper, column])
        return np.asarray(np.exp((1.0 - place.weight) * low + place.weight * high))

    duration = joined(np.maximum(timing.duration_s, 1e-15))
    energy = joined(np.maximum(parts.total(), 1e-15))
    spread = np.exp(Z90 * np.hypot(anchor.time_sd(log_sd_per_octave, place.octaves), scatter[0]))
    factor = duration / np.maximum(timing.duration_s[nearest, column], 1e-15)
    scale = energy / np.maximum(parts.total()[nearest, column], 1e-15)
    joined_timing = replace(
        timing,
        duration_s=duration,
        low=np.where(place.several[:, None], 1 / spread, timing.low),
        high=np.where(place.several[:, None], spread, timing.high),
        busy_s={u: np.minimum(b[nearest, column] * factor, duration) for u, b in timing.busy_s.items()},
        core_s=timing.core_s[nearest, column] * factor,
        memory_s=timing.memory_s[nearest, column] * factor,
        sm_active=timing.sm_active[nearest, column],
        bound=timing.bound[nearest, column],
    )
    joules = {k: v[nearest, column] * scale for k, v in parts.joules.items()}
    power_away = anchor.power_sd(place.octaves, voltage_read=voltage_read)
    between_sd = np.hypot(np.hypot(BETWEEN_SD, power_away), scatter[1])
    sd = np.where(place.several[:, None], between_sd, parts.relative_sd)
    return joined_timing, replace(parts, joules=joules, relative_sd=sd)
