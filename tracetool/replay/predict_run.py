"""Predict a run: its signatures modeled once, its timeline replayed at every clock."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.compiled import expect_turns
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.clocks import checked_cap, checked_clocks, checked_memory, with_recorded_clock
from tracetool.replay.coverage import coverage, own_kernels_facts, prior_notes
from tracetool.replay.governor import Governor
from tracetool.replay.overlap import Rates
from tracetool.replay.predicted_breaches import mean_over_cap, predicted_breaches
from tracetool.replay.prediction_frame import signature_frame
from tracetool.replay.prepare import prepare
from tracetool.replay.recorded import Recorded, recorded, recorded_gpu, with_open_conditions
from tracetool.replay.replay_notes import replay_notes
from tracetool.replay.replays import Launching, RunReplay
from tracetool.replay.run_rows import run_rows
from tracetool.replay.totals import rates_at
from tracetool.replay.transfer import on_gpu
from tracetool.replay.windowed import added, bare
from tracetool.tables.run import Run
from tracetool.tables.windows import Window, is_large, windows_of


@dataclass(frozen=True)
class PredictedRun:
    """Predictions of a run's signatures and of its timeline.

    ``signatures`` has one row per signature and clock: the ``predictions`` columns behind ``signature``,
    ``family``, ``kind``, ``name``, ``launches``, ``measured_duration_us``, ``inferred`` (sizes that the
    trace does not state: assumed from the launch, or told by the measured duration) and
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

    Raises
    ------
    BadInput
        If the run holds no GPU activity, its GPU is not known, or a family or range is not in it.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    if is_large(opened):
        options: dict[str, Any] = {
            "mem_clock_mhz": mem_clock_mhz, "power_cap_w": power_cap_w, "launch": launch, "anchor": anchor,
            "from_others": from_others, "scale": scale, "drop": drop, "assumed": assumed,
        }  # fmt: skip
        return _in_windows(opened, gpu, clocks_mhz, options)
    return _predict_run(
        opened, gpu, clocks_mhz, mem_clock_mhz=mem_clock_mhz, power_cap_w=power_cap_w, launch=launch,
        anchor=anchor, from_others=from_others, scale=scale, drop=drop, assumed=assumed,
    )  # fmt: skip


def _in_windows(
    run: Run, gpu: str | None, clocks_mhz: Sequence[float] | None, options: Mapping[str, Any]
) -> PredictedRun:
    """Return the prediction of a large run, window by window; all at the clocks of the first."""
    parts: list[tuple[Window, PredictedRun]] = []
    for window in windows_of(run):
        if not clocks_mhz and parts:
            clocks_mhz = [t["clock_mhz"] for t in parts[0][1].totals]
        predicted = _predict_run(window, gpu, clocks_mhz, **options)
        parts.append((bare(window), replace(predicted, replays=None)))
        del predicted
        gc.collect()  # a timeline's parts name one another: its memory is wanted by the next window
    return replace(parts[0][1], **added(parts, [p.info for _, p in parts], run))


def _predict_run(
    opened: Run,
    gpu: str | None,
    clocks_mhz: Sequence[float] | None,
    *,
    mem_clock_mhz: float | None,
    power_cap_w: float | None,
    launch: Launching,
    anchor: bool,
    from_others: bool,
    scale: Mapping[str, float] | None,
    drop: Sequence[str],
    assumed: Assumptions,
) -> PredictedRun:
    """Predict a run that fits into memory, or a window of one that does not."""
    expect_turns(int(opened.signatures["launches"].sum() or 0))
    case = _case(opened, gpu, clocks_mhz, anchor=anchor, scale=scale or {})
    rows, target = assumed.on_measured(case.rows), case.target
    options = assumed.options(target)
    limit_w = case.limit_w if power_cap_w is None else power_cap_w

    def under(cap_w: float) -> Prediction:
        return predict_rows(
            rows,
            target,
            case.clocks_mhz,
            mem_clock_mhz=mem_clock_mhz,
            power_cap_w=cap_w,
            anchor=anchor or bool(scale),
            from_others=from_others and not (anchor or scale),
            **options,
        )

    predicted = under(limit_w)
    calibration = options["power_calibration"] or power_calibration_of(target)
    cap_share = calibration.cap_share
    governor = Governor.of(target)
    as_recorded = anchor and not scale and mem_clock_mhz is None and power_cap_w is None
    as_recorded = as_recorded and assumed == Assumptions()
    replays = prepare(
        opened,
        rows,
        predicted,
        launch=launch,
        drop=drop,
        anchored=anchor or bool(scale),
        cap_w=cap_share * limit_w,
        recorded=lambda: _rates_recorded(case, predicted if as_recorded else None, cap_share),
        governor=Governor.of(case.recorded_on),
    )
    if replays.cap_may_bind:
        burst_w = governor.burst_share * replays.cap.limit_w
        recorded_at = case.recorded_at if as_recorded else None
        replays = replays.under(governor, under(burst_w / cap_share), burst_w, recorded_at)
    totals = replays.totals(anchored=anchor)
    info = _recorded_facts(
        case, replays, anchor=anchor, from_others=from_others, launch=launch, scale=scale or {}, drop=drop
    )
    own_notes, info["own_kernels"] = own_kernels_facts(case.conditions.rows, case.recorded_on, predicted)
    notes = (
        *case.notes,
        *assumed.notes(target),
        *checked_cap(power_cap_w, target),
        *checked_memory(mem_clock_mhz, target),
        *prior_notes(target, rows, predicted),
        *own_notes,
        *predicted_breaches(rows, target, predicted, calibration),
        *_over_cap(replays, governor),
        *replay_notes(replays, totals.records),
    )
    frame = signature_frame(case.signatures, replays, totals)
    return PredictedRun(frame, totals.records, target.name, notes, info, replays)


def _over_cap(replays: RunReplay, governor: Governor) -> list[str]:
    """Return a sentence where no clock keeps the cap, at the highest clock it was asked of."""
    if replays.predicted.power_w.max(initial=0.0) <= replays.cap.limit_w:
        return []
    j = int(np.argmax(replays.predicted.requested_mhz))
    curves = replays.curves(j).values()
    notes = (mean_over_cap(c, replays.cap.limit_w, governor.time_constant_s) for c in curves)
    return [note for found in notes for note in found][:1]


@dataclass(frozen=True)
class _Case:
    """What is predicted: the recorded rows as the GPU to predict sees them, and its clocks."""

    signatures: pl.DataFrame
    rows: OperatorColumns
    conditions: Recorded
    recorded_on: Gpu
    target: Gpu
    clocks_mhz: Floats
    notes: tuple[str, ...]

    @property
    def limit_w(self) -> float:
        """Power limit: the recorded one, or that of another GPU. [W]"""
        same_gpu = self.target.name == self.recorded_on.name
        return self.conditions.limit_w if same_gpu else self.target.power_limit_w

    @property
    def recorded_at(self) -> int | None:
        """Position of the recorded clock among those to predict; None on another GPU, or if not asked."""
        at = np.flatnonzero(self.clocks_mhz == self.conditions.clock_mhz)
        return int(at[0]) if len(at) and self.recorded_on.name == self.target.name else None


def _case(
    run: Run,
    gpu: str | None,
    clocks_mhz: Sequence[float] | None,
    *,
    anchor: bool,
    scale: Mapping[str, float],
) -> _Case:
    """Return the rows to predict: their recorded conditions known, carried to the GPU to predict, scaled."""
    signatures, rows = run_rows(run, recorded_gpu(run) or (load_gpu(gpu) if gpu else None))
    recorded_on, target = _gpus(run, gpu)
    conditions = recorded(run, rows, recorded_on)
    # shapes that the measured time rules out are left aside only where that time is used
    notes = list(conditions.notes if anchor else conditions.notes[:1])
    rows = conditions.rows if anchor else with_recorded_clock(rows, conditions.clock_mhz)
    if not (anchor or scale or clocks_mhz) and target.name == recorded_on.name:
        rows = with_open_conditions(rows, conditions)
    clock_mhz = conditions.clock_mhz
    if target.name != recorded_on.name:
        rows, clock_mhz = on_gpu(rows, recorded_on, target), target.clock_boost_mhz
        notes.append(
            f"recorded on {recorded_on.name}: durations carried over to {target.name} by the model's ratio, "
            "host time kept"
        )
    clocks, clock_notes = checked_clocks(clocks_mhz or [clock_mhz], target)
    if scale:
        rows = _scaled(rows, target, _factors(run, rows, scale), measured=anchor)
    return _Case(signatures, rows, conditions, recorded_on, target, clocks, (*notes, *clock_notes))


def _recorded_facts(
    case: _Case,
    replays: RunReplay,
    *,
    anchor: bool,
    from_others: bool,
    launch: Launching,
    scale: Mapping[str, float],
    drop: Sequence[str],
) -> dict[str, Any]:
    """Return what the trace held, how much of it is covered, and what was changed."""
    work, graph = replays.work, replays.graph
    return {
        "kind": "run",
        "recorded_gpu": case.recorded_on.name,
        "recorded_clock_mhz": case.conditions.clock_mhz,
        "anchor": "measured" if anchor else "others" if from_others else "none",
        "coverage": coverage(case.rows, case.signatures["duration_ns"].to_numpy() * 1e-9),
        "launch": launch,
        "scale": dict(scale),
        "drop": list(drop),
        "recorded_makespan_ms": float(work.end_ns.max() - work.start_ns.min()) * 1e-6,
        "unexplained_idle_ms": replays.pauses.total_ns * 1e-6,
        "activities": len(work),
        "edges": dict(graph.counts),
        "edges_inferred": graph.inferred,
    }


def _rates_recorded(case: _Case, predicted: Prediction | None, cap_share: float) -> tuple[Rates, float]:
    """Return the power of each signature while it was recorded, and the limit it was under.

    ``predicted``, where it is given, is of the run as it was recorded: it serves where it has that clock.
    """
    conditions, recorded_on = case.conditions, case.recorded_on
    if predicted is not None and case.recorded_at is not None:
        return rates_at(predicted, case.recorded_at), cap_share * case.limit_w
    predicted = predict_rows(
        conditions.rows,
        recorded_on,
        np.array([conditions.clock_mhz]),
        power_cap_w=conditions.limit_w,
        anchor=True,
    )
    return rates_at(predicted, 0), power_calibration_of(recorded_on).cap_share * conditions.limit_w


def _gpus(run: Run, gpu_name: str | None) -> tuple[Gpu, Gpu]:
    """Return the GPU a run was recorded on and the one to predict."""
    run_gpu = recorded_gpu(run)
    target = load_gpu(gpu_name) if gpu_name else run_gpu
    if target is None:
        names = sorted({n for n in run.devices["name"].to_list() if n})
        reason = (
            f"the trace names {', '.join(names)}, which is not known" if names else "the trace names no GPU"
        )
        raise BadInput.in_file(run.path, reason, "name it: --gpu h100-sxm; the known ones: tracetool gpus")
    recorded_on = run_gpu or target
    recorded_on.require_model()
    target.require_model()
    return recorded_on, target


def _factors(run: Run, rows: OperatorColumns, scale: Mapping[str, float]) -> Floats:
    factor = np.ones(len(rows))
    families = sorted(set(rows.family.tolist()))
    for family, value in scale.items():
        in_family = rows.family == family
        if not in_family.any():
            raise BadInput.in_file(
                run.path, f"has no kernels of family {family!r}", f"its families: {', '.join(families)}"
            )
        if not 0.0 < value < 1e3:
            raise BadInput(f"--scale {family}={value:g}: the factor must lie between 0 and 1000")
        factor[in_family] *= value
    return factor


def _scaled(rows: OperatorColumns, gpu: Gpu, factor: Floats, *, measured: bool) -> OperatorColumns:
    """Return the rows with durations scaled: the measured ones, or the model's own at the recorded clock."""
    clock = rows.number("recorded_clock_mhz", gpu.clock_boost_mhz)
    duration = rows.number("duration_us", 0.0)
    if not measured:
        duration = time_rows(rows, gpu, clock[:, None]).duration_s[:, 0] * 1e6
    return replace(rows, columns={**rows.columns, "duration_us": duration * factor})
