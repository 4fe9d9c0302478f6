"""One numbering of GPUs for all sources of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tracetool.sources.format import Trace

_I = pl.Int64()
DEVICE_COLUMNS: dict[str, pl.DataType] = {
    "name": pl.String(), "vendor": pl.String(), "profiler_device": _I, "process": _I,
    "uuid": pl.String(), "sm_count": pl.Int32(), "clock_max_mhz": pl.Float64(), "memory_bytes": _I,
    "compute_capability": pl.String(),
}  # fmt: skip
_SCHEMA: dict[str, pl.DataType] = {"device": pl.Int32(), **DEVICE_COLUMNS}
#: Bounds of what a GPU reports of itself, with a margin for future ones: multiprocessors, MHz, bytes.
_PROPERTIES = {"sm_count": (1, 1 << 16), "clock_max_mhz": (1.0, 1e4), "memory_bytes": (1, 1 << 48)}


def device_rows(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return what a trace says of its GPUs as a table; a value of another type is null.

    Parameters
    ----------
    rows : sequence of mapping
        ``device`` and some of :data:`DEVICE_COLUMNS`, as another program wrote them.
    """
    schema = {**_SCHEMA, "sm_count": _I}
    return pl.DataFrame([{c: r.get(c) for c in schema} for r in rows], schema=schema, strict=False)


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
    table = pl.DataFrame(schema=_SCHEMA)
    if trace.devices.height:
        described = [
            pl.col(c).cast(k, strict=False) for c, k in _SCHEMA.items() if c in trace.devices.columns
        ]
        table = pl.concat([table, trace.devices.select(described)], how="diagonal")
    used: set[int] = set()
    for part in (trace.activities, trace.telemetry):
        if part.height:
            used |= set(part["device"].drop_nulls().unique().to_list())
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
    """Return the run's number of a device already met, None for a new one."""
    own = plain_uuid(row["uuid"])
    if own:
        for other in placed:
            if plain_uuid(other["uuid"]) == own:
                return int(other["device"])
    if not log:
        return None
    index = row["profiler_device"]
    at = [
        k for k in placed if index is not None and k["profiler_device"] == index and not (own and k["uuid"])
    ]
    if len(at) == 1:
        return int(at[0]["device"])
    return int(placed[0]["device"]) if alone and len(placed) == 1 else None


def place_devices(traces: Sequence[Trace]) -> tuple[pl.DataFrame, list[dict[int, int]]]:
    """Return the GPUs of all sources, and for each source its device numbers to the run's.

    Notes
    -----
    GPUs of several traces are one where their unique ids agree, else each trace (each rank) keeps its
    own. A log's GPU is a trace's GPU where the unique ids agree, else where the driver's index agrees,
    else where there is only one of each. GPUs that appear only in a log are added.
    """
    placed: list[dict[str, Any]] = []
    maps: list[dict[int, int]] = [{} for _ in traces]
    order = sorted(range(len(traces)), key=lambda i: _is_log(traces[i]))  # traces first
    for i in order:
        log = _is_log(traces[i])
        rows = _listed(traces[i])
        met = list(placed)
        for row in rows:
            place = _same(row, met, log=log, alone=len(rows) == 1)
            if place is None:
                place = len(placed)
                placed.append({**row, "device": place})
            else:
                first = placed[place]
                placed[place] = {k: first[k] if first[k] is not None else row[k] for k in _SCHEMA}
            maps[i][int(row["device"])] = place
    return pl.DataFrame(placed, schema=_SCHEMA), maps


def _is_log(trace: Trace) -> bool:
    return not trace.activities.height and trace.telemetry.height > 0
