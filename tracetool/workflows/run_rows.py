"""The signatures of a run as columns of the model, with what was measured of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.model.predict import predict_rows
from tracetool.tables.run import Run
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.workflows.tables import as_columns

#: A reading counts as one under load from this utilisation on.
_LOADED: Final = 0.5
#: Clocks tried for kernels that the power limit slowed while they were recorded.
_STEPS: Final = 16
_KINDS: Final = ("memcpy", "memset")


def run_rows(run: Run) -> tuple[pl.DataFrame, OperatorColumns]:
    """Return the run's signatures in row order and the same rows as columns of the model.

    Beside shapes and launch geometry the columns hold ``duration_us``, the mean over the launches of
    a signature: its launches add up to the time that was measured.

    Raises
    ------
    BadInput
        If the run holds no activity of a device.
    """
    from tracetool.classify.structure import describe

    signatures = run.signatures.sort("signature")
    if not signatures.height:
        raise BadInput.in_file(
            run.path, "holds no GPU activity to predict", "ingest a trace with kernels in it"
        )
    described = describe(signatures)
    own = [c for c in described.columns if c != "family"]
    columns = described.select(own).with_columns(
        (signatures["duration_ns"] / signatures["launches"].clip(1) / 1e3).alias("duration_us"),
        # A signature is one kernel: another of the same name and launch has other shapes.
        pl.format("{} #{}", signatures["name"], signatures["signature"]).alias("name"),
    )
    family = pl.select(
        pl.when(signatures["kind"].is_in(_KINDS)).then(signatures["kind"]).otherwise(described["family"])
    ).to_series()
    if "bytes" not in columns.columns:
        columns = columns.with_columns(signatures["bytes"].cast(pl.Float64))
    return signatures.with_columns(family.alias("family")), as_columns(columns, family)


def recorded_gpu(run: Run) -> Gpu | None:
    """Return the GPU a run was recorded on, of several the one that worked most; None if not known."""
    busiest = (
        run.kernels.group_by("device").agg(pl.col("duration_ns").sum()).sort("duration_ns", descending=True)
    )
    devices = busiest.select("device").join(run.devices, on="device", how="inner", maintain_order="left")
    for name, gpu in devices.select("name", "gpu").iter_rows():
        known = gpu or (match_gpu(name) if name else None)
        if known:
            return load_gpu(known)
    return None


def recorded_clock(run: Run) -> tuple[float, str] | None:
    """Return the core clock a run was recorded at and a sentence on where it comes from. [MHz]"""
    readings = run.telemetry.filter(pl.col("clock_mhz").is_not_null() & (pl.col("clock_mhz") > 0))
    kernels = run.kernels
    if not (readings.height and kernels.height):
        return None
    ends = (kernels["start_ns"] + kernels["duration_ns"]).max()
    inside = readings.filter(pl.col("time_ns").is_between(kernels["start_ns"].min(), ends))
    loaded = inside.filter(pl.col("utilization").fill_null(1.0) >= _LOADED)
    for some in (loaded, inside):
        if some.height:
            clock = float(np.median(some["clock_mhz"].to_numpy()))
            return clock, f"recorded clock: {clock:g} MHz, median of {some.height} readings"
    return None


def at_recorded_clock(run: Run, rows: OperatorColumns, gpu: Gpu) -> tuple[OperatorColumns, float, str]:
    r"""Return the rows with the clock each was recorded at, the clock of the run, and how it is known.

    Notes
    -----
    Without clock readings the GPU is taken to have run at its boost clock, and lower where the power
    of the measured kernel would exceed the limit: :math:`f = \max\{f : P(f; t_{measured}) \le P_{cap}\}`.
    """
    known = recorded_clock(run)
    if known:
        clock, said = known
        return _with_clock(rows, np.full(len(rows), clock)), clock, said
    boost = gpu.clock_boost_mhz
    clocks = np.linspace(max(gpu.clock_min_mhz, 0.4 * boost), boost, _STEPS)
    settled = np.full(len(rows), boost)
    over = _power_at(rows, gpu, boost) > gpu.power_limit_w
    hot = np.flatnonzero(over)
    if len(hot):
        some = rows.take(hot)
        power = np.stack([_power_at(some, gpu, float(c)) for c in clocks], axis=1)
        # Power grows with the clock: the first step above the limit bounds the clock it ran at.
        at = np.maximum((power <= gpu.power_limit_w).sum(axis=1) - 1, 0)
        low, high = power[np.arange(len(hot)), at], power[np.arange(len(hot)), np.minimum(at + 1, _STEPS - 1)]
        share = np.clip((gpu.power_limit_w - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
        settled[hot] = clocks[at] + share * (clocks[1] - clocks[0]) * (at + 1 < _STEPS)
    said = f"recorded clock not known: taken as {boost:g} MHz, the boost clock of {gpu.name}"
    if len(hot):
        said += f", lower for {len(hot)} signatures that the power limit of {gpu.power_limit_w:g} W slowed"
    return _with_clock(rows, settled), boost, said


def _with_clock(rows: OperatorColumns, clock_mhz: Floats) -> OperatorColumns:
    return replace(rows, columns={**rows.columns, "recorded_clock_mhz": clock_mhz})


def _power_at(rows: OperatorColumns, gpu: Gpu, clock_mhz: float) -> Floats:
    """Power of each row had its measured time been at this clock, whatever the limit. (n,) [W]"""
    at = _with_clock(rows, np.full(len(rows), clock_mhz))
    made = predict_rows(at, gpu, np.array([clock_mhz]), power_cap_w=np.inf, anchor=True)
    return made.power_w[:, 0]
