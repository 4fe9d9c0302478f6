"""Kernels as a profiler saw them run: what they take beyond a loop of their own.

Laws are fitted to loops in which a kernel meets its operands in the cache, its code and pages warm, and its
start hidden behind the one before. In a trace it follows other kernels: its first loads wait for memory, its
instructions for the cache, and start and end are its own. That costs microseconds, whatever the size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_bands, prior_table
from tracetool.model.time_calibration import spread_key

#: Start, end and first touch of a kernel in a trace beyond its law's, by vendor and law. [us]
COLD_US: Final = {vendor: prior_table(f"traced.cold_{vendor}") for vendor in ("nvidia", "amd")}
#: What a trace adds to either side of a law's band, ln of a factor. Of a kind of a law's rows, or of the law.
TRACE_SPREAD: Final = prior_bands("traced.spread")


def traced(rows: OperatorColumns) -> Bools:
    """Return which rows are kernels of a trace: rows of operator tables name none. Shape (n,)."""
    return of_a_trace(rows)


def law_in_trace(law: Law) -> Law:
    """Return a law whose parts hold what kernels of a trace take beyond it: what a fit to traces must fit."""

    def parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
        return in_trace(law.parts(rows, gpu, c), rows, law, gpu)

    return replace(law, parts=parts)


def trace_band(low: Floats, high: Floats, rows: OperatorColumns, law: Law) -> tuple[Floats, Floats]:
    """Return bands of ln(measured / predicted) widened for kernels of a trace. Shape (n,)."""
    here = traced(rows)
    if not here.any():
        return low, high
    every = TRACE_SPREAD.get(law.name, TRACE_SPREAD["otherwise"])
    kinds = [TRACE_SPREAD.get(spread_key(law.name, kind), every) for kind in law.kinds] or [every]
    less, more = np.array(kinds)[law.kind(rows)].T
    return np.where(here, -np.hypot(low, less), low), np.where(here, np.hypot(high, more), high)


def in_trace(pieces: Pieces, rows: OperatorColumns, law: Law, gpu: Gpu) -> Pieces:
    """Return the parts of rows with what kernels of a trace take beyond them."""
    more = COLD_US.get(gpu.vendor, {}).get(law.name, 0.0)
    here = traced(rows)
    if more == 0.0 or not here.any():
        return pieces
    return replace(pieces, fixed_s=pieces.fixed_s + np.where(here, more * 1e-6, 0.0))
