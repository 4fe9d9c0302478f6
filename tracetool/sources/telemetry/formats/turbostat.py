"""turbostat: watts of CPU packages, their memory and, where the machine reports it, the whole system."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import clock_of, stamp_times, stamped_lines
from tracetool.sources.telemetry.meters import meter_rows, readings

_TIME = "Time_Of_Day_Seconds"
#: Column to its scope. Cores and graphics are parts of the package.
_COLUMNS: Final = {"PkgWatt": "socket", "RAMWatt": "host_memory", "SysWatt": "node"}
_PLACES = ("Package", "Die", "Node", "Core", "CPU")


def _is_head(text: str) -> bool:
    names = text.split()
    return any(c in names for c in _COLUMNS) and all(n[:1].isalpha() for n in names)


def sniff(probe: Probe) -> float:
    """Score: a line of names with its watts."""
    lines = [line.text.strip() for line in stamped_lines("\n".join(probe.lines(60)))]
    return 0.9 if any((_is_head(line) and "\t" in line) or line in _COLUMNS for line in lines) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings of all packages together, each over the interval before its line.

    Raises
    ------
    BadInput
        If it holds no reading.
    """
    names: list[str] = []
    rows, bad = [], []
    for line in stamped_lines(read_text(path, options.max_ratio)):
        text = line.text.strip()
        if _is_head(text):
            names = text.split()
            continue
        cells = text.split("\t")
        if len(cells) != len(names):  # a first column of times was taken for a stamp
            cells = line.raw.strip().split("\t")
        if not names or len(cells) != len(names):
            if names and len(cells) > 1 and len(cells) > len(names):
                bad.append(line)
            continue  # rows of single cores leave out what is the package's; comments have no columns
        row = dict(zip(names, cells, strict=True))
        if any(row.get(place, "-") != "-" for place in _PLACES):
            continue
        rows.append(
            {"line": line.number, "stamp": row.get(_TIME) or line.stamp, **{c: row.get(c) for c in _COLUMNS}}
        )
    schema = {"line": pl.Int64(), "stamp": pl.String(), **dict.fromkeys(_COLUMNS, pl.String())}
    texts = pl.DataFrame(rows, schema=schema)
    table = texts.with_columns(pl.col(c).cast(pl.Float64, strict=False) for c in _COLUMNS)
    odd = pl.any_horizontal(
        table[c].is_null() & texts[c].is_not_null() & ~texts[c].is_in(["-", ""]) for c in _COLUMNS
    )
    broken = texts.filter(pl.select(odd).to_series())
    table = table.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in _COLUMNS))
    if not table.height:
        raise BadInput.in_file(
            path, "holds no line of the whole machine",
            "turbostat --Summary --quiet --interval 0.1 --show Time_Of_Day_Seconds,PkgWatt,RAMWatt",
        )  # fmt: skip
    trace = Trace("turbostat", clock_of(table["stamp"].to_list(), "turbostat without Time_Of_Day_Seconds"))
    timed = table.with_columns(stamp_times(table["stamp"].to_list()))
    if trace.clock.domain != "none":
        bad_times = timed.filter(pl.col("time_ns").is_null())
        if bad_times.height:
            trace.rejected.append(
                rejected_rows(path.name, bad_times["line"], "no time", [""] * bad_times.height)
            )
        timed = timed.drop_nulls("time_ns")
    if broken.height:
        broken_cells = broken.select(pl.concat_str(*_COLUMNS, separator=" ", ignore_nulls=True)).to_series()
        trace.rejected.append(rejected_rows(path.name, broken["line"], "not a number", broken_cells))
    if bad:
        numbers = [line.number for line in bad]
        trace.rejected.append(
            rejected_rows(path.name, numbers, "not a whole line", [line.text for line in bad])
        )
    trace.telemetry = readings(
        [meter_rows(timed, scope, f"{scope}.{c}", power=c, kind="average") for c, scope in _COLUMNS.items()]
    )
    return trace


FORMAT = Format(
    title="turbostat log",
    holds="telemetry",
    made_by="turbostat -S -q -i 0.1 --show Time_Of_Day_Seconds,PkgWatt,RAMWatt,SysWatt > cpu.log",
    tried="columns of the releases of 2018 to 2025, with and without lines of single cores; or lines stamped",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".log", ".tsv", ".txt"),
    memory_ratio=30.0,
)
