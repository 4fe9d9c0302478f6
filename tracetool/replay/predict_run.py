"""Predict a run: its signatures modeled once, its timeline replayed at every clock."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.compiled import expect_turns
from tracetool.core.prediction import Prediction
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.clocks import checked_cap, checked_memory
from tracetool.replay.coverage import coverage, own_kernels_facts, prior_notes
from tracetool.replay.governor import Governor
from tracetool.replay.predict_windows import added, bare
from tracetool.replay.prediction_bounds import mean_over_cap, predicted_breaches
from tracetool.replay.prediction_frame import signature_frame
from tracetool.replay.prepare import prepare
from tracetool.replay.prepared_replay import Launching, RunReplay
from tracetool.replay.replay_notes import replay_notes
from tracetool.replay.run_case import RunCase, rates_recorded, run_case
from tracetool.tables.run import Run
from tracetool.tables.windows import Window, is_large, windows_of

#: Windows of a large run predicted at a time, each on a core.
_WINDOWS_AT_ONCE: Final = 2


@dataclass(frozen=True)
class PredictedRun:
    """Predictions of a run's signatures and of its timeline.

    ``signatures`` has one row per signature and clock: the ``predictions`` columns behind ``signature``,
    ``family``, ``kind``, ``name``, ``launches``, ``measured_duration_us``, ``inferred`` (sizes that the
    trace does not state: assumed from the launch, or inferred from the measured duration) and
    ``predicted_from`` (one of :data:`tracetool.core.prediction.FROM`). Times, energies and powers
    are means over the launches of the replayed run: times ``launches`` they add up to the totals of
    kernels and copies.
    ``replays`` gives the timeline itself; see :mod:`tracetool.replay.breakdown`.
    """

    signatures: pl.DataFrame
    totals: list[dict[str, Any]]
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    replays: RunReplay | None = field(default=None, repr=False)


def predict_run(
    run: Run | str | os.PathLike[str],
    gpu: str | None = None,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: Launching = "recorded",
    anchor: bool = True,
    from_others: bool = False,
    scale: Mapping[str, float] | None = None,
    drop: Sequence[str] = (),
    assumed: Assumptions = NOTHING_ASSUMED,
    brief: bool = False,
) -> PredictedRun:
    """Predict a run at other clocks, or on another GPU, and replay its timeline there.

    Parameters
    ----------
    run : Run or path
        The run.
    gpu : str, optional
        The GPU to predict; by default the one it ran on. Where the trace does not say which that was,
        the one given is taken for it.
    clocks_mhz : sequence of float, optional
        Core clocks; by default the one recorded, else the GPU's boost clock. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default the GPU's. [MHz]
    power_cap_w : float, optional
        Power cap; by default the limit the log names, else the GPU's. [W]
    launch : {"recorded", "eager", "graph"}
        How the host issues the kernels: as recorded, recorded graphs call by call, or all calls
        between two waits as one graph.
    anchor : bool
        Scale every kernel from its measured duration; otherwise durations are the model's own.
    from_others : bool
        Without ``anchor``: shift and narrow each by the measured kernels of other shapes.
    scale : mapping of str to float, optional
        Factor on the time of every kernel of a family: 0.5 is a kernel twice as fast. Its counts of
        operations and bytes, and their energies, stay.
    drop : sequence of str
        Ranges to leave out, with their kernels and the host time to launch them.
    assumed : Assumptions
        Calibrations of the user's own, and temperatures.
    brief : bool
        Energies, times and signatures only: no notes, no facts, and neither peaks nor GPUs in the totals.

    Raises
    ------
    BadInput
        If the run holds no GPU activity, its GPU is not known, or a family or range is not in it.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    options = _Options(
        mem_clock_mhz, power_cap_w, launch, anchor, from_others, scale or {}, tuple(drop), assumed, brief
    )
    predict = _in_windows if is_large(opened) else _predict_run
    return predict(opened, gpu, clocks_mhz, options)


@dataclass(frozen=True)
class _Options:
    """Options of a prediction of a run, or of each of its windows: as of :func:`predict_run`."""

    mem_clock_mhz: float | None
    power_cap_w: float | None
    launch: Launching
    anchor: bool
    from_others: bool
    scale: Mapping[str, float]
    drop: tuple[str, ...]
    assumed: Assumptions
    brief: bool = False

    @property
    def timed_by_measured(self) -> bool:
        """Whether times are scaled from measured or given ones."""
        return self.anchor or bool(self.scale)


def _in_windows(
    run: Run, gpu: str | None, clocks_mhz: Sequence[float] | None, options: _Options
) -> PredictedRun:
    """Return the prediction of a large run: its windows two at a time, all at the clocks of the first."""

    def predicted(window: Window) -> tuple[Window, PredictedRun]:
        prediction = replace(_predict_run(window, gpu, clocks_mhz, options), replays=None)
        gc.collect()  # a timeline's parts name one another: its memory is wanted by the next window
        return bare(window), prediction

    at_once = min(os.cpu_count() or 1, _WINDOWS_AT_ONCE)
    windows = windows_of(run, at_once)
    windows_predicted: list[tuple[Window, PredictedRun]] = []
    if not clocks_mhz:
        windows_predicted.append(predicted(next(windows)))
        clocks_mhz = [t["clock_mhz"] for t in windows_predicted[0][1].totals]
    with ThreadPoolExecutor(at_once) as pool:
        try:
            windows_predicted += pool.map(predicted, windows)
        finally:  # an error, or who asks to stop, does not wait for all the others
            pool.shutdown(wait=False, cancel_futures=True)
    return replace(
        windows_predicted[0][1], **added(windows_predicted, [p.info for _, p in windows_predicted], run)
    )


def _predict_run(
    opened: Run, gpu: str | None, clocks_mhz: Sequence[float] | None, options: _Options
) -> PredictedRun:
    """Predict a run that fits into memory, or a window of one that does not."""
    expect_turns(int(opened.signatures["launches"].sum() or 0))
    case = run_case(opened, gpu, clocks_mhz, anchor=options.anchor, scale=options.scale)
    assumed, target = options.assumed, case.target
    rows, assumptions = assumed.on_measured(case.rows), assumed.options(target)
    limit_w = case.limit_w if options.power_cap_w is None else options.power_cap_w

    def under(cap_w: float) -> Prediction:
        return predict_rows(
            rows,
            target,
            case.clocks_mhz,
            mem_clock_mhz=options.mem_clock_mhz,
            power_cap_w=cap_w,
            anchor=options.timed_by_measured,
            from_others=options.from_others and not options.timed_by_measured,
            **assumptions,
        )

    predicted = under(limit_w)
    calibration = assumptions["power_calibration"] or power_calibration_of(target)
    cap_share = calibration.cap_share
    governor = Governor.of(target)
    as_recorded = options.anchor and not options.scale and assumed == Assumptions()
    as_recorded = as_recorded and options.mem_clock_mhz is None and options.power_cap_w is None
    replays = prepare(
        opened,
        rows,
        predicted,
        launch=options.launch,
        drop=options.drop,
        anchored=options.timed_by_measured,
        cap_w=cap_share * limit_w,
        recorded=lambda: rates_recorded(case, predicted if as_recorded else None, cap_share),
        governor=Governor.of(case.recorded_on),
    )
    if replays.cap_may_bind:
        burst_w = governor.burst_share * replays.cap.limit_w
        recorded_at = case.recorded_at if as_recorded else None
        replays = replays.under(governor, under(burst_w / cap_share), burst_w, recorded_at)
    totals = replays.totals(anchored=options.anchor, brief=options.brief)
    frame = signature_frame(case.signatures, replays, totals)
    if options.brief:
        return PredictedRun(frame, totals.records, target.name, replays=replays)
    info = _recorded_facts(case, replays, options)
    own_notes, info["own_kernels"] = own_kernels_facts(case.conditions.rows, case.recorded_on, predicted)
    notes = (
        *case.notes,
        *assumed.notes(target),
        *checked_cap(options.power_cap_w, target),
        *checked_memory(options.mem_clock_mhz, target),
        *prior_notes(target, rows, predicted),
        *own_notes,
        *predicted_breaches(rows, target, predicted, calibration, assumed.surroundings),
        *_over_cap(replays, governor),
        *replay_notes(replays, totals.records),
    )
    return PredictedRun(frame, totals.records, target.name, notes, info, replays)


def _over_cap(replays: RunReplay, governor: Governor) -> list[str]:
    """Return a sentence where no clock keeps the cap, at the highest requested clock."""
    if replays.predicted.power_w.max(initial=0.0) <= replays.cap.limit_w:
        return []
    j = int(np.argmax(replays.predicted.requested_mhz))
    curves = replays.curves(j).values()
    notes = (mean_over_cap(c, replays.cap.limit_w, governor.time_constant_s) for c in curves)
    return [note for curve_notes in notes for note in curve_notes][:1]


def _recorded_facts(case: RunCase, replays: RunReplay, options: _Options) -> dict[str, Any]:
    """Return the size of the trace, how much of it is covered, and what was changed."""
    work, graph = replays.work, replays.graph
    return {
        "kind": "run",
        "recorded_gpu": case.recorded_on.name,
        "recorded_clock_mhz": case.conditions.clock_mhz,
        "anchor": "measured" if options.anchor else "others" if options.from_others else "none",
        "coverage": coverage(case.rows, case.signatures["duration_ns"].to_numpy() * 1e-9),
        "launch": options.launch,
        "scale": dict(options.scale),
        "drop": list(options.drop),
        "recorded_makespan_ms": float(work.end_ns.max() - work.start_ns.min()) * 1e-6,
        "unexplained_idle_ms": replays.pauses.total_ns * 1e-6,
        "activities": len(work),
        "edges": dict(graph.counts),
        "edges_inferred": graph.inferred,
    }
