"""Power logs of one device, taken out of a telemetry table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.measure.sensors import field_kind
from tracetool.sources.telemetry.logs import read_telemetry
from tracetool.tables.scopes import device_readings, gpu_readings, rows_where

_NS = 1e-9
#: Order in which fields are used: the shortest window sees most.
_RANK = {"instant": 0, "draw": 1, "average": 2}


@dataclass(frozen=True)
class PowerLog:
    """Readings of one power field and, where logged, of the energy counter beside it."""

    field: str
    time_s: Floats  # (n,) since the origin [s]
    power_w: Floats  # (n,) [W]
    counter_time_s: Floats  # (c,) [s]
    counter_j: Floats  # (c,) cumulative [J]


def telemetry_devices(telemetry: pl.DataFrame) -> list[int]:
    """Return the devices that have power readings or a counter, in order, one that is not stated last."""
    with_power = pl.col("power_w").is_not_null() | pl.col("energy_j").is_not_null()
    devices = gpu_readings(telemetry).select(pl.col("device").filter(with_power).unique())
    return devices["device"].sort(nulls_last=True).to_list()


def power_logs(telemetry: pl.DataFrame, device: int, origin_ns: int) -> list[PowerLog]:
    """Return the power logs of a device, the most informative field first.

    Parameters
    ----------
    telemetry : DataFrame
        ``telemetry`` schema.
    device : int
        Row in devices.
    origin_ns : int
        Time that becomes 0, near the log, so that float64 seconds keep nanoseconds. [ns]
    """
    columns = ["device", "time_ns", "power_w", "energy_j", "field", "power_kind"]
    device_rows = device_readings(gpu_readings(telemetry).select(columns), device)
    counted = device_rows.filter(pl.col("energy_j").is_not_null()).select("time_ns", "energy_j")
    counted = counted.unique("time_ns").sort("time_ns")
    counter_time = (counted["time_ns"].to_numpy() - origin_ns) * _NS
    counter = counted["energy_j"].to_numpy()
    out = []
    powered = rows_where(device_rows, pl.col("power_w").is_not_null() & pl.col("power_w").is_finite())
    for field in powered["field"].unique(maintain_order=True).to_list():
        rows = rows_where(powered, pl.col("field").eq_missing(pl.lit(field, dtype=pl.String)))
        if not rows["time_ns"].is_sorted():
            rows = rows.sort("time_ns")
        kind = rows["power_kind"].drop_nulls().head(1).to_list()
        name = field or (kind[0] if kind else "draw")
        time = (rows["time_ns"].to_numpy() - origin_ns) * _NS
        out.append(PowerLog(name, time, rows["power_w"].to_numpy(), counter_time, counter))
    if not out and len(counter) > 1:
        step = np.diff(counter_time)
        gained = np.diff(counter)
        good = (step > 0) & (gained >= 0)  # what a fall hides nobody knows
        mean = gained[good] / step[good]
        out.append(PowerLog("counter", counter_time[1:][good], mean, counter_time, counter))
    return sorted(out, key=lambda log: _RANK.get(field_kind(log.field), 3))


def read_power_logs(power: Sequence[Path], tz: str | None) -> pl.DataFrame:
    """Return the readings of GPUs in power logs, by device and time."""
    readings = pl.concat([gpu_readings(read_telemetry(p, tz)) for p in power])
    return readings.sort("device", "time_ns", maintain_order=True)


def logs_beside_activity(
    activity: str | os.PathLike[str], power: Sequence[Path], tz: str | None, device: int | None
) -> tuple[pl.DataFrame, int]:
    """Return the readings of the logs beside a table of activities, and the log's device that ran them.

    Raises
    ------
    BadInput
        If there is no log, it holds no power, or has no such device.
    """
    if not power:
        raise BadInput.in_file(
            activity, "is a table of activities without a power log", "give one: --power LOG"
        )
    telemetry = read_power_logs(power, tz)
    logged = telemetry_devices(telemetry)
    if not logged:
        raise BadInput.in_file(power[0], "holds no power readings")
    chosen = logged[0] if device is None else device
    if chosen not in logged:
        raise BadInput(f"the log has no device {chosen}", f"it has: {', '.join(map(str, logged))}")
    return telemetry, chosen


def paired_devices(logged: list[int], ran: list[int]) -> dict[int, int]:
    """Return the run's device of each device of a log: the same number, or the only one of each."""
    in_both = {d: d for d in logged if d in ran}
    return in_both or ({logged[0]: ran[0]} if len(logged) == len(ran) == 1 else {})
