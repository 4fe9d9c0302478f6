"""``dcgmi dmon`` logs: labels that differ by release, no times unless lines are stamped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.exporters import DCGM_KINDS, DCGM_POWERS
from tracetool.sources.telemetry.localtime import Line, clock_of, stamped_lines
from tracetool.sources.telemetry.readings import power_rows
from tracetool.sources.telemetry.stamped_rows import line_table, stamped_readings

#: Labels of the fields in their spellings: 155 power, 156 energy, 157 instantaneous power, 100 and 101
#: clocks, 150 temperature, 203 and 1001 to 1002 activity.
_LABELS = {
    "power": "#power", "powr": "#power", "pwr": "#power", "pmusg": "#power",
    "poweri": "#instant", "pinst": "#instant", "pwrin": "#instant",
    "totec": "energy", "tec": "energy", "engy": "energy",
    "smclk": "clock_mhz", "mmclk": "mem_clock_mhz", "memclk": "mem_clock_mhz", "mclk": "mem_clock_mhz",
    "tmptr": "temperature_c", "temp": "temperature_c",
    "gract": "active", "smact": "sm_active", "gputl": "percent",
}  # fmt: skip
_ROW = re.compile(r"^\s*GPU(?:-I|-CI)?\s+(\d{1,4})\s+(.*)$")
_HEAD = re.compile(r"^\s*#?\s*Entity\b", re.IGNORECASE)


def sniff(probe: Probe) -> float:
    """Score: a line of labels that starts with ``#Entity``, and rows of GPUs."""
    lines = [line.text for line in stamped_lines("\n".join(probe.lines(60)))]
    if any(_HEAD.match(line) for line in lines):
        return 1.0 if any(_ROW.match(line) for line in lines) else 0.6
    return 0.0


def _rows(lines: list[Line]) -> Iterator[dict[str, object]]:
    labels: list[str] = []
    for line in lines:
        if _HEAD.match(line.text):
            labels = [p.lower() for p in line.text.replace("#", " ").split()[1:]]
            continue
        if line.text.strip().lower() in ("id", "entity id"):
            continue
        row: dict[str, object] = {"line": line.number, "text": line.text, "stamp": line.stamp, "gpu": None}
        if match := _ROW.match(line.text):
            cells = match[2].split()
            named = dict(zip([label for label in labels if label != "id"], cells, strict=False))
            row["gpu"] = match[1]
            row |= {c: named[n] for n, c in _LABELS.items() if n in named}
        yield row


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = stamped_lines(read_text(path, options.max_ratio))
    values = list(dict.fromkeys(_LABELS.values()))
    rows = line_table(_rows(lines), values)
    bad, good = rows.filter(pl.col("gpu").is_null()), rows.filter(pl.col("gpu").is_not_null())
    if not good.height:
        raise BadInput.in_file(
            path, "holds no reading", "log with: dcgmi dmon -e 155,156,100,101,1002 | ts '%.s'"
        )
    clock = clock_of(good["stamp"].to_list(), "dcgmi dmon")
    trace, readings = stamped_readings("dcgmi dmon", clock, path, good, bad, values)
    readings = readings.with_columns(
        pl.col("gpu").cast(pl.Int32).alias("device"),
        energy_j=pl.col("energy") * 1e-3,
        utilization=pl.coalesce("active", "sm_active", pl.col("percent") / 100),
    )
    trace.telemetry = power_rows(
        readings.select(
            "time_ns", "device", "#power", "#instant", "energy_j", "clock_mhz", "mem_clock_mhz",
            "temperature_c",
            "utilization",
        ),
        DCGM_POWERS, DCGM_KINDS,
    )  # fmt: skip
    trace.devices = logged_devices(readings["device"], "nvidia")
    return trace


FORMAT = Format(
    title="dcgmi dmon log",
    holds="telemetry",
    made_by="dcgmi dmon -e 155,156,100,101,1002 -d 100 | ts '%.s' > dcgm.log",
    tried="DCGM 2 and 3 labels, as quoted by their users; lines must be stamped",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".log", ".txt"),
    memory_ratio=20.0,
)
