"""Samples of many runs stitched into the profile of power over one execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.fingrav.basis import Basis
from tracetool.measure.fingrav.executions import Executions


@dataclass(frozen=True)
class Samples:
    """Power samples of all runs on the host clock.

    ``power_w`` holds ``total`` and whatever components the logger reports.
    """

    time_s: Floats  # (n,) [s]
    power_w: Mapping[str, Floats]  # each (n,)
    window_s: float  # each sample is the mean over this long before its time; 0 where instantaneous
    period_s: float  # between samples
    error_s: float = 0.0  # standard error of the times, e.g. of the clocks' synchronization


@dataclass(frozen=True)
class Placed:
    """Pairs of sample and execution that overlap."""

    sample: Ints  # (p,)
    execution: Ints  # (p,)
    begin: Floats  # (p,) phase at which the overlap begins, 0 to 1
    end: Floats  # (p,) phase at which it ends; equal to ``begin`` for instantaneous samples
    share: Floats  # (p,) part of the sample spent there, 0 to 1


def place(samples: Samples, executions: Executions) -> Placed:
    """Return the execution that every sample is in, and its time of interest.

    Notes
    -----
    An averaged sample overlaps several executions; an instantaneous one lies in at most one, and is
    left out within two standard errors of its edges, where it may belong outside.
    """
    window = samples.window_s
    order = np.argsort(executions.start_s, kind="stable")
    start, end = executions.start_s[order], executions.end_s[order]
    low = np.searchsorted(end, samples.time_s - window, side="left")
    high = np.searchsorted(start, samples.time_s, side="right")
    count = np.maximum(high - low, 0)
    sample = np.repeat(np.arange(len(count)), count)
    place_in = (
        np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    )
    t = samples.time_s[sample]
    length = np.maximum(end[place_in] - start[place_in], 1e-12)
    begin = np.clip((t - window - start[place_in]) / length, 0.0, 1.0)
    finish = np.clip((t - start[place_in]) / length, 0.0, 1.0)
    if window > 0:
        share = (finish - begin) * length / window
        keep = share > 0
    else:
        begin = finish
        share = np.ones(len(t))
        guard = np.minimum(2.0 * samples.error_s, 0.25 * length)
        keep = (t >= start[place_in] + guard) & (t <= end[place_in] - guard)
    return Placed(sample[keep], order[place_in[keep]], begin[keep], finish[keep], share[keep])


def rows_of(placed: Placed, basis: Basis, count: int, weight: Floats | None = None) -> Floats:
    """Return each sample's mean of the basis over the phases it covers. Shape (count, k).

    ``weight`` scales the pairs, shape (p,). Time outside executions adds nothing.
    """
    width = placed.end - placed.begin
    instant = width <= 0
    value = np.empty((len(width), basis.size))
    if instant.any():
        value[instant] = basis.at(placed.end[instant])
    if (~instant).any():
        window_integral = basis.integral(placed.end[~instant]) - basis.integral(placed.begin[~instant])
        value[~instant] = window_integral / width[~instant, None]
    value *= (placed.share if weight is None else placed.share * weight)[:, None]
    out = np.zeros((count, basis.size))
    np.add.at(out, placed.sample, value)
    return out
