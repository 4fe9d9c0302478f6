"""The clocks of a recording without clock readings: lower as far as the governor kept the power limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.governed_replay import held_at
from tracetool.replay.governor import Governor
from tracetool.replay.totals import rates_at
from tracetool.tables.run import Run

#: Idle times longer than this many time constants leave a governor as it was at first. [1]
_FORGOTTEN: Final = 8.0


def governed_clocks(run: Run, rows: OperatorColumns, gpu: Gpu, settled_mhz: Floats, cap_w: float) -> Floats:
    """Return the mean clock of each signature's launches, between the boost clock and where it settles.

    Parameters
    ----------
    run : Run
        The recording.
    rows : OperatorColumns
        Its s signatures, with ``duration_us``.
    gpu : Gpu
        The GPU it ran on.
    settled_mhz : array, shape (s,)
        Clock at which each by itself keeps the limit, for long. [MHz]
    cap_w : float
        The limit. [W]

    Returns
    -------
    array, shape (s,)
        Supported clocks. [MHz]
    """
    governor, boost = Governor.of(gpu), gpu.clock_boost_mhz
    columns = {**rows.columns, "recorded_clock_mhz": np.full(len(rows), boost)}
    at_boost = predict_rows(
        replace(rows, columns=columns), gpu, np.array([boost]), power_cap_w=np.inf, anchor=True
    )
    kernels = run.table("kernels", ["start_ns", "duration_ns", "device", "signature"]).sort("start_ns")
    start, end = _without_long_gaps(kernels, _FORGOTTEN * governor.time_constant_s * 1e9)
    rates = rates_at(at_boost, 0)
    signature = kernels["signature"].cast(pl.Int64).to_numpy()
    # What was recorded took as long as it took: only its power depends on the clock.
    held_launches = held_at(
        signature,
        kernels["device"].to_numpy(),
        start,
        end,
        free=rates,
        capped=rates,
        longer=np.where(settled_mhz < boost, 1.0 + 1e-3, 1.0),
        idle_w=float(at_boost.idle_w[0]),
        limit_w=cap_w,
        governor=governor,
    )
    if held_launches is None:
        return settled_mhz
    clock = boost - held_launches.of_signature * (boost - settled_mhz)
    supported = gpu.supported_clocks_mhz()
    nearest = supported[np.abs(supported[:, None] - clock).argmin(axis=0)]
    return np.asarray(np.where(settled_mhz < boost, nearest, settled_mhz))


def _without_long_gaps(kernels: pl.DataFrame, most_ns: float) -> tuple[Floats, Floats]:
    """Return starts and ends with idle times cut to ``most_ns``. Shape (n,) each. [ns]"""
    start = (kernels["start_ns"] - kernels["start_ns"].min()).cast(pl.Float64).to_numpy()
    end = start + kernels["duration_ns"].cast(pl.Float64).to_numpy()
    before = np.concatenate([[0.0], np.maximum.accumulate(end)[:-1]])
    cut = np.cumsum(np.maximum(start - before - most_ns, 0.0))
    return np.asarray(start - cut), np.asarray(end - cut)
