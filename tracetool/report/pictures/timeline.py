"""The timeline: its columns packed so that a page can carry every launch, and power over time as a table."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints

#: Most launches a page carries; beyond that, neighbors on one lane become one bar.
MOST_BARS: Final = 150_000
#: Most moments of predicted power a page carries for each GPU; beyond that, means over equal parts.
MOST_MOMENTS: Final = 60_000
_LANES = 8
_GPUS = 4
_STEPS = 1 << 31


class Curve(Protocol):
    """Power that is constant between edges, on one device."""

    @property
    def edge_ns(self) -> Floats:
        """Edges, the first start of the run at zero. Shape (e + 1,). [ns]"""

    @property
    def power_w(self) -> Floats:
        """Power between them. Shape (e,). [W]"""

    def energy_until(self, time_ns: Floats, before_w: float) -> Floats:
        """Energy from the first edge to each time. [J]"""


@dataclass(frozen=True)
class Timeline:
    """Launches and power over time, ready for a page.

    Parameters
    ----------
    packed : mapping
        What the page's script reads: ``quantum_ns``, ``count``, lanes, and the columns ``start`` (steps
        since the previous launch), ``length`` (steps), ``signature`` and ``lane``, each as base64 of
        deflated planes of bytes.
    merged : int
        Launches that share a bar with a neighbor; 0 where every launch has its own.
    """

    packed: dict[str, Any]
    merged: int


def pack_timeline(
    kernels: pl.DataFrame, telemetry: pl.DataFrame, curves: Mapping[int, Curve]
) -> Timeline | None:
    """Return the timeline of a run, or None where it has no activity.

    Parameters
    ----------
    kernels : DataFrame
        The ``kernels`` table.
    telemetry : DataFrame
        The ``telemetry`` table; readings of power within the kernels' span are drawn.
    curves : mapping of int to Curve
        Predicted power of each device over the recorded times.
    """
    if not kernels.height:
        return None
    rows = kernels.select("start_ns", "duration_ns", "device", "stream", "signature").sort("start_ns")
    rows, lanes = _with_lanes(rows)
    first = int(rows["start_ns"][0])
    last = int((rows["start_ns"] + rows["duration_ns"]).to_numpy().max())
    quantum = max(1, -(-(last - first) // _STEPS))
    activity_count = rows.height
    if activity_count > MOST_BARS:
        rows = _merge(rows, (last - first) / MOST_BARS)
    start = (rows["start_ns"].to_numpy() - first) // quantum
    length = np.maximum(rows["duration_ns"].to_numpy() // quantum, 1)
    packed = {
        "quantum_ns": quantum,
        "span_ns": last - first,
        "count": rows.height,
        "lanes": lanes,
        "start": _planes(np.diff(start, prepend=0)),
        "length": _planes(length),
        "signature": _planes(rows["signature"].to_numpy()),
        "lane": _planes(rows["lane"].to_numpy()),
        "power": _power(telemetry, first, last),
        "model": [_model(d, c, quantum) for d, c in list(curves.items())[:_GPUS]],
    }
    return Timeline(packed, activity_count - rows.height)


def _with_lanes(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Number the busiest streams; those beyond the last lane share it."""
    keys = (
        rows.group_by("device", "stream", maintain_order=True)
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns", "device", "stream", descending=[True, False, False], nulls_last=True)
        .with_row_index("lane")
        .with_columns(pl.col("lane").cast(pl.Int64).clip(upper_bound=_LANES - 1))
    )
    several = keys["device"].n_unique() > 1
    names = [
        (f"GPU {device}, " if several else "") + (f"stream {stream}" if stream is not None else "stream ?")
        for device, stream in keys.head(_LANES).select("device", "stream").iter_rows()
    ]
    if keys.height > _LANES:
        names[-1] = f"{keys.height - _LANES + 1} more streams"
    numbered = rows.join(
        keys.select("device", "stream", "lane"), on=["device", "stream"], how="left", nulls_equal=True
    )
    return numbered.sort("start_ns", maintain_order=True), names


def _merge(rows: pl.DataFrame, step_ns: float) -> pl.DataFrame:
    """Make one bar of the launches of a lane that start within one step; the longest gives its name."""
    return (
        rows.with_columns((pl.col("start_ns") // step_ns).cast(pl.Int64).alias("step"))
        .group_by("lane", "step", maintain_order=True)
        .agg(
            pl.col("start_ns").min(),
            pl.col("duration_ns").sum(),
            pl.col("signature").get(pl.col("duration_ns").arg_max()),
        )
        .sort("start_ns")
    )


def _planes(values: Ints) -> str:
    """Return unsigned 32-bit values as base64 of deflated byte planes: like bytes are adjacent."""
    plain = values.astype("<u4").view(np.uint8).reshape(-1, 4).T
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(
        compressor.compress(np.ascontiguousarray(plain).tobytes()) + compressor.flush()
    ).decode("ascii")


def _power(telemetry: pl.DataFrame, first: int, last: int, most: int = 20_000) -> list[dict[str, Any]]:
    """Return the power readings per device within the span, thinned to the extremes of equal steps."""
    series = []
    rows = telemetry.filter(pl.col("power_w").is_not_null() & pl.col("time_ns").is_between(first, last))
    for (device, field), device_rows in rows.group_by("device", "field", maintain_order=True):
        ordered = device_rows.sort("time_ns")
        time = (ordered["time_ns"].to_numpy() - first).astype(np.float64)
        watts = ordered["power_w"].to_numpy()
        time, watts = _thin(time, watts, most)
        label = "" if field is None else str(field)
        series.append(
            {
                "device": device,
                "label": label,
                "time_ms": np.round(time / 1e6, 3).tolist(),
                "power_w": np.round(watts, 1).tolist(),
            }
        )
    return series[:_GPUS]


def _model(device: int, curve: Curve, quantum: int) -> dict[str, Any]:
    """Return a device's predicted power: steps between edges, and tenths of watts between them."""
    edge, power = curve.edge_ns, curve.power_w
    if power.size > MOST_MOMENTS:
        edge = np.linspace(edge[0], edge[-1], MOST_MOMENTS + 1)
        power = np.diff(curve.energy_until(edge, 0.0)) / (np.diff(edge) * 1e-9)
    steps = (edge // quantum).astype(np.int64)
    return {
        "device": device,
        "count": int(power.size),
        "highest_w": round(float(power.max(initial=0.0)), 1),
        "length": _planes(np.diff(steps)),
        "power": _planes(np.rint(10.0 * power).astype(np.int64)),
    }


def _thin(time: Floats, watts: Floats, most: int) -> tuple[Floats, Floats]:
    if time.size <= most:
        return time, watts
    step = -(-time.size // (most // 2))
    padded = -(-time.size // step) * step - time.size
    blocks = np.pad(watts, (0, padded), mode="edge").reshape(-1, step)
    base = np.arange(blocks.shape[0]) * step
    rows = np.unique(
        np.minimum(np.concatenate([base + blocks.argmin(1), base + blocks.argmax(1)]), time.size - 1)
    )
    return time[rows], watts[rows]


#: Equal parts of the run, one row each.
PARTS: Final = 24


def power_steps(
    kernels: pl.DataFrame, curves: Mapping[int, Curve], telemetry: pl.DataFrame, parts: int = PARTS
) -> pl.DataFrame:
    """Return mean powers over equal parts of a run.

    Parameters
    ----------
    kernels, telemetry : DataFrame
        The run's tables.
    curves : mapping of int to Curve
        Predicted power of each device over the recorded times, never above the power limit.
    parts : int
        How many.

    Returns
    -------
    DataFrame, one row per part
        ``from_ms``, ``to_ms``, ``launches`` (begun in it), ``busy_pct`` (with at least one activity, mean
        of the devices), ``power_w`` (predicted, summed over devices), ``measured_w`` (mean of the readings,
        summed over devices, null where there is none). Empty without activities.
    """
    work = kernels.select("device", "start_ns", "duration_ns").sort("start_ns")
    if not work.height:
        return pl.DataFrame()
    first = int(work["start_ns"][0])
    start = (work["start_ns"] - first).cast(pl.Float64).to_numpy()
    end = start + work["duration_ns"].cast(pl.Float64).to_numpy()
    edges = np.linspace(0.0, float(end.max()), parts + 1)
    if edges[-1] <= 0:
        return pl.DataFrame()
    device = work["device"].to_numpy()
    busy = np.mean([_covered(start[device == d], end[device == d], edges) for d in np.unique(device)], axis=0)
    joules = np.sum([np.diff(c.energy_until(edges, 0.0)) for c in curves.values()], axis=0)
    return pl.DataFrame(
        {
            "from_ms": edges[:-1] * 1e-6,
            "to_ms": edges[1:] * 1e-6,
            "launches": np.histogram(start, edges)[0],
            "busy_pct": 100.0 * busy,
            "power_w": joules / (np.diff(edges) * 1e-9),
            "measured_w": _measured(telemetry, first, edges),
        }
    )


def _spread(start: Floats, end: Floats, amount: Floats, edges: Floats) -> Floats:
    """Return the part of each amount, spread evenly over its time, in each interval."""
    lasting = end > start
    s, e, rate = start[lasting], end[lasting], amount[lasting] / (end - start)[lasting]
    sums = np.zeros(len(edges) - 1)
    for i in range(len(sums)):
        inside = np.minimum(e, edges[i + 1]) - np.maximum(s, edges[i])
        sums[i] = rate @ np.maximum(inside, 0.0)
    return sums


def _covered(start: Floats, end: Floats, edges: Floats) -> Floats:
    """Return the share of each part covered by any of the times, which begin in order."""
    until = np.concatenate([[0.0], np.maximum.accumulate(end)[:-1]])
    begin = np.maximum(start, until)
    return _spread(begin, np.maximum(end, begin), np.maximum(end - begin, 0.0), edges) / np.diff(edges)


def _measured(telemetry: pl.DataFrame, first: int, edges: Floats) -> pl.Series:
    """Return the mean reading of each part, summed over devices; one field of the log."""
    readings = telemetry.filter(pl.col("power_w").is_not_null())
    field = readings["field"].drop_nulls().unique(maintain_order=True)
    if len(field):
        readings = readings.filter(pl.col("field") == field[0])
    step = np.searchsorted(edges, (readings["time_ns"] - first).cast(pl.Float64).to_numpy(), side="right") - 1
    means = (
        readings.select("device", "power_w")
        .with_columns(pl.Series("part", step, dtype=pl.Int64))
        .group_by("part", "device", maintain_order=True)
        .agg(pl.col("power_w").mean())
        .group_by("part", maintain_order=True)
        .agg(pl.col("power_w").sum())
    )
    places = pl.DataFrame({"part": np.arange(len(edges) - 1)}, schema={"part": pl.Int64})
    return places.join(means, on="part", how="left", maintain_order="left")["power_w"].alias("measured_w")
