"""Tables that ``nvidia-smi`` prints by itself, one or a loop of them: whole watts, a date above each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text, measured, rejected_rows
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import Line, clock_of, stamp_times, stamped_lines, wall_clock_ns
from tracetool.sources.telemetry.readings import power_rows

_TITLE = re.compile(r"\|\s*NVIDIA-SMI\s+\d")
_DATE = re.compile(r"\s*([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d \d{4})\s*$")
#: ``|   0  NVIDIA A10      On  |   00000000:01:00.0 Off |``; the last word of the first cell is a mode.
_GPU = re.compile(
    r"\|\s*(\d{1,4})\s+(\S.*?)\s+\S+\s*\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s"
)
#: ``| 30%   50C    P0             196W /  300W |   15643MiB /  16276MiB |     97%      Default |``
_READING = re.compile(r"\|\s*\S+\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*\|\s*[^|]*\|\s*(\S+)\s[^|]*\|\s*$")
#: A line of a table is shorter; matching takes as the square of it.
_LINE_LIMIT = 300
_VALUES = ("temperature_c", "#power", "power_limit_w", "percent")
_SCHEMA = {
    "line": pl.Int64(), "time_ns": pl.Int64(), "device": pl.Int32(),
    **dict.fromkeys(("stamp", "text", "name", *_VALUES), pl.String()),
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: two tables, the first at the top, and little else.

    One alone is no log: programs' logs begin with it, and people keep it to say which GPU they had.
    """
    lines = probe.lines(200)
    if len(_TITLE.findall(probe.text)) < 2 or not any(_TITLE.search(line) for line in lines[:12]):
        return 0.0
    ruled = sum(line.endswith(("|", "+")) for line in lines)
    return 0.9 if 3 * ruled > 2 * len(lines) else 0.0


def _rows(lines: list[Line]) -> Iterator[dict[str, object]]:
    """Return each GPU of each table: its number and name stand in one line, what was read in the next.

    A GPU that comes again without another date is of a table whose head was cut off: when is not known.
    """
    date: int | None = None
    dated = set[int]()
    gpu: dict[str, object] | None = None
    for line in lines:
        text = line.text[:_LINE_LIMIT]
        if (found := _DATE.match(text)) is not None:
            date = wall_clock_ns(found[1])
            dated.clear()
        reading = _READING.match(text) if gpu is not None else None
        if gpu is not None:
            values = reading.groups() if reading else (None,) * len(_VALUES)
            yield gpu | dict(zip(_VALUES, values, strict=True))
        gpu = None
        if (found := _GPU.match(text)) is not None:
            date = None if int(found[1]) in dated else date
            dated.add(int(found[1]))
            gpu = {
                "line": line.number, "text": text, "stamp": line.stamp, "time_ns": date,
                "device": int(found[1]), "name": found[2],
            }  # fmt: skip


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings, at the stamps beside the lines or else at the dates above the tables.

    Raises
    ------
    BadInput
        If no GPU of any table has a reading.
    """
    rows = pl.DataFrame(list(_rows(stamped_lines(read_text(path, options.max_ratio)))), schema=_SCHEMA)
    clock = Clock("local", error_ns=3e8, basis="nvidia-smi writes local time in whole seconds")
    if rows["stamp"].null_count() < rows.height:
        clock = clock_of(rows["stamp"].to_list(), "nvidia-smi")
        rows = rows.with_columns(stamp_times(rows["stamp"].to_list()))
    trace = Trace("nvidia-smi", clock)
    reasons = {
        "no reading below the GPU's name": pl.all_horizontal(pl.col(c).is_null() for c in _VALUES),
        "no time stamp": pl.col("time_ns").is_null(),
    }
    for reason, is_bad in reasons.items():
        bad, rows = rows.filter(is_bad), rows.filter(~is_bad)
        if bad.height:
            trace.rejected.append(rejected_rows(path.name, bad["line"], reason, bad["text"]))
    if not rows.height:
        raise BadInput.in_file(path, "holds no reading with a time", "log with: nvidia-smi -l 1 > smi.log")
    trace.devices = logged_devices(rows["device"], "nvidia").join(_names(rows), on="device", how="left")
    numbers = rows.select("time_ns", "device", *[measured(c).alias(c) for c in _VALUES])
    numbers = numbers.with_columns(utilization=pl.col("percent") / 100).drop("percent")
    trace.telemetry = power_rows(numbers, {"#power": "power.draw"})
    return trace


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the GPUs' names; one that the table cut short (``Tesla P100-SXM2...``) may be any of several."""
    whole = ~pl.col("name").str.contains(r"\.\.\.$|^ERR!")
    return rows.group_by("device").agg(name=clean_text(pl.col("name").filter(whole).first()))


FORMAT = Format(
    title="nvidia-smi tables",
    holds="telemetry",
    made_by="nvidia-smi -l 1 > smi.log",
    tried="drivers 375 to 610, as quoted by their users; whole watts, a second apart at best",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".log", ".txt"),
    memory_ratio=20.0,
)
