"""Dumps of PowerSensor3, a meter in the GPU's own supply lines: volts, amperes and watts at up to 20 kHz."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.dumps import dump_rows
from tracetool.sources.telemetry.readings import power_rows

_FIELD = "power_total"
_ROW = r"^S -?\d{1,9}(?:\.\d+)?(?:e-\d+)?(?: -?\d+(?:\.\d+)?(?:e[+-]?\d+)?){2,}$"


def sniff(probe: Probe) -> float:
    """Score: the names its library writes first."""
    first = (probe.lines(1) or [""])[0].split()
    return 1.0 if first[:3] == ["marker", "time", "dt_micro"] and first[-1] == _FIELD else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the total of all supply lines: the power of whatever they feed.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = read_text(path, options.max_ratio).splitlines()
    names = lines[0].split() if lines else []
    rows = dump_rows(lines, _ROW, len(names))
    if not len(rows.cells) or _FIELD not in names:
        raise BadInput.in_file(
            path, "holds no reading of PowerSensor3", "dump again: psrun -d /dev/ttyACM0 -f log"
        )
    cells = pl.col("cells").list
    good = (
        rows.cells.alias("cells")
        .to_frame()
        .select(
            time_ns=(cells.get(1).cast(pl.Float64) * 1e9).round().cast(pl.Int64),
            device=pl.lit(0, dtype=pl.Int32),
            power=cells.get(len(names) - 1).cast(pl.Float64),
        )
    )
    trace = Trace("PowerSensor3", Clock("session", basis="seconds since its library was opened"))
    rows.reject(trace, path)
    trace.telemetry = power_rows(good, {"power": _FIELD}, {_FIELD: "instant"})
    trace.devices = logged_devices(trace.telemetry["device"])
    return trace


FORMAT = Format(
    title="PowerSensor3 dump",
    holds="telemetry",
    made_by="psrun -d /dev/ttyACM0 -f power.log ./app   (or dump() of its library)",
    tried="the columns its library of versions 1.2 to 1.6 writes; total of all supply lines",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".log", ".txt"),
    memory_ratio=25.0,
)
