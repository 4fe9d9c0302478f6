"""Dumps of the Power Measurement Toolkit (PMT): a line of names, then times and watts of each sensor."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.dumps import dump_rows
from tracetool.sources.telemetry.meters import meter_rows, readings
from tracetool.sources.telemetry.readings import power_rows

_HEAD = re.compile(r"timestamp(?: [A-Za-z_][\w.:/-]*)+")
_ROW = r"^\d{1,10}(?:\.\d+)?(?: -?\d+(?:\.\d+)?(?:e[+-]?\d+)?)+$"
#: What RAPL sensors call their parts, to their scope; a core is part of its package.
_SCOPES = (
    ("psys", "node"),
    ("platform", "node"),
    ("dram", "host_memory"),
    ("package", "socket"),
    ("pkg", "socket"),
)
_PARTS = re.compile(r"core|uncore|total", re.IGNORECASE)


def sniff(probe: Probe) -> float:
    """Score: its line of names and a line of a time and watts."""
    lines = probe.lines(6)
    if not lines or not _HEAD.fullmatch(lines[0]):
        return 0.0
    return 1.0 if any(re.match(_ROW, line) for line in lines[1:]) else 0.4


def _scope(name: str) -> str:
    return next((scope for word, scope in _SCOPES if word in name.lower()), "gpu")


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings; marks of the program stay out.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = read_text(path, options.max_ratio).splitlines()
    names = lines[0].split()[1:] if lines and _HEAD.fullmatch(lines[0].strip()) else []
    rows = dump_rows(lines, _ROW, len(names) + 1)
    if not names or not len(rows.cells):
        raise BadInput.in_file(
            path, "holds no reading of PMT", "dump again, e.g. PMT_DUMP_FILE=pmt.log ./app"
        )
    good = rows.cells.list.to_struct(fields=["#time", *names]).struct.unnest()
    seconds = good["#time"].cast(pl.Float64)
    good = good.with_columns(
        *(pl.col(n).cast(pl.Float64, strict=False) for n in names),
        time_ns=(seconds * 1e3).round().cast(pl.Int64) * 1_000_000,
    )
    absolute = float(seconds[0]) > 1e8
    trace = Trace(
        "PMT",
        Clock("utc", 0, 1e6, basis="seconds since 1970")
        if absolute
        else Clock("session", basis="seconds since the dump began"),
    )
    rows.reject(trace, path)
    gpus = [n for n in names if _scope(n) == "gpu" and not _PARTS.fullmatch(n)]
    meter_tables = [
        meter_rows(good, _scope(n), f"{_scope(n)}.{n}", power=n, kind="average")
        for n in names
        if _scope(n) != "gpu"
    ]
    if parted := [n for n in names if n not in gpus and _scope(n) == "gpu"]:
        trace.warnings.append(f"{', '.join(parted)}: a part or a sum of other sensors, not read")
    numbers = {n: re.search(r"\d+", n) for n in gpus}
    for name in gpus:
        number = numbers[name]
        device = int(number[0]) if number and len(number[0]) < 4 else 0
        watts = good.select(
            "time_ns", pl.lit(device, dtype=pl.Int32).alias("device"), pl.col(name).alias("power")
        )
        kind = next((k for k in ("instant", "average") if k in name.lower()), None)
        meter_tables.append(power_rows(watts, {"power": name}, {name: kind}))
    trace.telemetry = readings(meter_tables)
    trace.devices = logged_devices(trace.telemetry["device"])
    return trace


FORMAT = Format(
    title="Power Measurement Toolkit (PMT) dump",
    holds="telemetry",
    made_by="PMT_DUMP_FILE=pmt.log PMT-cli nvml ./app   (or StartDump of its library)",
    tried="logs of NVML, ROCm and AMD SMI sensors in public results of 2024; marks left out",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".log",),
    memory_ratio=25.0,
)
