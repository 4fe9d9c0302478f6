"""AIPerf's ``gpu_telemetry_export.jsonl``: a line per GPU and scrape, energy in megajoules."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.json_lines import decoded_lines, real
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.meters import gpus_of_hosts
from tracetool.sources.telemetry.readings import power_rows

#: Metric to (column, factor to its unit). AIPerf scales DCGM's millijoules to megajoules; the amdsmi
#: collector names AMD's alike.
_METRICS: Final = {
    "gpu_power_usage": ("power", 1.0), "amd_power": ("power", 1.0),
    "energy_consumption": ("energy_j", 1e6), "amd_energy_consumption": ("energy_j", 1e6),
    "gpu_temperature": ("temperature_c", 1.0), "amd_temperature": ("temperature_c", 1.0),
    "sm_clock_frequency": ("clock_mhz", 1.0), "memory_clock_frequency": ("mem_clock_mhz", 1.0),
    "gpu_utilization": ("utilization", 0.01), "amd_gfx_activity": ("utilization", 0.01),
    "power_management_limit": ("power_limit_w", 1.0),
}  # fmt: skip
_FIELD = "gpu_power_usage"


def sniff(probe: Probe) -> float:
    """Score: lines of objects with a GPU and its telemetry."""
    first = (probe.lines(1) or [""])[0]
    return 1.0 if first.startswith("{") and '"telemetry_data"' in first and '"gpu_index"' in first else 0.0


def _row(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a reading; None where a line is none."""
    metrics, time = record.get("telemetry_data"), record.get("timestamp_ns")
    index = record.get("gpu_index")
    is_typed = isinstance(metrics, dict) and type(time) is int and type(index) is int
    if not (is_typed and 0 < time < 1 << 62 and 0 <= index < 1_000_000):  # type: ignore[operator]
        return None
    row: dict[str, Any] = {"time_ns": time, "index": index}
    for source, column in (("gpu_uuid", "uuid"), ("gpu_model_name", "name"), ("hostname", "host")):
        row[column] = str(record[source]) if record.get(source) else None
    row["host"] = row["host"] or (str(record["dcgm_url"]) if record.get("dcgm_url") else None)
    for metric, (column, factor) in _METRICS.items():
        value = real(metrics.get(metric))  # type: ignore[union-attr]
        if value is not None:
            row[column] = value * factor
    return row


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings, each GPU by its host and unique id.

    Raises
    ------
    BadInput
        If no line holds a reading.
    """
    rows, bad = decoded_lines(read_text(path, options.max_ratio), _row)
    columns = list(dict.fromkeys(c for c, _ in _METRICS.values()))
    frame = pl.DataFrame(
        rows,
        schema={
            "time_ns": pl.Int64, "index": pl.Int64, "uuid": pl.String, "name": pl.String, "host": pl.String,
            **dict.fromkeys(columns, pl.Float64),
        },
    )  # fmt: skip
    if not frame.height:
        raise BadInput.in_file(path, "holds no reading of a GPU", "profile again with --gpu-telemetry")
    trace = Trace("AIPerf", Clock("utc", 0, 1e7, basis="wall clock of the collector, ns since 1970"))
    if bad:
        trace.rejected.append(rejected_rows(path.name, bad, "not a reading", [""] * len(bad)))
    device, trace.devices = gpus_of_hosts(frame)
    trace.telemetry = power_rows(
        frame.select("time_ns", *columns).with_columns(device), {"power": _FIELD}, {_FIELD: None}
    )
    return trace


FORMAT = Format(
    title="AIPerf GPU telemetry",
    holds="telemetry",
    made_by="aiperf profile --model MODEL --url HOST:8000 --gpu-telemetry http://HOST:9400/metrics",
    tried="no public log: records of 0.3 to 0.13, as its data models write them; energy in MJ",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=("gpu_telemetry_export.jsonl", ".jsonl"),
    memory_ratio=25.0,
)
