"""Common parts of the logs of AMD's command-line monitors: readings per card from named columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.devices import logged_devices
from tracetool.sources.format import Trace
from tracetool.sources.telemetry.localtime import clock_of, stamp_times
from tracetool.sources.telemetry.readings import power_rows

#: Column names (lower case, without units) to what they hold; the first that has a number counts.
COLUMNS: Mapping[str, Sequence[str]] = {
    "#average": ("average graphics package power", "average_socket_power", "average socket power"),
    "#current": ("current socket graphics package power", "current_socket_power", "socket_power",
                 "power_usage",
                 "current socket power", "power"),
    "energy_j": ("total_energy_consumption", "energy_consumption"),
    "energy_uj": ("accumulated energy",),
    "clock_mhz": ("gfx_clock", "gfx_clk", "gfx_0_clk", "sclk clock speed", "current_gfxclk"),
    "mem_clock_mhz": ("mem_clock", "mem_clk", "mem_0_clk", "mclk clock speed", "current_uclk"),
    "temperature_c": ("hotspot_temperature", "hotspot", "temperature sensor junction",
                      "temperature sensor edge",
                      "edge_temperature", "edge"),
    "percent": ("gfx", "gfx_util", "gpu use", "gfx_activity"),
}  # fmt: skip
_POWERS = {"#average": "average socket power", "#current": "socket power"}
_KINDS: dict[str, str | None] = {"average socket power": "average", "socket power": None}
_TIME = ("timestamp", "time", "datetime")


def plain(name: str) -> str:
    """Return a column name without units, colons and sensor brackets.

    >>> (
    ...     plain("Average Graphics Package Power (W)"),
    ...     plain("Temperature (Sensor edge) (C)"),
    ...     plain("sclk clock speed:"),
    ... )
    ('average graphics package power', 'temperature sensor edge', 'sclk clock speed')
    """
    text = re.sub(r"\((?:w|c|%|mhz|uj|j|mw|v|mv)\)", "", name.strip().strip('"').lower())
    return " ".join(re.sub(r"[():]", " ", text).split())


def knows(names: Iterable[str]) -> bool:
    """Return whether columns contain power, energy or a clock of a GPU."""
    header = {plain(n) for n in names}
    return any(
        s in header for what in ("#average", "#current", "energy_j", "energy_uj") for s in COLUMNS[what]
    )


def readings(path: Path, rows: Sequence[Mapping[str, str | None]], tool: str) -> Trace:
    """Return a trace from readings.

    Parameters
    ----------
    path : Path
        The log.
    rows : sequence of mapping
        ``device`` (text with a number in it), ``stamp``, ``line`` and plain column names to text.
    tool : str
        For messages.

    Raises
    ------
    BadInput
        If there is no reading.

    Notes
    -----
    A package of two dies reports for both on its first die and ``N/A`` on the second: the second gives
    no reading.
    """
    names = {n for row in rows for n in row} - {"device", "stamp", "line"}
    frame = pl.DataFrame(
        [{k: None if v is None else str(v) for k, v in row.items()} for row in rows],
        schema=dict.fromkeys(["device", "stamp", "line", *sorted(names)], pl.String),
    )
    if not frame.height:
        raise BadInput.in_file(path, "holds no reading", f"log again with {tool}")
    trace = Trace(tool, clock_of(frame["stamp"].to_list(), tool))
    number = pl.col("device").str.extract(r"(\d{1,4})", 1).cast(pl.Int32, strict=False)
    values = [
        pl.coalesce(*(_number(s) for s in spellings if s in names), pl.lit(None, dtype=pl.Float64)).alias(
            what
        )
        for what, spellings in COLUMNS.items()
    ]
    frame = frame.select("line", number.alias("device"), stamp_times(frame["stamp"].to_list()), *values)
    bad = frame.filter(
        pl.col("device").is_null() | (pl.col("time_ns").is_null() & (trace.clock.domain != "none"))
    )
    if bad.height:
        trace.rejected.append(
            rejected_rows(path.name, bad["line"], "no device or no time", [""] * bad.height)
        )
        frame = frame.join(bad.select("line"), on="line", how="anti")
    if not frame.height:
        raise BadInput.in_file(path, "holds no reading with a device and a time", f"log again with {tool}")
    frame = frame.with_columns(
        energy_j=pl.coalesce("energy_j", pl.col("energy_uj") * 1e-6), utilization=pl.col("percent") / 100
    ).drop("energy_uj", "percent", "line")
    trace.telemetry = power_rows(frame, _POWERS, _KINDS)
    trace.devices = logged_devices(frame["device"], "amd")
    return trace


def _number(column: str) -> pl.Expr:
    """The number of a cell: ``(1269Mhz)``, ``39.0`` or ``238 W``; null for ``N/A``."""
    return measured(pl.col(column).str.strip_chars("( "))


def time_of(row: Mapping[str, str | None]) -> str | None:
    """Return the stamp a row carries in a column of its own."""
    return next((row[n] for n in _TIME if row.get(n)), None)
