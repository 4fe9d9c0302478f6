"""A run's time and energy by families, ranges, operators, iterations, gaps, moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.replay.achieved import SUMS, launch_sums, with_rates
from tracetool.replay.activities import rows_of_devices
from tracetool.replay.groups import activity_columns, check_depth, idle_groups, joined_names, parse_keys
from tracetool.replay.iterations import iterations
from tracetool.replay.power import sensor_view
from tracetool.replay.predict_run import PredictedRun
from tracetool.replay.prepared_replay import RunReplay
from tracetool.replay.range_tree import tree
from tracetool.replay.scope_totals import COPIES
from tracetool.replay.time_parts import idle_causes, idle_times

Breakdown = Callable[[RunReplay, int, PredictedRun], pl.DataFrame]


def breakdown(prediction: PredictedRun, by: str, depth: int | None = None) -> pl.DataFrame:
    """Return time and energy of a predicted run, broken down, one block of rows per clock.

    Parameters
    ----------
    prediction : PredictedRun
        From :func:`tracetool.replay.predict_run.predict_run`.
    by : str
        ``signature`` (means per launch), ``family``, ``range``, ``operator``, ``iteration``, ``gap``
        (idle time by reason) or ``power`` (as the GPU's sensor would show it); ``module``, ``gpu`` and
        several of all but the last (``gpu,module``, ``gap,gpu``), as ``attribute`` groups them.
    depth : int, optional
        Levels of nested modules kept apart, all by default.

    Returns
    -------
    DataFrame
        ``clock_mhz`` first. Time (``device_time_ms``) and energy are those of kernels and copies, so
        their sums are the totals of both; by ``family``, ``scope`` says which. By ``gap`` they are those
        of the gaps, by ``power`` and by ``gap`` with others the whole run's, idle time in ``idle_ms``.
        ``share`` is of the energy of the run, gaps included. What names launches has their achieved rates
        too (:mod:`tracetool.replay.achieved`).

    Raises
    ------
    BadInput
        If ``by`` is not known.
    """
    check_depth(by.split(","), depth)
    if by == "signature":
        return prediction.signatures
    if prediction.replays is None:
        raise BadInput(
            f"--by {by}: a run of {prediction.info['activities']:,} activities is predicted by signature",
            "leave out --by, or export a part of the trace",
        )
    make = BREAKDOWNS.get(by) or _grouping(prediction.replays, by, depth)
    blocks = []
    for j, total in enumerate(prediction.totals):
        block = make(prediction.replays, j, prediction)
        if "share" in block.columns:  # of the run, as everywhere
            block = block.with_columns((pl.col("energy_j") / total["energy_j"]).alias("share"))
        blocks.append(
            block.insert_column(0, pl.repeat(total["clock_mhz"], block.height, eager=True).alias("clock_mhz"))
        )
    return pl.concat(blocks)


def _grouping(replays: RunReplay, by: str, depth: int | None) -> Breakdown:
    """Return the breakdown by groups that ``attribute`` uses too."""
    known_keys = ("signature", *BREAKDOWNS, "module", "phase", "gpu")
    keys = by.split(",")
    if any(k not in known_keys for k in keys):
        raise BadInput(f"--by {by!r} is not known", f"known: {', '.join(known_keys)}")
    if "power" in keys:
        raise BadInput(f"--by {by!r}: power stands alone in a prediction", "give --by power")
    columns = activity_columns(replays.run, parse_keys(keys), depth)
    name = joined_names(pl.DataFrame(columns)).alias("name")

    def grouped(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
        active = _summed(name, replays, j, prediction)
        return _with_idle(active, columns, replays, j) if "gap" in keys else active

    return grouped


def _with_idle(
    active: pl.DataFrame, columns: Mapping[str, pl.Series], replays: RunReplay, j: int
) -> pl.DataFrame:
    """Add the groups of idle times of the replayed timeline: all rows then sum to the run's energy."""
    work, replayed = replays.work, replays.at(j, each=True)
    start, end = (np.rint(side).astype(np.int64) for side in (replayed.start_ns, replayed.end_ns))
    ran = replays.in_replay & (end > start)
    span = int(start.min()), int(end.max())
    frames = []
    for device, members in rows_of_devices(work.device):
        rows = np.flatnonzero(ran) if members is None else members[ran[members]]
        idle = idle_times(start[rows], end[rows], rows, span)
        idle, causes = idle_causes(idle, replayed.each_reason, replayed.each_late_ns)
        named = idle_groups(columns, idle, device, causes)
        frames.append(pl.DataFrame({"name": named, "idle_ms": (idle.end_ns - idle.start_ns) * 1e-6}))
    idle_w = float(replays.predicted.idle_w[j])
    idle_rows = (
        pl.concat(frames)
        .group_by("name", maintain_order=True)
        .agg(pl.col("idle_ms").sum())
        .with_columns(
            (pl.col("idle_ms") * 1e-3 * idle_w).alias("energy_j"), pl.lit(0, pl.Int64).alias("launches")
        )
    )
    return (
        pl.concat([active.drop("share"), idle_rows], how="diagonal_relaxed")
        .with_columns(pl.col("recorded_time_ms", "device_time_ms", "idle_ms").fill_null(0.0))
        .with_columns((pl.col("energy_j") / pl.col("energy_j").sum()).alias("share"))
        .sort("energy_j", "name", descending=[True, False])
    )


def _summed(group: pl.Series, replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    """Return time, energy and rates of groups of activities, the highest energy first."""
    costs = replays.costs(j)
    key = group.name
    frame = pl.DataFrame(
        {
            key: group,
            "ms": (costs.end_ns - costs.start_ns) * 1e-6,
            "recorded": replays.work.duration_ns * 1e-6,
            "energy_j": costs.energy_j,
            "in_replay": replays.in_replay,
        }
    )
    sums = _sums(j, prediction)
    grouped = (
        pl.concat([frame, sums], how="horizontal")
        .filter(pl.col("in_replay"))
        .group_by(key, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("recorded").sum().alias("recorded_time_ms"),
            pl.col("ms").sum().alias("device_time_ms"),
            pl.col("energy_j", *SUMS).sum(),
        )
        .with_columns((pl.col("energy_j") / pl.col("energy_j").sum()).alias("share"))
        .sort("energy_j", key, descending=[True, False])
    )
    return with_rates(grouped)


def _sums(j: int, prediction: PredictedRun) -> pl.DataFrame:
    assert prediction.replays is not None
    return launch_sums(prediction, float(prediction.totals[j]["clock_mhz"]), prediction.replays.costs(j))


def _family(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    family = pl.Series("family", replays.rows.family[replays.work.signature], dtype=pl.String)
    scope = pl.when(pl.col("family").is_in(COPIES)).then(pl.lit("copies")).otherwise(pl.lit("kernels"))
    return _summed(family, replays, j, prediction).with_columns(scope.alias("scope"))


def _range(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    ranges, of = replays.run.table("ranges"), replays.run.table("kernels", ["range"])["range"]
    return with_rates(tree(ranges, "range", of, replays.costs(j), _sums(j, prediction)))


def _operator(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    operators, of = replays.run.table("operators"), replays.run.table("kernels", ["operator"])["operator"]
    return with_rates(tree(operators, "operator", of, replays.costs(j), _sums(j, prediction)))


def _iteration(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    run = replays.run
    kernels = run.table("kernels", ["launch_ns", "signature", "process"])
    sums = _sums(j, prediction)
    return with_rates(
        iterations(run.table("ranges"), run.table("operators"), kernels, replays.costs(j), sums)
    )


def _gap(_: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    total: Mapping[str, Any] = prediction.totals[j]
    names = list(total["gaps_ms"])
    return pl.DataFrame(
        {
            "reason": names,
            "gaps": [total["gap_counts"][n] for n in names],
            "gap_ms": [total["gaps_ms"][n] for n in names],
            "energy_j": [total["gaps_j"][n] for n in names],
        }
    )


def _power(replays: RunReplay, j: int, prediction: PredictedRun) -> pl.DataFrame:
    idle = float(replays.predicted.idle_w[j])
    sensor = load_gpu(prediction.gpu).sensor("draw")
    blocks = []
    for device, curve in replays.curves(j).items():
        time, reading = sensor_view(curve, sensor, idle)
        drawn = np.diff(curve.energy_until(np.concatenate([curve.edge_ns[:1], time]), idle))
        period = np.diff(np.concatenate([curve.edge_ns[:1], time])) * 1e-9
        blocks.append(
            pl.DataFrame(
                {
                    "device": np.full(len(time), device, np.int32),
                    "time_ms": (time - curve.edge_ns[0]) * 1e-6,
                    "sensor_w": reading,
                    "mean_power_w": drawn / period,
                }
            )
        )
    return pl.concat(blocks)


#: Breakdowns by name.
BREAKDOWNS: Final[Mapping[str, Breakdown]] = {
    "family": _family,
    "range": _range,
    "operator": _operator,
    "iteration": _iteration,
    "gap": _gap,
    "power": _power,
}
