"""Who answers for a run's time and energy: families, ranges, operators, iterations, gaps, moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.replay.budget import COPIES
from tracetool.replay.iterations import iterations
from tracetool.replay.power import sensor_view
from tracetool.replay.predict_run import PredictedRun
from tracetool.replay.replays import RunReplay
from tracetool.replay.tree import tree


def breakdown(prediction: PredictedRun, by: str) -> pl.DataFrame:
    """Return time and energy of a predicted run, broken down, one block of rows per clock.

    Parameters
    ----------
    prediction : PredictedRun
        From :func:`tracetool.replay.predict_run.predict_run`.
    by : str
        ``signature`` (means per launch), ``family``, ``range``, ``operator``, ``iteration``, ``gap``
        (idle time by reason) or ``power`` (as the GPU's sensor would show it).

    Returns
    -------
    DataFrame
        ``clock_mhz`` first. Time (``device_time_ms``) and energy are those of kernels and copies, so
        their sums are the totals of both; by ``family``, ``scope`` says which. By ``gap`` they are those
        of the gaps, by ``power`` the whole run's.

    Raises
    ------
    BadInput
        If ``by`` is not known.
    """
    if by == "signature" or prediction.replays is None:
        return prediction.signatures
    if by not in BREAKDOWNS:
        raise BadInput(f"--by {by!r} is not known", f"known: signature, {', '.join(BREAKDOWNS)}")
    blocks = []
    for j, total in enumerate(prediction.totals):
        block = BREAKDOWNS[by](prediction.replays, j, prediction)
        blocks.append(
            block.insert_column(0, pl.repeat(total["clock_mhz"], block.height, eager=True).alias("clock_mhz"))
        )
    return pl.concat(blocks)


def _family(replays: RunReplay, j: int, _: PredictedRun) -> pl.DataFrame:
    costs = replays.costs(j)
    return (
        pl.DataFrame(
            {
                "family": pl.Series(replays.rows.family[replays.work.signature], dtype=pl.String),
                "ms": (costs.end_ns - costs.start_ns) * 1e-6,
                "recorded": replays.work.duration_ns * 1e-6,
                "energy_j": costs.energy_j,
                "in_replay": replays.in_replay,
            }
        )
        .filter(pl.col("in_replay"))
        .group_by("family")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("recorded").sum().alias("recorded_time_ms"),
            pl.col("ms").sum().alias("device_time_ms"),
            pl.col("energy_j").sum(),
        )
        .with_columns(
            pl.when(pl.col("family").is_in(COPIES))
            .then(pl.lit("copies"))
            .otherwise(pl.lit("kernels"))
            .alias("scope")
        )
        .with_columns((pl.col("energy_j") / pl.col("energy_j").sum()).alias("share"))
        .sort("energy_j", "family", descending=[True, False])
    )


def _range(replays: RunReplay, j: int, _: PredictedRun) -> pl.DataFrame:
    ranges, of = replays.run.table("ranges"), replays.run.table("kernels", ["range"])["range"]
    return tree(ranges, "range", of, replays.costs(j))


def _operator(replays: RunReplay, j: int, _: PredictedRun) -> pl.DataFrame:
    operators, of = replays.run.table("operators"), replays.run.table("kernels", ["operator"])["operator"]
    return tree(operators, "operator", of, replays.costs(j))


def _iteration(replays: RunReplay, j: int, _: PredictedRun) -> pl.DataFrame:
    run = replays.run
    kernels = run.table("kernels", ["launch_ns", "signature", "process"])
    return iterations(run.table("ranges"), run.table("operators"), kernels, replays.costs(j))


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
BREAKDOWNS: Final[Mapping[str, Callable[[RunReplay, int, PredictedRun], pl.DataFrame]]] = {
    "family": _family,
    "range": _range,
    "operator": _operator,
    "iteration": _iteration,
    "gap": _gap,
    "power": _power,
}
