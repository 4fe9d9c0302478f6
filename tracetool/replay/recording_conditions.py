"""Conditions of a recording: on which GPU, at which clock, under which power limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.number_text import counted
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.hardware.trace_figures import differing_figures
from tracetool.model.blocks import slices
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import power_as_measured
from tracetool.model.timing import time_rows
from tracetool.replay.recorded_clocks import governed_clocks
from tracetool.tables.recorded_clock import recorded_clock
from tracetool.tables.run import Run

#: Nanoseconds of the step some profilers count in.
_STEP_NS: Final = 1000
#: Activities from which whole microseconds are no coincidence: one in a thousand is by itself. [1]
_LEAST: Final = 3
#: Variance of an error spread evenly over one step. [us^2]
_STEP_VARIANCE: Final = 1.0 / 12.0


def with_timer_error(run: Run, rows: OperatorColumns) -> tuple[OperatorColumns, list[str]]:
    r"""Return the rows with ``duration_sd_us`` where the profiler counts whole microseconds, and a note.

    Each launch has an error of up to half a microsecond, evenly. Over n launches the errors average out as
    far as the launches differ: launches that all read alike are off alike. With :math:`s^2` their variance,

    .. math:: \sigma^2 = \frac{1}{12} \left(1 - r + \frac{r}{n}\right), \qquad r = \min(1, 12 s^2)

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        One row a signature, with ``signature`` and ``launches``.
    """
    columns = ("start_ns", "duration_ns", "device", "process", "signature")
    activities = run.table("kernels", columns)
    coarse = _whole_microseconds(activities)
    if not coarse.height:
        return rows, []
    counted = activities.join(coarse, on=["device", "process"], how="semi", nulls_equal=True)
    spread = counted.group_by("signature", maintain_order=True).agg(
        pl.len().alias("launches"),
        ((pl.col("duration_ns") * 1e-3).var().fill_null(0.0)).alias("variance"),
    )
    random = (pl.col("variance") / _STEP_VARIANCE).clip(0.0, 1.0)
    sd = (_STEP_VARIANCE * (1.0 - random + random / pl.col("launches"))).sqrt()
    by_signature = spread.select("signature", sd.alias("sd"))
    signatures = pl.DataFrame({"signature": rows.number("signature").astype(np.int64)})
    matched = signatures.join(by_signature, on="signature", how="left", maintain_order="left")
    errors = matched["sd"].fill_null(0.0).to_numpy()
    note = (
        f"durations of {counted.height:,} of {activities.height:,} activities are whole microseconds: "
        "±0.5 us a launch is part of their intervals"
    )
    return replace(rows, columns={**rows.columns, "duration_sd_us": errors}), [note]


def _whole_microseconds(activities: pl.DataFrame) -> pl.DataFrame:
    """Return the devices and processes whose times are all whole microseconds."""
    since = pl.col("start_ns") - pl.col("start_ns").min()
    is_whole = (pl.col("duration_ns") % _STEP_NS == 0).all() & (since % _STEP_NS == 0).all()
    timers = activities.group_by("device", "process", maintain_order=True).agg(
        is_whole.alias("whole"), pl.len().alias("count"), pl.col("duration_ns").max().alias("longest")
    )
    counted = timers.filter(pl.col("whole") & (pl.col("count") >= _LEAST) & (pl.col("longest") > 0))
    return counted.select("device", "process")


def device_notes(run: Run, gpu: Gpu) -> list[str]:
    """Return notes where the trace's devices are not what the sheet of ``gpu`` describes."""
    worked_on = _worked_gpus(run)
    other_gpus = ", ".join(name for name in worked_on if name != gpu.name)
    notes = [f"kernels of {other_gpus} are predicted as those of {gpu.name}"] if len(worked_on) > 1 else []
    worked = run.devices.join(run.table("kernels", ("device",)).unique(), on="device", how="semi")
    for name, memory_bytes, sm_count in (
        worked.select("name", "memory_bytes", "sm_count").unique().iter_rows()
    ):
        if far := differing_figures(gpu, memory_bytes, sm_count):
            stated_text = " and ".join(text.format(stated) for text, stated, _ in far)
            listed_text = " and ".join(text.format(listed) for text, _, listed in far)
            notes.append(
                f"the trace states {stated_text} for {name or 'its GPU'}, the sheet {gpu.name}"
                f" {listed_text}: another model or a slice of it; name the right one with ingest --gpu"
            )
    return notes


#: Clocks tried for kernels that the power limit slowed while they were recorded: strides, and steps of each.
_STRIDES, _STRIDE = 3, 5
#: Powers this close are one, as at all clocks of one voltage. [1] A prior.
_SAME_POWER: Final = 1e-3
#: Rows whose powers are computed together. [rows] By definition without effect on results: it bounds memory.
_AT_ONCE: Final = 32_768
#: Clocks this close are one. [MHz]
_SAME_MHZ: Final = 1e-6
#: A kernel this many times faster than the model of its shapes did not do all of that work. [1]
_IMPOSSIBLE: Final = 5.0


@dataclass(frozen=True)
class Recorded:
    """The conditions of a recording, and its rows with the clock of each."""

    rows: OperatorColumns
    clock_mhz: float
    limit_w: float
    notes: tuple[str, ...]


def _worked_gpus(run: Run) -> list[str]:
    """Return the names of the GPUs kernels ran on, as far as known, those that worked most first."""
    work = run.table("kernels", ("device", "duration_ns"))
    busiest = (
        work.group_by("device", maintain_order=True)
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", descending=True)
    )
    devices = busiest.select("device").join(run.devices, on="device", how="inner", maintain_order="left")
    named = (
        gpu or (match_gpu(name, memory_bytes) if name else None)
        for name, gpu, memory_bytes in devices.select("name", "gpu", "memory_bytes").iter_rows()
    )
    return list(dict.fromkeys(name for name in named if name))


def recorded_gpu(run: Run) -> Gpu | None:
    """Return the GPU a run was recorded on, of several the one that worked most; None if not known.

    Raises
    ------
    BadInput
        If traces of GPUs of several architectures are in it, whose kernels no one model predicts.
    """
    gpus = [load_gpu(name) for name in _worked_gpus(run)]
    if len({gpu.architecture for gpu in gpus}) > 1 and len(run.info.get("sources", ())) > 1:
        names = ", ".join(gpu.name for gpu in gpus)
        raise BadInput.in_file(
            run.path,
            f"holds kernels of several GPUs ({names}), which one model cannot predict",
            "ingest the traces of each into a run of its own",
        )
    return gpus[0] if gpus else None


def usual_clock(run: Run, recorded_on: Gpu, target: Gpu) -> float:
    """Return the clock a run is predicted at by default, recorded on ``recorded_on``, on ``target``. [MHz]"""
    if target.name != recorded_on.name:
        return float(target.clock_boost_mhz)
    clock = recorded_clock(run)
    return clock[0] if clock else float(recorded_on.clock_boost_mhz)


def recorded_limit(run: Run, gpu: Gpu) -> float:
    """Return the power limit a run was recorded under: the one logged, else the GPU's. [W]

    A limit below what the log itself shows being drawn is not one.
    """
    limits = run.telemetry["power_limit_w"].drop_nulls()
    limit = float(limits.median() or 0.0) if len(limits) else 0.0  # type: ignore[arg-type]
    drawn = run.telemetry["power_w"].drop_nulls()
    most = float(drawn.max() or 0.0) if len(drawn) else 0.0  # type: ignore[arg-type]
    return max(limit or gpu.power_limit_w, min(most, gpu.power_limit_max_w or most))


def recorded(run: Run, rows: OperatorColumns, gpu: Gpu) -> Recorded:
    r"""Return the conditions a run was recorded under.

    Parameters
    ----------
    run : Run
        The run.
    rows : OperatorColumns
        Its signatures, with ``duration_us``.
    gpu : Gpu
        The GPU it ran on.

    Notes
    -----
    Without clock readings the GPU is taken to have run at its boost clock, and lower where the power
    of the measured kernel would exceed the limit: :math:`f = \max\{f : P(f; t_{measured}) \le P_{cap}\}`,
    as far as the governor held it there (:mod:`tracetool.replay.governor`).
    """
    limit = recorded_limit(run, gpu)
    rows, notes = with_timer_error(run, rows)
    notes = [*device_notes(run, gpu), *notes]
    measured_clock = recorded_clock(run)
    if measured_clock:
        clock, clock_note = measured_clock
        rows, more = _possible(_with_clock(rows, np.full(len(rows), clock)), gpu)
        return Recorded(rows, clock, limit, (clock_note, *notes, *more))
    boost = gpu.clock_boost_mhz
    rows, more = _possible(_with_clock(rows, np.full(len(rows), boost)), gpu)
    cap = power_calibration_of(gpu).cap_share * limit
    settled, never = _settled(rows, gpu, cap)
    if never.any():
        # Work that no clock does under the limit in that time is not the kernel's: see _possible.
        rows, more = _without_shapes(rows, never), [*more, _ignored_shapes(int(never.sum()), by_limit=True)]
        settled, _ = _settled(rows, gpu, cap)
    if (settled < boost).any():
        settled = governed_clocks(run, rows, gpu, settled, cap)
    low = gpu.clock_base_mhz
    stated = "the base clock" if "clock_base_mhz" in gpu.numbers else "a usual base clock"
    clock_note = f"recorded clock not known: taken as {boost:g} MHz, the boost clock of {gpu.name}"
    if slowed := int((settled < boost).sum()):
        clock_note += f", lower for {counted(slowed, 'signature')} that the power limit of {limit:g} W slowed"
    clock_note += f"; the intervals allow for {low:.4g} MHz, {stated}"
    return Recorded(
        _with_clock(rows, settled, np.minimum(low, settled)), boost, limit, (clock_note, *notes, *more)
    )


def without_refuted_sizes(rows: OperatorColumns, conditions: Recorded) -> OperatorColumns:
    """Return rows without the sizes that were inferred from a time which the model of them then rules out.

    Sizes that a trace states are its word, whatever the times say; inferred ones are no more than a reading
    of the time itself, and it refuted them.
    """
    refuted = (
        np.isfinite(rows.number("inferred_low"))
        & (conditions.rows.text("shape_source", "none") == "none")
        & (rows.text("shape_source", "none") != "none")
    )
    return _without_shapes(rows, refuted) if refuted.any() else rows


def with_open_conditions(rows: OperatorColumns, conditions: Recorded) -> OperatorColumns:
    """Return rows with the uncertainties of their recording: the timer's resolution and the lowest clock.

    Intervals of times that the model gives without the measured ones then hold it, as they
    are compared with what was recorded.
    """
    columns = ("duration_sd_us", "recorded_clock_low_mhz")
    still_open = {c: conditions.rows.number(c) for c in columns if c in conditions.rows.columns}
    return replace(rows, columns={**rows.columns, **still_open})


def _settled(rows: OperatorColumns, gpu: Gpu, cap_w: float) -> tuple[Floats, Bools]:
    """Return the clock each row ran at under the limit, and which rows exceed it at any clock. (n,)

    A row exceeds it where it does by more than the 90 % interval of the model's power; one within that ran at
    the highest clock that takes no more than the lowest does.
    """
    boost, sd = gpu.clock_boost_mhz, power_calibration_of(gpu).relative_sd
    clocks = np.linspace(max(gpu.clock_min_mhz, 0.4 * boost), boost, _STRIDES * _STRIDE + 1)
    settled, never = np.full(len(rows), boost), np.zeros(len(rows), np.bool_)
    at_boost = _power_at(rows, gpu, settled)
    hot = np.flatnonzero(at_boost > cap_w)
    if not len(hot):
        return settled, never
    hot_rows, each = rows.take(hot), np.arange(len(hot))
    # Power grows with the clock: the last step within the limit lies between two strides, one of which is.
    strides = np.arange(_STRIDES) * _STRIDE
    of_strides = _powers_at(hot_rows, gpu, np.broadcast_to(clocks[strides], (len(hot), _STRIDES)))
    of_strides = np.column_stack([of_strides, at_boost[hot]])
    never[hot] = of_strides[:, 0] > cap_w * np.exp(Z90 * sd)
    least_w = np.maximum(cap_w, of_strides[:, 0] * (1.0 + _SAME_POWER))
    stride = _last_within(of_strides, least_w)
    steps = stride[:, None] * _STRIDE + np.arange(1, _STRIDE)
    between_strides = _powers_at(hot_rows, gpu, clocks[steps])
    of_steps = np.column_stack([of_strides[each, stride], between_strides, of_strides[each, stride + 1]])
    step = _last_within(of_steps, least_w)
    at, low, high = stride * _STRIDE + step, of_steps[each, step], of_steps[each, step + 1]
    share = np.clip((least_w - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
    between = clocks[at] + share * (clocks[1] - clocks[0])
    # The governor takes supported clocks only: else the replay is one step wrong.
    supported_mhz = gpu.supported_clocks_mhz()
    settled[hot] = supported_mhz[
        np.maximum(np.searchsorted(supported_mhz, between + _SAME_MHZ, side="right") - 1, 0)
    ]
    return settled, never


def _ignored_shapes(count: int, *, by_limit: bool = False) -> str:
    """Return the note on signatures whose shapes are more work than their times, or their powers, allow."""
    their = "its" if count == 1 else "their"
    why = f"{their} measured time is too short for that work"
    if by_limit:
        why += " within the power limit"
    return f"ignored the shapes of {counted(count, 'signature')}: {why}"


def _possible(rows: OperatorColumns, gpu: Gpu) -> tuple[OperatorColumns, list[str]]:
    """Forget shapes that the measured time rules out: an operator's helper kernels do not do its work."""
    clock = rows.number("recorded_clock_mhz")
    has_shape: Bools = rows.text("shape_source", "none") != "none"
    measured = rows.number("duration_us", 0.0) * 1e-6
    modeled = time_rows(rows, gpu, clock[:, None]).duration_s[:, 0]
    false = has_shape & (measured > 0) & (modeled > _IMPOSSIBLE * measured)
    if not false.any():
        return rows, []
    return _without_shapes(rows, false), [_ignored_shapes(int(false.sum()))]


def _without_shapes(rows: OperatorColumns, which: Bools) -> OperatorColumns:
    source = np.where(which, "none", rows.text("shape_source", "none")).astype(object)
    return replace(rows, columns={**rows.columns, "shape_source": source})


def _with_clock(rows: OperatorColumns, clock_mhz: Floats, low_mhz: Floats | None = None) -> OperatorColumns:
    """Return the rows with the clock each ran at, and the lowest it may have run at. (n,) [MHz]"""
    low = clock_mhz if low_mhz is None else low_mhz
    both = {"recorded_clock_mhz": clock_mhz, "recorded_clock_low_mhz": low}
    return replace(rows, columns={**rows.columns, **both})


def _last_within(power_w: Floats, most_w: Floats) -> Ints:
    """Return the last column but one before the first that takes more, the first at least. (n, c), (n,)"""
    more = power_w[:, 1:-1] > most_w[:, None]
    within: Ints = np.where(more.any(axis=1), more.argmax(axis=1), more.shape[1])
    return within


def _powers_at(rows: OperatorColumns, gpu: Gpu, clocks_mhz: Floats) -> Floats:
    """Power of each row had its measured time been at each of its clocks, whatever the limit. (n, c) [W]"""
    count, clocks = clocks_mhz.shape
    power_w = np.empty((count, clocks))
    for block in slices(0, count, max(_AT_ONCE // clocks, 1)):
        at_mhz = clocks_mhz[block]
        repeated = rows.take(np.repeat(np.arange(block.start, block.stop), clocks))
        power_w[block] = power_as_measured(_with_clock(repeated, at_mhz.ravel()), gpu).reshape(at_mhz.shape)
    return power_w


def _power_at(rows: OperatorColumns, gpu: Gpu, clock_mhz: Floats) -> Floats:
    """Power of each row had its measured time been at this clock, whatever the limit. (n,) [W]"""
    return _powers_at(rows, gpu, clock_mhz[:, None])[:, 0]
