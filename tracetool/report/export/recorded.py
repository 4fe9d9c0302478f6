"""The timeline of a run: what was recorded and measured, and the replay at another clock beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.kernels.refine import families_of
from tracetool.measure.throttled_share import throttle_log
from tracetool.replay.module_paths import module_names
from tracetool.replay.power import PowerCurve
from tracetool.replay.predict_run import PredictedRun
from tracetool.replay.scope_totals import COPIES
from tracetool.report.export.energies import Energies, measured_columns, predicted_columns
from tracetool.report.export.timeline import Laid, Timeline, laid_out
from tracetool.tables.run import Run

#: The golden ratio in 64 bits (Knuth, The Art of Computer Programming, volume 3, section 6.4).
_ODD: Final = pl.lit(0x9E37_79B9_7F4A_7C15, dtype=pl.UInt64)
#: Host calls that start work.
_LAUNCHES: Final = pl.col("kind").cast(pl.String).is_in(["launch", "graph_launch", *COPIES])
#: Steps of a predicted power track at most; longer timelines are averaged over equal steps.
_MOST_STEPS: Final = 200_000


def activity_frame(run: Run, energies: Energies, stated: pl.DataFrame) -> pl.DataFrame:
    """Return the run's activities with what is known of each, in the order of the run's ``kernels``.

    Parameters
    ----------
    run : Run
        The run.
    energies : Energies
        What is known of its energy.
    stated : DataFrame
        From :func:`stated_frame`.

    Returns
    -------
    DataFrame
        ``start_ns``, ``duration_ns``, ``device``, ``stream``, ``kind``, ``name`` and the arguments of slices.
    """
    column_blocks = [stated]
    if energies.measured is not None:
        column_blocks.append(measured_columns(run, energies.measured))
    if energies.predicted is not None:
        column_blocks.append(predicted_columns(energies.predicted))
    return pl.concat(column_blocks, how="horizontal")


def stated_frame(run: Run) -> pl.DataFrame:
    """Return :func:`activity_frame` without energies: what the run states of each activity."""
    kernels = run.kernels
    signatures = run.signatures.with_columns(family=families_of(run.signatures).cast(pl.String))
    operators = run.table("operators", ["operator", "name"]).rename({"name": "operator_name"})
    ranges = run.table("ranges", ["range", "name"]).rename({"name": "range_name"})
    in_order = {"how": "left", "maintain_order": "left"}
    items = pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")
    threads = (pl.col("block_x") * pl.col("block_y") * pl.col("block_z")).cast(pl.Int64)
    frame = (
        kernels.join(signatures.select("signature", "family"), on="signature", **in_order)  # type: ignore[arg-type]
        .join(operators, on="operator", **in_order)  # type: ignore[arg-type]
        .join(ranges, on="range", **in_order)  # type: ignore[arg-type]
    )
    stated = frame.select(
        "start_ns",
        "duration_ns",
        "device",
        "stream",
        "kind",
        pl.col("name").fill_null(""),
        "family",
        operator="operator_name",
        range="range_name",
        begin_ns="start_ns",
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
        agent="device",
        stream_ID="stream",
        correlation_id="correlation",
        grid_size=items * threads,
        workgroup_size=threads,
        copy_bytes="bytes",
        launch_ns="launch_ns",
        signature="signature",
        flow=pl.when(_drawn(frame)).then(_flow("launch_ns")),
    )
    column_blocks = [stated]
    with contextlib.suppress(BadInput):  # a run that names no modules
        column_blocks.append(module_names(run, kernels).cast(pl.String).alias("module").to_frame())
    return pl.concat(column_blocks, how="horizontal")


def _drawn(frame: pl.DataFrame) -> pl.Expr:
    """Whether an arrow leads from its launch to an activity: not to each of the nodes of a graph."""
    linked = pl.col("launch_ns").is_not_null() & pl.col("correlation").is_not_null()
    return linked & pl.col("graph_node").is_null() if "graph_node" in frame.columns else linked


def _flow(start: str) -> pl.Expr:
    """Return one number for a launch and the activity it launched, from the moment and the correlation."""
    # Odd factors: moments of the same distance apart do not meet.
    moment, call = (pl.col(c).cast(pl.Int64).reinterpret(signed=False) for c in (start, "correlation"))
    return moment * _ODD + call


def build_timeline(
    run: Run,
    energies: Energies,
    activities: pl.DataFrame,
    host: Sequence[Laid],
    replayed: PredictedRun | None,
) -> Timeline:
    """Return the timeline of a run.

    Parameters
    ----------
    run : Run
        The run.
    energies : Energies
        What is known of its energy.
    activities : DataFrame
        From :func:`activity_frame`.
    host : sequence of Laid
        From :func:`host_slices`.
    replayed : PredictedRun, optional
        The run at another clock: a second process.
    """
    origin = int(activities["start_ns"].min() or 0)  # type: ignore[arg-type]
    timeline = Timeline(origin)
    process = timeline.add_process("recorded")
    _add_activities(timeline, process, activities)
    _add_measured(timeline, process, run)
    if energies.predicted is not None and energies.predicted.replays is not None:
        _add_power(timeline, process, energies.predicted.replays.recorded_curves(0), origin)
    for laid in host:
        timeline.add_laid(process, laid)
    if replayed is not None:
        _add_replay(timeline, activities, replayed, origin)
    earliest = [int(s.frame["start_ns"].min() or 0) for s in timeline.slices]  # type: ignore[arg-type]
    earliest += [int(c.time_ns.min()) for c in timeline.counters if len(c.time_ns)]
    timeline.origin_ns = min(earliest, default=origin)
    return timeline


def _add_activities(timeline: Timeline, process: int, activities: pl.DataFrame) -> None:
    """Add kernels and copies, on one track for each device and stream."""
    stream = pl.format("GPU {} stream {}", "device", pl.col("stream").cast(pl.String).fill_null("not stated"))
    placed = activities.with_columns(track=stream).drop("device", "stream")
    for kind in ("kernel", *COPIES):
        of_kind = placed.filter(pl.col("kind") == kind).drop("kind")
        empty = [c for c in of_kind.columns if of_kind[c].null_count() == of_kind.height]
        timeline.add_slices(process, kind, of_kind.drop(empty))


def _add_measured(timeline: Timeline, process: int, run: Run) -> None:
    """Add the readings of the log as they were written, and when they show a lowered clock."""
    gpus = {row["device"]: row for row in run.devices.iter_rows(named=True)}
    readings = run.telemetry.sort("device", "time_ns")
    for (device,), rows in readings.group_by("device", maintain_order=True):
        powered = rows.filter(pl.col("power_w").is_not_null())
        for (field,), of_field in powered.group_by("field", maintain_order=True):
            name = f"GPU {device} power measured" + (f" ({field})" if field else "")
            timeline.add_counter(
                process, name, "W", of_field["time_ns"].to_numpy(), of_field["power_w"].to_numpy()
            )
        for column, unit in (("clock_mhz", "MHz"), ("temperature_c", "C")):
            of_field = rows.filter(pl.col(column).is_not_null()).unique("time_ns", maintain_order=True)
            if of_field.height:
                name = f"GPU {device} {column.rsplit('_', 1)[0]} measured"
                timeline.add_counter(
                    process, name, unit, of_field["time_ns"].to_numpy(), of_field[column].to_numpy()
                )
        row = gpus.get(device, {})
        gpu = row.get("gpu") or match_gpu(row.get("name") or "")
        limit_w = load_gpu(gpu, part="sensor").power_limit_w if gpu else np.nan
        spans = _throttled(readings, int(device), limit_w)
        timeline.add_slices(process, "throttled", spans)


def _throttled(readings: pl.DataFrame, device: int, limit_w: float) -> pl.DataFrame:
    """Return spans with a lowered clock, each from its first reading to the one after its last.

    Time in which the log is silent is in none.
    """
    of_device = readings.filter(pl.col("device") == device)
    origin = int(of_device["time_ns"].min() or 0)  # type: ignore[arg-type]
    log = throttle_log(readings, device, origin, limit_w)
    if log is None or not log.lowered.any():
        return pl.DataFrame()
    begins, ends = log.spans()
    time_ns = origin + np.round(log.time_s * 1e9).astype(np.int64)
    spans = pl.DataFrame({"start_ns": time_ns[begins], "duration_ns": time_ns[ends] - time_ns[begins]})
    return spans.with_columns(
        track=pl.lit(f"GPU {device} throttled"), name=pl.lit("throttled"), basis=pl.lit(log.basis)
    )


def _add_power(timeline: Timeline, process: int, curves: Mapping[int, PowerCurve], origin_ns: int) -> None:
    for device, curve in curves.items():
        time_ns, power_w = _steps(curve)
        name = f"GPU {device} power predicted"
        timeline.add_counter(process, name, "W", origin_ns + np.round(time_ns).astype(np.int64), power_w)


def _steps(curve: PowerCurve) -> tuple[Floats, Floats]:
    """Return a curve's steps, or its means over equal steps where they are too many; 0 W at its end."""
    edges, power = curve.edge_ns, curve.power_w
    if len(power) > _MOST_STEPS:
        edges = np.linspace(edges[0], edges[-1], _MOST_STEPS + 1)
        power = np.diff(curve.energy_until(edges, 0.0)) / np.diff(edges) * 1e9
    return edges, np.append(power, 0.0)


def host_slices(run: Run) -> list[Laid]:
    """Return host calls and ranges, each on a track of its thread."""
    laid = []
    for table, category, word in (("host_calls", "host_call", "calls"), ("ranges", "range", "ranges")):
        rows = run.table(table).filter(pl.col("start_ns").is_not_null() & (pl.col("duration_ns") >= 0))
        if not rows.height:
            continue
        thread = pl.col("thread").cast(pl.String).fill_null("not stated")
        named = rows.select(
            "start_ns",
            "duration_ns",
            pl.col("name").fill_null(""),
            pl.format("Host thread {} {}", thread, pl.lit(word)).alias("track"),
            begin_ns="start_ns",
            end_ns=pl.col("start_ns") + pl.col("duration_ns"),
            tid="thread",
            pid="process",
            **(
                {"correlation_id": pl.col("correlation"), "flow": pl.when(_LAUNCHES).then(_flow("start_ns"))}
                if category == "host_call"
                else {}
            ),
        )
        laid.append(laid_out(category, named, nested=True))
    return laid


def _add_replay(timeline: Timeline, activities: pl.DataFrame, replayed: PredictedRun, origin: int) -> None:
    """Add the timeline at another clock, with its predicted energy and power."""
    replays = replayed.replays
    assert replays is not None, "a run's prediction has its timeline"
    clock_mhz = float(replayed.totals[0]["clock_mhz"])
    process = timeline.add_process(f"replay at {clock_mhz:g} MHz on {replayed.gpu}", predicted=True)
    costs = replays.costs(0)
    start, end = (_rounded(t) for t in (costs.start_ns, costs.end_ns))
    rows = activities.select(
        "device", "stream", "kind", "name", "family", "operator", recorded_duration_ns="duration_ns"
    )
    with_prediction = pl.concat([rows, predicted_columns(replayed)], how="horizontal").with_columns(
        start_ns=origin + pl.Series(start), duration_ns=pl.Series(np.maximum(end - start, 0))
    )
    _add_activities(timeline, process, with_prediction)
    _add_power(timeline, process, replays.curves(0), origin)


def _rounded(time_ns: Floats) -> Ints:
    return np.round(time_ns).astype(np.int64)
