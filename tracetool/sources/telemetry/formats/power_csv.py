"""Plain power logs: a column of times and columns of power or energy (Zeus and home-made loggers)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import header_line, header_names, read_csv
from tracetool.sources.telemetry.localtime import is_absolute, parse_stamps
from tracetool.sources.telemetry.meters import gpus_of_hosts
from tracetool.sources.telemetry.readings import power_rows

_TIME = re.compile(
    r"(?:time|timestamp|ts|epoch|datetime|date_time|unix_time)(?:_?\(?\[?(?:s|ms|us|ns)\]?\)?)?",
    re.IGNORECASE,
)
_POWER = re.compile(
    r"(?:gpu_?\d*_?)?(?:power(?:_draw|_usage)?|watts?|pwr)(?:_gpu)?(?P<gpu>_?\d+)?"
    r"(?P<unit>[_ ]?\(?\[?(?:m?w)\]?\)?)?",
    re.IGNORECASE,
)
_ENERGY = re.compile(
    r"(?:gpu_?\d*_?)?(?:total_)?energy(?:_consumption|_counter)?(?P<gpu>_?\d+)?"
    r"(?P<unit>[_ ]?\(?\[?(?:[muk]?j|k?wh)\]?\)?)?",
    re.IGNORECASE,
)
#: Columns that say whose reading a row is.
_WHOSE = {
    "index": ("gpu", "gpu_index", "gpu_id", "gpu_idx", "device", "device_index", "device_id", "index"),
    "uuid": ("uuid", "gpu_uuid"),
    "host": ("host", "hostname", "node"),
    "name": ("name", "gpu_name", "model", "gpu_model"),
}
#: Columns of further readings, with the factor to their unit.
_FURTHER = {
    "temperature_c": (r"(?:gpu_?)?temp(?:erature)?(?:_?gpu)?[_ ]?\(?\[?c?\]?\)?", 1.0),
    "utilization": (
        r"(?:gpu_?util(?:ization)?|util(?:ization)?(?:_?gpu)?)[_ ]?\(?\[?(?:percent|pct|%)\]?\)?",
        0.01,
    ),
    "clock_mhz": (r"(?:gpu_?|sm_?)?clock(?:_?sm)?[_ ]?\(?\[?mhz\]?\)?", 1.0),
    "mem_clock_mhz": (r"(?:gpu_?)?mem(?:ory)?_?clock[_ ]?\(?\[?mhz\]?\)?", 1.0),
}
#: Power of the host, as CodeCarbon, RAPL readers and node meters name it.
_HOST = re.compile(
    r"(?=.*(?:power|energy|watt)).*(?:cpu|ram|socket|package|pkg|rapl|node|system|server|module).*",
    re.IGNORECASE,
)
_SCALE = {
    "mw": 1e-3, "w": 1.0, "mj": 1e-3, "uj": 1e-6, "j": 1.0, "kj": 1e3, "wh": 3.6e3, "kwh": 3.6e6, "": 1.0,
}  # fmt: skip
_GPU = re.compile(r"\d+")
_MULTIPLY = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _columns(line: str) -> tuple[str | None, list[str], list[str]]:
    """Return the time column, the power columns and the energy columns of a header."""
    names = header_names(line)
    time = next((n for n in names if _TIME.fullmatch(n)), None)
    return (
        time,
        [n for n in names if n != time and _POWER.fullmatch(n)],
        [n for n in names if n != time and _ENERGY.fullmatch(n)],
    )


def sniff(probe: Probe) -> float:
    """Score: a header with a time and a power or energy column."""
    first = (probe.lines(1) or [""])[0]
    time, powers, energies = _columns(first.replace(";", ",") if _by_semicolons(first) else first)
    return 0.5 if time and (powers or energies) else 0.0


def _by_semicolons(header: str) -> bool:
    """Whether a table was saved as where numbers have decimal commas; it is claimed to say so."""
    return ";" in header and "," not in header


def _scale(name: str, pattern: re.Pattern[str]) -> float:
    match = pattern.fullmatch(name)
    unit = re.sub(r"[^A-Za-z]", "", match["unit"] or "") if match else ""
    return 1e6 if unit == "MJ" else _SCALE[unit.lower()]


def _device(name: str) -> int:
    match = _GPU.search(name)
    return int(match[0]) if match and len(match[0]) < 5 else 0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings; times are epochs unless they look like a wall clock.

    Raises
    ------
    BadInput
        If it holds no reading with a time.
    """
    first = header_line(path)
    if _by_semicolons(first):
        fault, fix = "its cells stand between semicolons", "save it with commas between cells, decimal points"
        raise BadInput.in_file(path, fault, fix)
    time, powers, energies = _columns(first)
    if time is None or not powers + energies:
        raise BadInput.in_file(path, "has no time and power columns", "name them time and power_w")
    names = header_names(first)
    whose = _whose(names, powers + energies)
    further = _further(names) if len(powers) <= 1 else {}
    read_names = (time, *powers, *energies, *whose.values(), *further.values())
    frame = read_csv(path, {n: ([n], pl.String()) for n in dict.fromkeys(read_names)}, options.max_ratio)
    _refuse_commas(path, frame, (*powers, *energies))
    stamps, clock = _times(frame[time], time)
    frame = frame.with_columns(stamps.alias("time_ns"))
    bad = frame.filter(pl.col("time_ns").is_null())
    trace = Trace("power log", clock)
    if host := [n for n in names if n not in read_names and _HOST.fullmatch(n)]:
        trace.warnings.append(f"{', '.join(host)}: not power of a GPU, not read")
    if bad.height:
        trace.rejected.append(rejected_rows(path.name, bad["line"], "no time", bad[time].fill_null("")))
    good = frame.filter(pl.col("time_ns").is_not_null())
    if not good.height:
        raise BadInput.in_file(path, "holds no reading with a time", "write the time as seconds since 1970")
    device: dict[str, pl.Series] = {}
    if whose:
        column, trace.devices = gpus_of_hosts(_gpus(good, whose))
        device = dict.fromkeys((*powers, *energies), column)
    column_tables = []
    extra = {what: measured(name) * _FURTHER[what][1] for what, name in further.items()}
    for name in powers:
        number = device.get(name, pl.lit(_device(name), dtype=pl.Int32))
        value = measured(name) * _scale(name, _POWER)
        column_tables.append(
            power_rows(
                good.select("time_ns", device=number, power=value, **extra), {"power": name}, {name: None}
            )
        )
    for name in energies:
        number = device.get(name, pl.lit(_device(name), dtype=pl.Int32))
        value = measured(name) * _scale(name, _ENERGY)
        readings = good.select("time_ns", device=number, energy_j=value)
        column_tables.append(power_rows(readings, {}).with_columns(field=pl.lit(name)))
    trace.telemetry = pl.concat(column_tables, how="diagonal")
    if not whose:
        trace.devices = logged_devices(trace.telemetry["device"])
    return trace


def _refuse_commas(path: Path, frame: pl.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a log whose numbers have decimal commas: 1,5 is one and a half, 1,500 may be a thousand more.

    Raises
    ------
    BadInput
        If all values of a column that it reads are numbers with a comma.
    """
    for name in columns:
        values = frame[name].drop_nulls()
        if len(values) and values.str.contains(r"^\s*-?\d+,\d+(\s*[A-Za-z]+)?\s*$").all():
            fault = f"column {name} has decimal commas, such as {values[0].strip()[:20]!r}"
            raise BadInput.in_file(path, fault, "save its numbers with decimal points")


def _whose(names: list[str], read: list[str]) -> dict[str, str]:
    """Return the columns that identify a row's GPU; none where each GPU has a column of its own."""
    if sum(bool(_GPU.search(n)) for n in read) > 1:
        return {}
    lower = {n.lower(): n for n in reversed(names)}
    columns = {
        what: next((lower[s] for s in spellings if s in lower), None) for what, spellings in _WHOSE.items()
    }
    stated = {what: name for what, name in columns.items() if name is not None}
    return stated if {"index", "uuid", "host"} & set(stated) else {}


def _further(names: list[str]) -> dict[str, str]:
    """Return the columns of temperature, load and clocks."""
    patterns = {what: re.compile(pattern, re.IGNORECASE) for what, (pattern, _) in _FURTHER.items()}
    columns = {what: next((n for n in names if p.fullmatch(n)), None) for what, p in patterns.items()}
    return {what: name for what, name in columns.items() if name is not None}


def _gpus(rows: pl.DataFrame, whose: dict[str, str]) -> pl.DataFrame:
    """Return host, index, unique id and name of each row's GPU; a text that is no number is its name."""
    absent = pl.lit(None, dtype=pl.String)
    stated = rows.select(pl.col(whose[w]).alias(w) if w in whose else absent.alias(w) for w in _WHOSE)
    index = pl.col("index").str.strip_chars().str.extract(r"^(?:(?i:gpu|cuda|card)[ :_-]?)?(\d{1,4})$", 1)
    return stated.with_columns(
        pl.col("uuid").str.strip_chars(),
        index=index.cast(pl.Int64, strict=False),
        name=pl.coalesce("name", pl.when(index.is_null()).then(pl.col("index"))),
    )


def _times(column: pl.Series, name: str) -> tuple[pl.Series, Clock]:
    if (unit := re.search(r"(?<![a-z])(s|ms|us|ns)\W*$", name.lower())) and not column.str.contains(
        ":"
    ).any():
        number = column.cast(pl.Float64, strict=False)
        if unit[1] == "ns":
            return column.cast(pl.Int64, strict=False), _epoch(number / 1e9)
        seconds = number * (_MULTIPLY[unit[1]] / 1e9)
        return (number * _MULTIPLY[unit[1]]).round().cast(pl.Int64, strict=False), _epoch(seconds)
    times = parse_stamps(column)
    if times.null_count() == len(times):  # seconds from an unstated start
        number = column.cast(pl.Float64, strict=False)
        return (number * 1e9).round().cast(pl.Int64, strict=False), _epoch(number)
    if is_absolute(column):
        return times, Clock("utc", 0, 1e6, basis="seconds since 1970, or with their zone")
    return times, Clock("local", basis="a wall clock without its zone")


def _epoch(seconds: pl.Series) -> Clock:
    first = seconds.drop_nulls().head(1)
    if len(first) and 1.4e9 < float(first[0]) < 7.3e9:
        return Clock("utc", 0, 1e6, basis="time since 1970")
    return Clock("session", basis="time from a start the log does not state")


FORMAT = Format(
    title="power log CSV",
    holds="telemetry",
    made_by="any logger of time (seconds since 1970) and power_w or energy_j columns, e.g. Zeus's monitor",
    tried="Zeus 0.2 (Time,Power), a column or a line for each GPU (8 H100, 2025), energy counters",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".csv",),
    memory_ratio=12.0,
)
