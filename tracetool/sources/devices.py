"""One numbering of GPUs for all sources of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tracetool.sources.format import Trace

_I = pl.Int64()
DEVICE_COLUMNS: dict[str, pl.DataType] = {
    "name": pl.String(), "vendor": pl.String(), "profiler_device": _I, "process": _I, "rank": _I,
    "uuid": pl.String(), "sm_count": pl.Int32(), "clock_max_mhz": pl.Float64(), "memory_bytes": _I,
    "compute_capability": pl.String(),
}  # fmt: skip
_SCHEMA: dict[str, pl.DataType] = {"device": pl.Int32(), **DEVICE_COLUMNS}
#: Number that the driver's tools, and so a log, give a GPU, where the profiler counts otherwise.
DRIVER_INDEX = "driver_index"
#: Bounds of what a GPU reports of itself, with a margin for future ones: multiprocessors, MHz, bytes.
_PROPERTIES = {"sm_count": (1, 1 << 16), "clock_max_mhz": (1.0, 1e4), "memory_bytes": (1, 1 << 48)}


def device_rows(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return the GPUs that a trace states as a table; a value of another type or beyond 64 bits is null.

    Parameters
    ----------
    rows : sequence of mapping
        ``device`` and some of :data:`DEVICE_COLUMNS`, as another program wrote them.
    """
    schema = {**_SCHEMA, "sm_count": _I}
    return pl.DataFrame(
        [{c: _within_64_bits(r.get(c), c) for c in schema} for r in rows], schema=schema, strict=False
    )


def logged_devices(numbers: pl.Series, vendor: str | None = None) -> pl.DataFrame:
    """Return the GPUs of a log that states their numbers alone, in order.

    Parameters
    ----------
    numbers : Series of int
        The GPU of each reading, null for readings of none.
    vendor : str, optional
        Their maker, where the log tells.
    """
    used = numbers.drop_nulls().unique().sort().cast(pl.Int32)
    devices = pl.DataFrame({"device": used, "profiler_device": used.cast(pl.Int64)})
    return devices if vendor is None else devices.with_columns(vendor=pl.lit(vendor))


def _within_64_bits(value: Any, column: str) -> Any:
    """Return a value within 64 bits; a property beyond them becomes one that no GPU has, to be reported."""
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return value
    return 2**63 - 1 if column in _PROPERTIES and value > 0 else None


def check_devices(devices: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return the GPUs of a trace without what no GPU has, and a sentence on each such value."""
    warnings = []
    for column, (low, high) in _PROPERTIES.items():
        if column not in devices.columns:
            continue
        odd = devices.filter(~pl.col(column).is_between(low, high))
        warnings += [
            f"GPU {n}: {column} {v:g} cannot be: left out"
            for n, v in odd.select("device", column).iter_rows()
        ]
        if odd.height:
            devices = devices.with_columns(pl.when(pl.col(column).is_between(low, high)).then(pl.col(column)))
    return devices, warnings


def _listed(trace: Trace) -> list[dict[str, Any]]:
    """Return the devices of a source, those it uses without describing them too, in order."""
    schema = {**_SCHEMA, DRIVER_INDEX: _I}
    table = pl.DataFrame(schema=schema)
    if trace.devices.height:
        devices = trace.devices
        if DRIVER_INDEX not in devices.columns and "profiler_device" in devices.columns:
            devices = devices.with_columns(pl.col("profiler_device").alias(DRIVER_INDEX))
        described = [pl.col(c).cast(k, strict=False) for c, k in schema.items() if c in devices.columns]
        table = pl.concat([table, devices.select(described)], how="diagonal")
    used: set[int] = set()
    for table_of_rows in (trace.activities, trace.telemetry):
        if table_of_rows.height:
            used |= set(table_of_rows["device"].drop_nulls().unique().to_list())
    bare = sorted(used - set(table["device"].to_list()))
    table = pl.concat([table, pl.DataFrame({"device": bare}, schema={"device": pl.Int32})], how="diagonal")
    return list(table.sort("device").iter_rows(named=True))  # a row per GPU


def plain_uuid(uuid: str | None) -> str:
    """Return a unique id as all loggers would spell it.

    >>> plain_uuid("GPU-8A1F-02"), plain_uuid(None)
    ('8a1f02', '')
    """
    return (uuid or "").lower().removeprefix("gpu-").removeprefix("0x").replace("-", "")


def _same(
    row: Mapping[str, Any], placed: Sequence[Mapping[str, Any]], *, log: bool, alone: bool
) -> int | None:
    """Return the run's number of a device already listed, None for a new one."""
    uuid = plain_uuid(row["uuid"])
    if uuid:
        for placed_row in placed:
            if plain_uuid(placed_row["uuid"]) == uuid:
                return int(placed_row["device"])
    if not log:
        return None
    at = _with_index(row, placed)
    if len(at) == 1:
        return at[0]
    return int(placed[0]["device"]) if alone and len(placed) == 1 else None


def _with_index(row: Mapping[str, Any], placed: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return listed GPUs with the same index of the driver, unless unique ids differ."""
    index, uuid = row[DRIVER_INDEX], plain_uuid(row["uuid"])
    return [
        int(k["device"])
        for k in placed
        if index is not None and k[DRIVER_INDEX] == index and not (uuid and k["uuid"])
    ]


def place_devices(traces: Sequence[Trace]) -> tuple[pl.DataFrame, list[dict[int, int]], list[str]]:
    """Return the GPUs of all sources, for each source its device numbers to the run's, and what was assumed.

    Notes
    -----
    GPUs of several traces are one where their unique ids agree, else each trace (each rank) keeps its
    own, ranks in their order. A log's GPU is a trace's GPU where the unique ids agree, else where the
    driver's index agrees (for AMD the place among the GPUs' agents), else where there is only one of each.
    An index that several hosts' traces use is that of the first host in the first such log, and so on;
    traces that all call their GPU by one index (``CUDA_VISIBLE_DEVICES``), or by none known, have the GPUs
    of a log in its order where there are as many. GPUs that appear only in a log are added.
    """
    placed: list[dict[str, Any]] = []
    maps: list[dict[int, int]] = [{} for _ in traces]
    assumed: list[str] = []
    order = sorted(range(len(traces)), key=lambda i: (_is_log(traces[i]), _rank(traces[i]) or 0))
    logs = [_listed(traces[i]) for i in order if _is_log(traces[i])]
    log_number = -1
    for i in order:
        log = _is_log(traces[i])
        log_number += log
        rows = [{**row, "rank": _rank(traces[i])} for row in _listed(traces[i])]
        met = list(placed)
        in_order = _in_order(rows, met) if log else {}
        if in_order:
            assumed.append("a log's GPUs are taken to be those of the ranks, in their order")
        for row in rows:
            place = in_order.get(int(row["device"]))
            if place is None:
                place = _same(row, met, log=log, alone=len(rows) == 1)
            if place is None and log:
                place = _of_host(row, met, logs, log_number)
                if place is not None:
                    assumed.append("logs of several hosts are taken to be in the order of the ranks")
            if place is None:
                place = len(placed)
                placed.append({**row, "device": place})
            else:
                first = placed[place]
                placed[place] = {k: first[k] if first[k] is not None else row[k] for k in first}
            maps[i][int(row["device"])] = place
    advice = ": name uuid in the query of the log to be sure"
    table = pl.DataFrame(placed, schema={**_SCHEMA, DRIVER_INDEX: _I}).drop(DRIVER_INDEX)
    return table, maps, [f"{a}{advice}" for a in dict.fromkeys(assumed)]


def _in_order(rows: Sequence[Mapping[str, Any]], met: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return the GPUs of a log by as many of traces, which all call theirs by one index, or by none known."""
    if len(rows) < 2 or len(rows) != len(met) or any(k["uuid"] for k in met):
        return {}
    if len({k[DRIVER_INDEX] for k in met}) > 1:
        return {}
    if met[0][DRIVER_INDEX] is None and any(k["profiler_device"] is None for k in met):
        return {}
    return {int(row["device"]): int(k["device"]) for row, k in zip(rows, met, strict=True)}


def _of_host(
    row: Mapping[str, Any],
    met: Sequence[Mapping[str, Any]],
    logs: Sequence[Sequence[Mapping[str, Any]]],
    number: int,
) -> int | None:
    """Return the GPU of the n-th log with an index that as many traces use as logs do."""
    at = _with_index(row, met)
    index = row[DRIVER_INDEX]
    holders = [n for n, rows in enumerate(logs) if any(r[DRIVER_INDEX] == index for r in rows)]
    if len(at) < 2 or len(at) != len(holders):
        return None
    return at[holders.index(number)]


def _is_log(trace: Trace) -> bool:
    return not trace.activities.height and trace.telemetry.height > 0


def _rank(trace: Trace) -> int | None:
    rank = trace.details.get("rank")
    return rank if isinstance(rank, int) else None
