"""Linux powercap counters (RAPL), printed again and again: microjoules that wrap."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import clock_of, stamp_times, stamped_lines
from tracetool.sources.telemetry.meters import meter_rows, readings, unwrapped

_LINE = re.compile(
    r"(?:/sys/class/powercap/|/sys/devices/virtual/powercap/)?(?:intel-rapl/)?(?:[\w-]+/)*"
    r"((?:intel-rapl|amd-rapl|intel-rapl-mmio):\d+(?::\d+)?)/(name|energy_uj|max_energy_range_uj):\s*(\S+)"
)
#: Name of a zone to its scope; cores and graphics are parts of the package.
_SCOPES = (("package", "socket"), ("dram", "host_memory"), ("psys", "node"))


def sniff(probe: Probe) -> float:
    """Score: lines of powercap files with their values."""
    lines = [line.text.strip() for line in stamped_lines("\n".join(probe.lines(80)))]
    kinds = {m[2] for line in lines if (m := _LINE.fullmatch(line))}
    return 1.0 if "energy_uj" in kinds else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the counters of packages, memory and the platform, without their wraps.

    Raises
    ------
    BadInput
        If it holds no counter.
    """
    names: dict[str, str] = {}
    spans: dict[str, float] = {}
    rows, bad = [], []
    for line in stamped_lines(read_text(path, options.max_ratio)):
        match = _LINE.fullmatch(line.text.strip())
        if match is None:
            bad.append(line)
        elif match[2] == "name":
            names[match[1]] = match[3]
        elif not (match[3].isdecimal() and len(match[3]) < 19):
            bad.append(line)
        elif match[2] == "max_energy_range_uj":
            spans[match[1]] = int(match[3]) * 1e-6
        else:
            rows.append((line.number, line.stamp, match[1], int(match[3])))
    schema = {"line": pl.Int64, "stamp": pl.String, "zone": pl.String, "uj": pl.Int64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    if not table.height:
        raise BadInput.in_file(path, "holds no energy_uj", f"log with: {FORMAT.made_by}")
    trace = Trace("powercap", clock_of(table["stamp"].to_list(), "sysfs"))
    table = table.with_columns(stamp_times(table["stamp"].to_list()))
    if trace.clock.domain == "none":
        table = table.with_columns(time_ns=pl.lit(0, dtype=pl.Int64))
    if undated := table.filter(pl.col("time_ns").is_null())["line"].to_list():
        trace.rejected.append(rejected_rows(path.name, undated, "no time stamp", [""] * len(undated)))
    if bad:
        numbers = [line.number for line in bad]
        trace.rejected.append(rejected_rows(path.name, numbers, "not a counter", [line.text for line in bad]))
    trace.telemetry = readings(_meters(table, names, spans, trace))
    if not trace.telemetry.height:
        raise BadInput.in_file(path, "holds no counter of a package", "log name and energy_uj of all zones")
    return trace


def _meters(
    table: pl.DataFrame, names: dict[str, str], spans: dict[str, float], trace: Trace
) -> list[pl.DataFrame]:
    """Return the counters of the zones that are no part of another, without their wraps."""
    meters = []
    for (zone,), zone_rows in table.drop_nulls("time_ns").group_by("zone", maintain_order=True):
        name = names.get(str(zone), "package" if str(zone).count(":") == 1 else "")
        scope = next((s for word, s in _SCOPES if name.startswith(word)), None)
        if scope is None:
            continue
        joules, wraps = unwrapped(zone_rows["uj"].to_numpy() * 1e-6, spans.get(str(zone)))
        if wraps:
            trace.warnings.append(f"{zone}: its counter wrapped {counted(wraps, 'time')}; its range is added")
        elif (zone_rows["uj"].diff() < 0).any():
            trace.warnings.append(f"{zone}: its counter fell; no max_energy_range_uj to correct it by")
        rows_of = zone_rows.with_columns(pl.Series("joules", joules))
        meters.append(meter_rows(rows_of, scope, f"{scope}.{zone} {name}".strip(), energy="joules"))
    return meters


FORMAT = Format(
    title="powercap counters (RAPL)",
    holds="telemetry",
    made_by="while sleep .1; do date +%s.%N; grep . /sys/class/powercap/*/{name,*energy*}; done > rapl.txt",
    tried="zones of Intel and AMD as the kernel names them; wraps undone by max_energy_range_uj",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".txt", ".log"),
    memory_ratio=40.0,
)
