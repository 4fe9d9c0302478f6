"""Kernels in a profiler's trace: their time beyond that in a loop of the kernel alone.

Laws are fitted to loops in which a kernel finds its operands in the cache, its code and pages warm, and its
start hidden behind the one before. In a trace it follows other kernels: its first loads wait for memory, its
instructions for the cache, and start and end are its own. That costs microseconds, whatever the size. While a
collective or a copy of another stream keeps a link of the GPU busy, start and end wait for that traffic too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.families import names
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces, duration_s
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_bands, prior_number, prior_table
from tracetool.model.time_calibration import spread_key

#: Start, end and first touch of a kernel in a trace beyond its law's, by vendor and law. [us]
COLD_US: Final = {vendor: prior_table(f"traced.cold_{vendor}") for vendor in ("nvidia", "amd")}
#: What start and end of a stream, or of a copy inside the device, take beyond that, by architecture. [us]
START_US: Final = prior_table("traced.start")
#: What a trace adds to either side of a law's band, ln of a factor. Of a kind of a law's rows, or of the law.
TRACE_SPREAD: Final = prior_bands("traced.spread")
#: What it adds to either side in time: start, end and caches err by microseconds whatever the size. [us]
START_SPREAD_US: Final = prior_bands("traced.spread_start")
#: Share left, for kernels of a trace, of the band of coefficients carried over from other GPUs: their names
#: state tiles and instructions, which tables do not. [1]
BAND_SHARE: Final = prior_table("traced.band_share")
#: Of the way from the boost clock to the base clock, in ln of time, what 95 % of kernels stay under. [1]
SLOW_CLOCK: Final = prior_number("traced.slow_clock")
#: What a kernel waits for a busy link of its GPU, by vendor and the column that states the share of its time.
#: Copies beside kernels of AMD's GPUs, which engines of their own make, slow none of them measurably. [us]
BESIDE_US: Final = {
    "nvidia": {
        "beside_collective": prior_table("traced.beside_collective_nvidia"),
        "beside_copy": prior_table("traced.beside_copy_nvidia"),
    }
}
#: 90 % bound of the error of that wait, as a share of it. [1]
BESIDE_ERROR: Final = prior_number("traced.beside_error")
#: The law of streaming kernels.
_STREAM: Final = "stream"


def traced(rows: OperatorColumns) -> Bools:
    """Return which rows are kernels of a trace: rows of operator tables name none. Shape (n,)."""
    return of_a_trace(rows)


def law_in_trace(law: Law) -> Law:
    """Return a law whose parts hold what kernels of a trace take beyond it: what a fit to traces must fit."""

    def parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
        return in_trace(law.parts(rows, gpu, c), rows, law, gpu)

    return replace(law, parts=parts)


def trace_band(
    low: Floats,
    high: Floats,
    rows: OperatorColumns,
    law: Law,
    *,
    calibrated: bool = True,
    carried: bool = False,
) -> tuple[Floats, Floats]:
    """Return bands of ln(measured / predicted) widened for kernels of a trace. Shape (n,).

    What traces showed of a law that no calibration has a band for takes the place of its prior one.
    Of the band of coefficients ``carried`` over from other GPUs :data:`BAND_SHARE` is left.
    """
    in_traces = traced(rows)
    if not in_traces.any():
        return low, high
    law_spread = TRACE_SPREAD.get(law.name, TRACE_SPREAD.get(law.parent, TRACE_SPREAD["otherwise"]))
    share = np.where(in_traces & carried, BAND_SHARE.get(law.name, 1.0), 1.0)
    low, high = low * share, high * share
    if not calibrated and law.name in TRACE_SPREAD:
        low, high = np.where(in_traces, 0.0, low), np.where(in_traces, 0.0, high)
    kinds = [TRACE_SPREAD.get(spread_key(law.name, kind), law_spread) for kind in law.kinds] or [law_spread]
    less, more = np.array(kinds)[law.kind(rows)].T
    return np.where(in_traces, -np.hypot(low, less), low), np.where(in_traces, np.hypot(high, more), high)


def start_band(
    low: Floats, high: Floats, rows: OperatorColumns, law: Law, pieces: Pieces, gpu: Gpu
) -> tuple[Floats, Floats]:
    """Return bands of ln(measured / predicted) widened by what kernels of a trace err by in time. (n,)"""
    in_traces = traced(rows)
    if not in_traces.any():
        return low, high
    law_spread = START_SPREAD_US.get(law.name, (0.0, 0.0))
    by_kind = [START_SPREAD_US.get(spread_key(law.name, kind), law_spread) for kind in law.kinds] or [
        law_spread
    ]
    less_us, more_us = np.where(in_traces[:, None], np.array(by_kind)[law.kind(rows)], 0.0).T
    duration_us = _boost_duration_s(pieces, gpu) * 1e6
    less, more = np.log1p(less_us / duration_us), np.log1p(more_us / duration_us)
    return -np.hypot(low, less), np.hypot(high, more)


def _boost_duration_s(pieces: Pieces, gpu: Gpu) -> Floats:
    """Return the duration of each row at the boost clock. Shape (n,). [s]"""
    boost = np.full((len(pieces.fixed_s), 1), gpu.clock_boost_mhz * 1e6)
    return np.maximum(duration_s(pieces, boost)[:, 0], 1e-12)


def beside_us(rows: OperatorColumns, law: Law, gpu: Gpu) -> Floats:
    """Return the time each row waits for busy links of its GPU. Shape (n,). [us]"""
    waits = np.zeros(len(rows))
    for column, by_law in BESIDE_US.get(gpu.vendor, {}).items():
        waits = waits + rows.number(column, 0.0) * by_law.get(law.name, by_law["otherwise"])
    return waits


def beside_band(
    low: Floats, high: Floats, rows: OperatorColumns, law: Law, pieces: Pieces, gpu: Gpu
) -> tuple[Floats, Floats]:
    """Return bands of ln(measured / predicted) widened by the error of waits for busy links. (n,)"""
    waits_s = beside_us(rows, law, gpu) * 1e-6
    if not waits_s.any():
        return low, high
    duration = _boost_duration_s(pieces, gpu)
    # no kernel is faster for the traffic: at best it waited for none of it
    least = np.maximum(1.0 - min(BESIDE_ERROR, 1.0) * waits_s / duration, 1e-3)
    return -np.hypot(low, np.log(least)), np.hypot(high, np.log1p(BESIDE_ERROR * waits_s / duration))


def in_trace(pieces: Pieces, rows: OperatorColumns, law: Law, gpu: Gpu) -> Pieces:
    """Return the parts of rows with what kernels of a trace take beyond them."""
    cold_us = COLD_US.get(gpu.vendor, {})
    cold = cold_us.get(law.name, cold_us.get(law.parent, 0.0))
    streams = (law.name == _STREAM) | (rows.family == names.MEMCPY) & (pieces.work.link_bytes == 0.0)
    start = np.where(streams, START_US.get(gpu.architecture, 0.0), 0.0)
    in_traces = traced(rows)
    more = cold + start + beside_us(rows, law, gpu)
    if not (more.any() and in_traces.any()):
        return pieces
    return replace(pieces, fixed_s=pieces.fixed_s + np.where(in_traces, more * 1e-6, 0.0))


def as_recorded(timing: Timing, rows: OperatorColumns, slowest: Timing) -> Timing:
    r"""Return the timing with intervals wide enough for what a recording leaves open of a kernel's time.

    A profiler that counts whole microseconds errs by :math:`\sigma` (``duration_sd_us``). A kernel of a trace
    that states no clock may have run as slow as at the base clock: it then took T(f_base) where T(f_boost) is
    predicted, by as much as its time is the core's. Few run that slow: the bound takes :data:`SLOW_CLOCK`.

    Parameters
    ----------
    timing : Timing
        The model's own, at clocks of shape (n, c).
    rows : OperatorColumns
        n rows of a run.
    slowest : Timing
        The model's at the lowest clock each row may have run at, (n, 1).
    """
    predicted_s = np.maximum(timing.duration_s.max(axis=1), 1e-12)
    counted = np.log1p(Z90 * rows.number("duration_sd_us", 0.0) * 1e-6 / predicted_s)
    slower = SLOW_CLOCK * np.log(np.maximum(slowest.duration_s[:, 0] / predicted_s, 1.0))
    high = np.sqrt(np.log(timing.high) ** 2 + (counted**2 + slower**2)[:, None])
    return replace(timing, low=np.exp(-np.hypot(np.log(timing.low), counted[:, None])), high=np.exp(high))
