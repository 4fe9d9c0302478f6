"""``nvidia-smi dmon`` logs: repeated headers, whole watts, times only with ``-o DT``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import Line, clock_of, stamped_lines
from tracetool.sources.telemetry.readings import power_rows
from tracetool.sources.telemetry.stamped_rows import line_table, stamped_readings

_COLUMNS = {
    "pwr": "#power",
    "pclk": "clock_mhz",
    "mclk": "mem_clock_mhz",
    "gtemp": "temperature_c",
    "temp": "temperature_c",
    "sm": "utilization",
}


def _names(line: str) -> list[str]:
    return line.strip().lstrip("#").lower().split()


def _is_header(line: str) -> bool:
    names = _names(line)
    return line.lstrip().startswith("#") and "gpu" in names and bool({"pwr", "pclk", "sm"} & set(names))


def sniff(probe: Probe) -> float:
    """Score: a line of column names that starts with ``#`` and names ``gpu``."""
    return 1.0 if any(_is_header(_strip(line)) for line in probe.lines(30)) else 0.0


def _strip(line: str) -> str:
    """Return a line without a stamp that was put in front of it."""
    at = line.find("#")
    return line[at:] if 0 <= at < 40 else line


def _rows(lines: list[Line]) -> Iterator[dict[str, object]]:
    names: list[str] = []
    for line in lines:
        text = _strip(line.text) if "#" in line.text else line.text
        if text.lstrip().startswith("#"):
            if _is_header(text):
                names = _names(text)
            continue
        cells = (line.raw if "date" in names else text).split()
        row: dict[str, object] = {"line": line.number, "text": line.text, "stamp": line.stamp, "gpu": None}
        if names and len(names) - 1 <= len(cells) <= len(names):
            by_name = dict(zip(names, cells, strict=False))
            if "date" in by_name and "time" in by_name:
                row["stamp"] = f"{by_name['date']} {by_name['time']}"
            row |= {
                "gpu": by_name.get("gpu"),
                **{c: by_name.get(n) for n, c in _COLUMNS.items() if n in by_name},
            }
        yield row


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = stamped_lines(read_text(path, options.max_ratio))
    columns = list(dict.fromkeys(_COLUMNS.values()))
    rows = line_table(_rows(lines), columns)
    number = pl.col("gpu").str.extract(r"^(\d{1,4})$", 1).cast(pl.Int32, strict=False)
    rows = rows.with_columns(device=number)
    bad = rows.filter(pl.col("device").is_null())
    good = rows.filter(pl.col("device").is_not_null())
    if not good.height:
        raise BadInput.in_file(path, "holds no reading", "log with: nvidia-smi dmon -s pucm -o DT")
    trace, readings = stamped_readings("nvidia-smi dmon", _clock(good), path, good, bad, columns)
    readings = readings.with_columns(pl.col("utilization") / 100)
    trace.telemetry = power_rows(
        readings.select("time_ns", "device", *columns), {"#power": "dmon pwr"}, {"dmon pwr": None}
    )
    trace.devices = logged_devices(readings["device"], "nvidia")
    return trace


def _clock(rows: pl.DataFrame) -> Clock:
    clock = clock_of(rows["stamp"].to_list(), "nvidia-smi dmon without -o DT")
    if clock.domain == "local":
        return Clock("local", error_ns=3e8, basis="nvidia-smi dmon writes local time in whole seconds")
    return clock


FORMAT = Format(
    title="nvidia-smi dmon log",
    holds="telemetry",
    made_by="nvidia-smi dmon -s pucm -d 1 -o DT > dmon.log",
    tried="drivers 450 to 570, as quoted by their users",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".log", ".txt"),
    memory_ratio=20.0,
)
