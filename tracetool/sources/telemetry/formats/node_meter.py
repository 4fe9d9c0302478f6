"""Power of a whole node from its management controller: ipmitool's DCMI readings and Redfish."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.json_lines import real
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import clock_of, stamp_times, stamped_lines, wall_clock_ns
from tracetool.sources.telemetry.meters import meter_rows

_WATTS = re.compile(r"Instantaneous power reading\s*:\s*(\d+(?:\.\d+)?) Watts", re.IGNORECASE)
_FREEIPMI = re.compile(r"Current Power\s*:\s*(\d+(?:\.\d+)?) Watts", re.IGNORECASE)
#: A line that should hold a reading, whatever it holds.
_LABEL = re.compile(r"(?:Instantaneous power reading|Current Power)\s*:", re.IGNORECASE)
_STAMP = re.compile(r"(?:IPMI timestamp|Timestamp)\s*:\s*(.+)", re.IGNORECASE)


def sniff(probe: Probe) -> float:
    """Score: a reading of ipmitool or FreeIPMI, or a Redfish document of power."""
    text = probe.text
    if _WATTS.search(text) or _FREEIPMI.search(text):
        return 1.0
    return 0.9 if '"PowerConsumedWatts"' in text or ('"PowerWatts"' in text and "@odata" in text) else 0.0


#: Counters of a Redfish ``EnvironmentMetrics`` resource, and what one of their units is. [J]
_COUNTERS: Final = {"EnergyJoules": 1.0, "EnergykWh": 3.6e6}
#: Share of readings between which a counter must rise to count as energy: most count tenths of kWh. [1]
_RISES: Final = 0.5


def _counted(document: Any) -> float | None:
    """Return the joules that a Redfish ``EnvironmentMetrics`` resource counted."""
    if isinstance(document, dict):
        for name, joules in _COUNTERS.items():
            reading = document.get(name)
            count = real(reading.get("Reading")) if isinstance(reading, dict) else None
            if count is not None:
                return count * joules
    return None


def _redfish(document: Any) -> float | None:
    """Return the watts of a Redfish ``Power`` or ``EnvironmentMetrics`` resource."""
    if not isinstance(document, dict):
        return None
    control = document.get("PowerControl")
    if isinstance(control, list) and control and isinstance(control[0], dict):
        watts = control[0].get("PowerConsumedWatts")
    else:
        reading = document.get("PowerWatts")
        watts = reading.get("Reading") if isinstance(reading, dict) else document.get("PowerConsumedWatts")
    return real(watts)


def _documents(lines: list[Any]) -> tuple[list[tuple[str | None, float | None, float | None]], int]:
    """Return stamp, watts and joules of each JSON document of a log, and how many documents are damaged."""
    decoder = json.JSONDecoder()
    text = "\n".join(line.text for line in lines)
    starts, position = [], 0
    read_values: list[tuple[str | None, float | None, float | None]] = []
    for line in lines:
        starts.append((position, line.stamp))
        position += len(line.text) + 1
    at, place, damaged = 0, 0, 0
    while (at := text.find("{", at)) >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            following = text.find("\n{", at + 1)
            damaged += 1
            if following < 0:
                break
            at = following + 1
            continue
        while place + 1 < len(starts) and starts[place + 1][0] <= at:
            place += 1
        read_values.append((starts[place][1], _redfish(document), _counted(document)))
        at = end
    return read_values, damaged


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the node's power.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    lines = stamped_lines(read_text(path, options.max_ratio))
    text = "\n".join(line.text for line in lines)
    if _WATTS.search(text) or _FREEIPMI.search(text):
        return _from_ipmi(path, lines)
    read_values, damaged = _documents(lines)
    stated_watts = [(s, w, j) for s, w, j in read_values if w is not None and math.isfinite(w) and w >= 0]
    damaged += sum(w is not None for _, w, _ in read_values) - len(stated_watts)
    if not stated_watts:
        raise BadInput.in_file(path, "holds no reading of a node's power", "ask for Chassis/1/Power")
    stamps, watts, joules = (list(column) for column in zip(*stated_watts, strict=True))
    trace = _trace(path, "Redfish", clock_of(stamps, "Redfish"), stamps, watts, joules)
    if damaged:
        texts = ["damaged document"] * damaged
        trace.rejected.append(rejected_rows(path.name, range(damaged), "no power", texts))
    return trace


def _from_ipmi(path: Path, lines: list[Any]) -> Trace:
    stamps: list[str | None] = []
    stated: list[int | None] = []
    watts: list[float] = []
    bad: list[tuple[int, str]] = []
    for line in lines:
        if match := _WATTS.search(line.text) or _FREEIPMI.search(line.text):
            watts.append(float(match[1]))
            stamps.append(line.stamp)
            stated.append(None)
        elif _LABEL.search(line.text):
            bad.append((line.number, line.text))
        elif watts and (match := _STAMP.search(line.text)):
            stated[-1] = wall_clock_ns(match[1].removesuffix("UTC").strip())
    if any(s is not None for s in stamps) or not any(stated):
        return _with_rejected(_trace(path, "IPMI", clock_of(stamps, "ipmitool"), stamps, watts), path, bad)
    trace = _trace(
        path,
        "IPMI",
        Clock("local", error_ns=1e9, basis="the controller's clock, whole seconds"),
        stamps,
        watts,
    )
    rows = pl.DataFrame(
        {"time_ns": stated, "watts": watts}, schema={"time_ns": pl.Int64, "watts": pl.Float64}
    )
    trace.telemetry = meter_rows(
        rows.drop_nulls("time_ns"), "node", "node.IPMI", power="watts", kind="average"
    )
    return _with_rejected(trace, path, bad)


def _with_rejected(trace: Trace, path: Path, bad: list[tuple[int, str]]) -> Trace:
    """Return a trace that counts lines whose reading is no number."""
    if bad:
        trace.rejected.append(rejected_rows(path.name, [n for n, _ in bad], "no power", [t for _, t in bad]))
    return trace


def _trace(
    path: Path,
    name: str,
    clock: Clock,
    stamps: list[str | None],
    watts: list[float],
    joules: list[float | None] | None = None,
) -> Trace:
    rows = pl.DataFrame(
        {"watts": watts, "joules": joules or [None] * len(watts)},
        schema={"watts": pl.Float64, "joules": pl.Float64},
    ).with_columns(stamp_times(stamps))
    if clock.domain == "none":
        rows = rows.with_columns(time_ns=pl.lit(0, dtype=pl.Int64))
    trace = Trace(name, clock)
    if undated := rows["time_ns"].null_count():
        trace.rejected.append(rejected_rows(path.name, range(undated), "no time", [""] * undated))
    steps = rows["joules"].drop_nulls().diff().drop_nulls()
    energy = "joules" if len(steps) and (steps > 0).sum() >= _RISES * len(steps) else None
    if len(steps) and energy is None:
        trace.warnings.append("its energy counter stands still between most readings: power is integrated")
    trace.telemetry = meter_rows(
        rows.drop_nulls("time_ns"), "node", f"node.{name}", power="watts", energy=energy, kind="average"
    )
    return trace


FORMAT = Format(
    title="node meter (IPMI DCMI or Redfish)",
    holds="telemetry",
    made_by="while true; do date +%s.%N; ipmitool dcmi power reading; sleep 1; done > node.txt",
    tried="ipmitool's and FreeIPMI's DCMI readings; Redfish Power and EnvironmentMetrics (W, J, kWh)",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".txt", ".log"),
    memory_ratio=30.0,
)
