"""A run with a power log as measurements: the energy of each kernel beside the counts behind it."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.calibrate.power_rows import PowerRows, rows_of_idle, rows_of_timing
from tracetool.calibrate.power_sweep import SweepRows
from tracetool.calibrate.tables import AT_CAP, Measured, implausible, shape_groups
from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.registry import known_shape
from tracetool.hardware.gpu import Gpu
from tracetool.measure.attribute import SEE_CHECKS, attribute_run
from tracetool.measure.timeline import ACTIVE_IDLE
from tracetool.model.timing import time_rows
from tracetool.replay.measured_energy import why_unusable
from tracetool.replay.recording_conditions import Recorded, recorded, recorded_gpu
from tracetool.replay.run_rows import run_rows
from tracetool.replay.unnamed_gpu import check_maker
from tracetool.tables.run import Run

#: A power whose 90 % interval is wider than this on either side says little. [1]
WIDEST: Final = 0.2
_IDENTITY: Final = ("blocks", "threads", "registers", "shared_bytes")


def read_measured_run(path: str | os.PathLike[str], gpu: Gpu) -> Measured:
    """Return the kernels of a run whose power its log identifies, as rows of a power fit.

    Kernels of known shape give energies per count. The others are kept as a sweep: the same kernel in
    runs at other clocks determines base and voltage. Power between kernels, at the clock of the run, is the
    base alone. What the log cannot identify is left out with the reason.

    Raises
    ------
    BadInput
        If the run has no usable power log, was recorded on another GPU, or its log identifies nothing.
    """
    name = os.fspath(path)
    run = Run.open(path)
    check_gpu(run, gpu)
    if verdict := why_unusable(run):
        raise BadInput.in_file(name, verdict, SEE_CHECKS)
    energy = attribute_run(run, gpu=gpu.name).energy
    signatures, rows = run_rows(run)
    conditions = recorded(run, rows, gpu)
    classes = energy.filter(pl.col("signature").is_not_null())
    place = np.searchsorted(signatures["signature"].to_numpy(), classes["signature"].to_numpy())
    reason = _reasons(classes, gpu, conditions.limit_w)
    class_rows = conditions.rows.take(place)
    seconds, watt = class_rows.number("duration_us") * 1e-6, _numbers(classes, "power_w")
    clock = class_rows.number("recorded_clock_mhz", conditions.clock_mhz)
    timing = replace(time_rows(class_rows, gpu, clock[:, None]), duration_s=seconds[:, None])
    shaped = known_shape(class_rows)
    fast = shaped & implausible(timing, class_rows, gpu, clock)
    reason = np.where((reason == "") & fast, "faster than the peak rates allow", reason)
    usable = reason == ""
    base = _between_kernels(energy, conditions)
    group = shape_groups(class_rows.family, timing.work.useful_flops)
    power = rows_of_timing(timing, class_rows, gpu, clock, power_w=watt, group=group).take(usable & shaped)
    power_rows = [rows_of_power for rows_of_power in (power, base) if len(rows_of_power)]
    sweep = _sweep_rows(class_rows, seconds, watt, clock, usable & ~shaped)
    rejected = _rejected(classes, reason, conditions.clock_mhz)
    if not usable.any():
        first = next((r for r in reason.tolist() if r), "it saw none of them")
        raise BadInput.in_file(
            name, f"has no kernel whose power its log identifies: {first}", "record a longer run"
        )
    return Measured("operators", name, PowerRows.concat(power_rows) if power_rows else None, sweep, rejected)


def check_gpu(run: Run, gpu: Gpu) -> None:
    """Raise BadInput where a run was recorded on another GPU, or on one of another maker."""
    home = recorded_gpu(run)
    if home is None:
        check_maker(run, gpu)
    if home is not None and home.name != gpu.name:
        raise BadInput.in_file(run.path, f"was recorded on {home.name}", f"calibrate that: --gpu {home.name}")


def _reasons(classes: pl.DataFrame, gpu: Gpu, limit_w: float) -> Texts:
    """Return the reason why each class cannot be used; empty where it can. Shape (n,)."""
    watt = _numbers(classes, "power_w")
    wide = np.maximum(
        _numbers(classes, "power_high_w") / watt - 1.0, 1.0 - _numbers(classes, "power_low_w") / watt
    )
    unclear = classes["reason"].fill_null("not identifiable from this log").to_numpy().astype(object)
    limit = min(limit_w, max(gpu.power_limit_w, np.nan_to_num(gpu.power_limit_max_w)))
    reasons = np.full(classes.height, "", dtype=object)
    reasons[watt >= AT_CAP * limit] = "at the power cap"
    reasons[~(wide <= WIDEST)] = f"its interval is wider than {100 * WIDEST:.0f} %"
    identified: Bools = classes["identified"].to_numpy().astype(np.bool_)
    reasons[~identified] = unclear[~identified]
    reasons[~(watt > 0)] = "no power"
    return reasons


def _between_kernels(energy: pl.DataFrame, conditions: Recorded) -> PowerRows:
    gaps = energy.filter((pl.col("class") == ACTIVE_IDLE) & pl.col("identified"))
    watt = _numbers(gaps, "power_w")
    rows = rows_of_idle(np.full(len(watt), conditions.clock_mhz), watt)
    wide = _numbers(gaps, "power_high_w") / watt - 1.0
    return rows.take((watt > 0) & (wide <= WIDEST))


def _sweep_rows(
    rows: OperatorColumns, seconds: Floats, watt: Floats, clock: Floats, chosen: Bools
) -> SweepRows | None:
    if not chosen.any():
        return None
    names = rows.text("name").astype(str)
    launch = np.stack([np.nan_to_num(rows.number(c), nan=-1.0) for c in _IDENTITY], axis=1)
    # The number a run gives its signatures is its own: name and launch make a kernel across runs.
    group = np.array(
        [f"{n.rpartition(' #')[0]} {tuple(g)}" for n, g in zip(names, launch.tolist(), strict=True)],
        dtype=object,
    )
    return SweepRows(watt[chosen], clock[chosen], seconds[chosen], group[chosen])


def _rejected(classes: pl.DataFrame, reason: Texts, clock_mhz: float) -> pl.DataFrame:
    out: Ints = np.flatnonzero(reason != "")
    return classes[out].select(
        pl.col("class").alias("kernel"),
        (pl.col("duration_ns") / pl.col("launches").clip(1) / 1e3).alias("duration_us"),
        "power_w",
        pl.lit(clock_mhz).alias("clock_mhz"),
        pl.Series("reason", reason[out], dtype=pl.String),
    )


def _numbers(frame: pl.DataFrame, column: str) -> Floats:
    return frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
