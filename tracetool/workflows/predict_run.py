"""Predict a run: its signatures modelled once, its timeline replayed at every clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from tracetool.model.predict import predict_rows
from tracetool.replay.activities import KERNEL_COLUMNS, read_activities
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.host import host_costs
from tracetool.replay.timeline import replay
from tracetool.replay.whatif import launched_as_graphs
from tracetool.tables.run import Run
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import Prediction
from tracetool.workflows.clocks import checked_clocks, with_recorded_clock
from tracetool.workflows.prediction_frame import prediction_frame
from tracetool.workflows.replay_totals import Asked, rates_at, replay_record
from tracetool.workflows.run_rows import recorded_clock, run_gpu, run_rows

Launching = Literal["recorded", "eager", "graph"]


@dataclass(frozen=True)
class PredictedRun:
    """Predictions of a run's signatures and of its timeline.

    ``signatures`` has one row per signature and clock: the ``predictions`` columns (per launch) behind
    ``signature``, ``family``, ``kind``, ``name``, ``launches`` and ``measured_duration_us``.
    """

    signatures: pl.DataFrame
    totals: list[dict[str, Any]]
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)


def predict_run(
    run: Run | str | os.PathLike[str],
    gpu: str | None = None,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: Launching = "recorded",
    anchor: bool = True,
) -> PredictedRun:
    """Predict a run at other clocks and replay its timeline there.

    Parameters
    ----------
    run : Run or path
        The run.
    gpu : str, optional
        The GPU it ran on, where the trace does not say.
    clocks_mhz : sequence of float, optional
        Core clocks; by default the one recorded, else the GPU's boost clock. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default the GPU's. [MHz]
    power_cap_w : float, optional
        Power cap; by default the GPU's limit. [W]
    launch : {"recorded", "eager", "graph"}
        How the host issues the kernels: as recorded, or all calls between two waits as one graph.
    anchor : bool
        Scale every kernel from its measured duration; otherwise durations are the model's own.

    Raises
    ------
    BadInput
        If the run holds no GPU activity or its GPU is not known.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    signatures, rows = run_rows(opened)
    board = run_gpu(opened, gpu)
    board.require_model()
    clock, said = recorded_clock(opened, board)
    clocks, notes = checked_clocks(clocks_mhz or [clock], board)
    rows = with_recorded_clock(rows, clock)
    predicted = predict_rows(
        rows, board, clocks, mem_clock_mhz=mem_clock_mhz, power_cap_w=power_cap_w, anchor=anchor
    )
    made = replay_run(opened, rows, predicted, launch)
    frame = _signature_frame(signatures, predicted)
    info = {
        "kind": "run",
        "anchor": "measured" if anchor else "none",
        "launch": launch,
        "recorded_clock_mhz": clock,
        **made.info,
    }
    return PredictedRun(frame, made.totals, board.name, (said, *notes, *made.notes), info)


@dataclass(frozen=True)
class _Replays:
    totals: list[dict[str, Any]]
    notes: list[str]
    info: dict[str, Any]


def replay_run(run: Run, rows: OperatorColumns, predicted: Prediction, launch: Launching) -> _Replays:
    """Replay the timeline at every clock of a prediction and return the totals."""
    kernels = run.kernels.select(KERNEL_COLUMNS)
    if not kernels.height:
        raise BadInput.in_file(run.path, "holds no GPU activity to replay", "ingest the trace again")
    work, calls = read_activities(kernels, run.table("host_calls"))
    graph, _ = dependency_graph(work, calls)
    if launch == "graph":
        graph = launched_as_graphs(graph, calls, host_costs("graph"))
    launches = np.bincount(work.signature, minlength=len(rows)).astype(np.float64)
    recorded_s = np.bincount(work.signature, weights=work.duration_ns, minlength=len(rows)) * 1e-9
    mean_s = np.divide(recorded_s, launches, out=np.zeros_like(recorded_s), where=launches > 0)
    collective = (rows.family == "collective")[work.signature]
    asked = Asked(rows, predicted, launches)
    records = []
    for j in range(len(predicted.asked_mhz)):
        longer = np.divide(
            predicted.timing.duration_s[:, j], mean_s, out=np.ones_like(mean_s), where=mean_s > 0
        )
        made = replay(
            graph, work, work.duration_ns * longer[work.signature], rates_at(predicted, j), collective
        )
        records.append(replay_record(asked, made, j, devices=len(np.unique(work.device))))
    recorded = float(work.end_ns.max() - work.start_ns.min())
    info = {
        "recorded_makespan_ms": recorded * 1e-6,
        "activities": len(work),
        "edges": dict(graph.counts),
        "edges_inferred": graph.inferred,
    }
    edges = len(graph.kind)
    notes = [
        f"replayed {len(work)} activities over {edges} dependencies, {graph.inferred} inferred from timing"
    ]
    if graph.counts["launch"] == 0:
        notes.append("the trace holds no launch calls: gaps are kept as recorded")
    return _Replays(records, notes, info)


def _signature_frame(signatures: pl.DataFrame, predicted: Prediction) -> pl.DataFrame:
    c = len(predicted.asked_mhz)
    own = signatures.select(
        "signature",
        "family",
        "kind",
        "name",
        "launches",
        (pl.col("duration_ns") / pl.col("launches").clip(1) / 1e3).alias("measured_duration_us"),
    )
    repeated = own[np.repeat(np.arange(own.height), c)]
    return pl.concat([repeated, prediction_frame(predicted)], how="horizontal")
