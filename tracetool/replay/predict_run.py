"""Predict a run: its signatures modeled once, its timeline replayed at every clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.figures import counted
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.power_files import power_calibration_of
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.clocks import checked_cap, checked_clocks, checked_memory, with_recorded_clock
from tracetool.replay.coverage import coverage, prior_notes
from tracetool.replay.overlap import Rates
from tracetool.replay.prediction_frame import signature_frame
from tracetool.replay.recorded import Recorded, recorded, recorded_gpu, with_open_conditions
from tracetool.replay.replays import Launching, RunReplay, prepare
from tracetool.replay.run_rows import run_rows
from tracetool.replay.totals import rates_at
from tracetool.replay.transfer import on_gpu
from tracetool.tables.run import Run

#: Less kernel time than this is not worth a sentence. [ms]
_WORTH_SAYING_MS: Final = 1e-3


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
    signatures, rows = run_rows(opened, recorded_gpu(opened) or (load_gpu(gpu) if gpu else None))
    recorded_on, target = _gpus(opened, gpu)
    conditions = recorded(opened, rows, recorded_on)
    # shapes that the measured time rules out are left aside only where that time is used
    clock, notes = conditions.clock_mhz, list(conditions.notes if anchor else conditions.notes[:1])
    rows = conditions.rows if anchor else with_recorded_clock(rows, clock)
    if not (anchor or scale or clocks_mhz) and target.name == recorded_on.name:
        rows = with_open_conditions(rows, conditions)
    if target.name != recorded_on.name:
        rows = on_gpu(rows, recorded_on, target)
        notes.append(
            f"recorded on {recorded_on.name}: durations carried over to {target.name} by the model's ratio, "
            "host time kept"
        )
        clocks, more = checked_clocks(clocks_mhz or [target.clock_boost_mhz], target)
    else:
        clocks, more = checked_clocks(clocks_mhz or [clock], target)
    if scale:
        rows = _scaled(rows, target, _factors(opened, rows, scale), measured=anchor)
    limit = conditions.limit_w if target.name == recorded_on.name else target.power_limit_w
    options = assumed.options(target)
    power = options["power_calibration"] or power_calibration_of(target)
    predicted = predict_rows(
        rows,
        target,
        clocks,
        mem_clock_mhz=mem_clock_mhz,
        power_cap_w=limit if power_cap_w is None else power_cap_w,
        anchor=anchor or bool(scale),
        **options,
    )
    as_it_was = target.name == recorded_on.name and anchor and not scale and assumed == Assumptions()
    as_it_was = as_it_was and mem_clock_mhz is None and power_cap_w is None and clock in clocks

    def before() -> tuple[Rates, float]:
        if as_it_was:
            return rates_at(predicted, int(np.flatnonzero(clocks == clock)[0])), power.cap_share * limit
        return _rates_recorded(conditions, recorded_on)

    replays = prepare(
        opened,
        rows,
        predicted,
        launch=launch,
        drop=drop,
        anchored=anchor or bool(scale),
        cap_w=power.cap_share * (limit if power_cap_w is None else power_cap_w),
        recorded=before,
    )
    totals = replays.totals(anchored=anchor)
    records = totals.records
    info = {
        "kind": "run",
        "recorded_gpu": recorded_on.name,
        "recorded_clock_mhz": clock,
        "anchor": "measured" if anchor else "none",
        "coverage": coverage(rows, signatures["duration_ns"].to_numpy() * 1e-9),
        "launch": launch,
        "scale": dict(scale or {}),
        "drop": list(drop),
        "recorded_makespan_ms": float(replays.work.end_ns.max() - replays.work.start_ns.min()) * 1e-6,
        "unexplained_idle_ms": replays.pauses.total_ns * 1e-6,
        "activities": len(replays.work),
        "edges": dict(replays.graph.counts),
        "edges_inferred": replays.graph.inferred,
    }
    notes += [
        *more,
        *assumed.notes(target),
        *checked_cap(power_cap_w, target),
        *checked_memory(mem_clock_mhz, target),
        *prior_notes(target, rows, predicted),
        *_replay_notes(replays),
    ]
    if (slowed := max(r["slowed_together_ms"] for r in records)) > _WORTH_SAYING_MS:
        notes.append(
            f"kernels that run at once keep {replays.cap.limit_w:.4g} W together, for which they last "
            f"{slowed:.3g} ms longer in all"
        )
    frame = signature_frame(signatures, replays, totals)
    return PredictedRun(frame, records, target.name, tuple(notes), info, replays)


def _rates_recorded(conditions: Recorded, recorded_on: Gpu) -> tuple[Rates, float]:
    """Return the power of each signature while it was recorded, and the limit it was under."""
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


def _replay_notes(replays: RunReplay) -> list[str]:
    graph = replays.graph
    launched = counted(len(replays.work), "activity", "activities")
    size = f"{launched} over {counted(len(graph.kind), 'dependency', 'dependencies')}"
    notes = [f"replayed {size}, {graph.inferred} of them inferred from timing"]
    if replays.pauses.count:
        length = f"{replays.pauses.total_ns * 1e-9:.0f} s in all"
        notes.append(
            f"left out unexplained idle ({replays.pauses.count}, {length}) that the trace does not explain: "
            "its kernels seem to come from different moments, not from one timeline"
        )
    if graph.counts["launch"] == 0:
        notes.append("the trace holds no launch calls: gaps are kept as recorded")
    notes += _collective_notes(replays)
    if not replays.in_replay.all():
        notes.append(f"left out {int((~replays.in_replay).sum())} activities of dropped ranges")
    return notes


def _collective_notes(replays: RunReplay) -> list[str]:
    """Say which collectives wait for others in the replay, and which wait only as they did."""
    collectives, met = int(replays.collective.sum()), replays.met
    if not collectives:
        return []
    alone = collectives - len(met.member)
    if not len(met.member):
        several = len(np.unique(replays.work.device[replays.collective])) > 1
        why = "none overlaps one of another device" if several else "only one rank is in the run"
        return [f"{collectives} collectives keep what they waited for other ranks inside their time: {why}"]
    ends = replays.work.end_ns[met.member]
    first, last = np.full((2, len(met.arrival_ns)), np.nan)
    np.fmin.at(first, met.meeting, ends)
    np.fmax.at(last, met.meeting, ends)
    note = (
        f"{len(met.member)} collectives met in {len(met.arrival_ns)} (by name, size and overlap), "
        f"their ends within {float(np.median(last - first)) * 1e-3:.3g} us in the median"
    )
    return [note + (f"; {alone} met none and keep their waits" if alone else "")]
