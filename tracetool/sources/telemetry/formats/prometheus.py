"""Prometheus range queries of GPU exporters (DCGM's and AMD's), as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.telemetry.exporters import METRICS
from tracetool.sources.telemetry.readings import power_rows

_POWERS = {"#power": "power usage", "#instant": "instantaneous power usage"}
_KINDS: dict[str, str | None] = {"power usage": None, "instantaneous power usage": "instant"}


@dataclass
class _Series:
    metric: dict[str, Any] = field(default_factory=dict)
    values: list[Any] | None = None
    value: Any = None


@dataclass
class _Data:
    result: list[_Series]


@dataclass
class _Answer:
    data: _Data
    status: str = ""


def sniff(probe: Probe) -> float:
    """Score: an answer with ``resultType`` and metrics of a GPU exporter."""
    text = probe.text
    if '"resultType"' not in text:
        return 0.0
    return 1.0 if any(name in text for name in METRICS) else 0.3


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings.

    Raises
    ------
    BadInput
        If it is no answer of Prometheus, or holds no metric that is known.
    """
    import msgspec  # as every reader's library: not before a file needs it

    try:
        answer = msgspec.json.decode(unpacked_bytes(path, options.max_ratio), type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput.in_file(
            path, f"is not an answer of Prometheus: {str(error)[:160]}", "query it again"
        ) from error
    trace = Trace("Prometheus", Clock("utc", 0, 1e9, basis="scrape times, seconds since 1970"))
    gpus: dict[str, dict[str, Any]] = {}
    series_rows = []
    for series in answer.data.result:
        metric = METRICS.get(str(series.metric.get("__name__", "")))
        if metric is None:
            continue
        pairs = series.values if series.values is not None else [series.value]
        key = _key(series.metric)
        gpu = gpus.setdefault(key, _identity(series.metric, len(gpus)))
        series_rows.append(_points(path, pairs, gpu["device"], metric, trace))
    if not any(rows.height for rows in series_rows):
        raise BadInput.in_file(
            path, "holds no metric of a GPU exporter", "query e.g. DCGM_FI_DEV_POWER_USAGE with query_range"
        )
    long = pl.concat(series_rows)
    wide = long.group_by("time_ns", "device", "what").agg(pl.col("number").first())
    wide = wide.pivot("what", index=["time_ns", "device"], values="number").sort("device", "time_ns")
    powers = {c: f for c, f in _POWERS.items() if c in wide.columns}
    trace.telemetry = power_rows(wide, powers, _KINDS)
    trace.devices = pl.DataFrame(
        list(gpus.values()),
        schema={"device": pl.Int32, "profiler_device": pl.Int64, "uuid": pl.String, "name": pl.String},
    ).with_columns(clean_text("name"), clean_text("uuid"))
    return trace


def _key(metric: dict[str, Any]) -> str:
    uuid = metric.get("UUID") or metric.get("uuid") or metric.get("serial_number")
    host = metric.get("Hostname") or metric.get("hostname") or metric.get("instance") or ""
    return str(uuid or f"{host}/{metric.get('gpu') or metric.get('gpu_id') or 0}")


def _identity(metric: dict[str, Any], device: int) -> dict[str, Any]:
    index = str(metric.get("gpu") or metric.get("gpu_id") or "")
    uuid, name = metric.get("UUID") or metric.get("uuid"), metric.get("modelName") or metric.get("card_model")
    return {
        "device": device,
        "profiler_device": int(index) if index.isdecimal() and len(index) < 5 else None,
        "uuid": str(uuid) if uuid else None,
        "name": str(name) if name else None,
    }


def _points(
    path: Path, pairs: list[Any], device: int, metric: tuple[str, float], trace: Trace
) -> pl.DataFrame:
    column, factor = metric
    good, bad = [], []
    for pair in pairs:
        try:
            seconds, number = float(pair[0]), float(pair[1])
        except (TypeError, ValueError, IndexError, KeyError, OverflowError):
            bad.append(str(pair)[:80])
            continue
        if 0 < seconds < 7.3e9 and number == number and abs(number) < 1e15:  # noqa: PLR0124 - NaN is no reading
            good.append((round(seconds * 1000) * 10**6, number * factor))
        else:
            bad.append(str(pair)[:80])
    if bad:
        trace.rejected.append(rejected_rows(path.name, range(len(bad)), "not a sample", bad))
    return pl.DataFrame(
        {"time_ns": [g[0] for g in good], "number": [g[1] for g in good]},
        schema={"time_ns": pl.Int64, "number": pl.Float64},
    ).with_columns(device=pl.lit(device, dtype=pl.Int32), what=pl.lit(column))


FORMAT = Format(
    title="Prometheus range query of a GPU exporter",
    holds="telemetry",
    made_by="curl 'http://prometheus:9090/api/v1/query_range?query=DCGM_FI_DEV_POWER_USAGE&start=..&end=..&step=1s'",
    tried="metric names of dcgm-exporter 3 and AMD's device-metrics-exporter",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".json",),
    memory_ratio=12.0,
)
