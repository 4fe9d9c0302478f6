"""``nvidia-smi --query-gpu=... --format=csv`` logs: every power field, several GPUs, torn files."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.columns import clean_text, leading_number, measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import is_absolute, parse_stamps
from tracetool.sources.telemetry.readings import POWER_FIELDS, power_rows

#: Readings of one poll lie this much closer together than polls do.
SEPARATION = 5.0
MOST_GPUS = 16


def split_interleaved(time_ns: pl.Series, memory: pl.Series | None = None) -> tuple[pl.Series, str]:
    """Return the device of each row and a note where it had to be guessed.

    Parameters
    ----------
    time_ns : Series of int, shape (n,)
        Time stamps in the order logged. [ns]
    memory : Series, optional
        ``memory.total`` of each row: it identifies GPUs of different memory sizes.

    Notes
    -----
    A poll of k cards writes k rows milliseconds apart, then waits. Rows are given out in turn when
    every poll has the same k and the wait is at least :data:`SEPARATION` times the spacing within.
    """
    import numpy as np  # only logs need it

    n = len(time_ns)
    none = pl.Series("device", np.zeros(n, dtype=np.int32))
    if n < 4:
        return none, ""
    gap = np.diff(time_ns.to_numpy())
    gpu_count = 0
    for k in range(2, MOST_GPUS + 1):
        if n < 3 * k:
            break
        inside = np.ones(n - 1, dtype=bool)
        inside[k - 1 :: k] = False
        within, between = gap[inside], gap[~inside]
        if (within >= 0).all() and np.quantile(within, 0.98) * SEPARATION < np.quantile(between, 0.02):
            gpu_count = k
            break
    if gpu_count:
        device = pl.Series("device", (np.arange(n) % gpu_count).astype(np.int32))
        return device, (
            f"{gpu_count} GPUs share the log without an index column: the rows of a poll are taken for GPU 0"
            f" to {gpu_count - 1} in turn (add index or uuid to --query-gpu)"
        )
    if memory is not None and 1 < memory.n_unique() <= MOST_GPUS:
        order = {v: i for i, v in enumerate(memory.unique(maintain_order=True).to_list())}
        device = memory.replace_strict(list(order), list(order.values()), return_dtype=pl.Int32).alias(
            "device"
        )
        return device, f"{len(order)} GPUs share the log without an index column: separated by memory.total"
    return none, ""


def _all_repeated(text: pl.Series, device: pl.Series) -> bool:
    """Whether every line of a poll is the poll's first: one GPU logged twice, not two that always agree."""
    import numpy as np

    gpu_count = int(device.to_numpy().max()) + 1
    first = np.arange(text.len()) // gpu_count * gpu_count
    return gpu_count > 1 and bool((text == text.gather(first)).all())


_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
_VALUES = {
    "clocks.current.sm": "clock_mhz", "clocks.sm": "clock_mhz",
    "clocks.current.memory": "mem_clock_mhz", "clocks.mem": "mem_clock_mhz",
    "temperature.gpu": "temperature_c", "utilization.gpu": "utilization",
    "enforced.power.limit": "power_limit_w", "power.limit": "power_limit_w",
}  # fmt: skip
_FALLBACK_CLOCK = ("clocks.current.graphics", "clocks.gr")
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_IDENTITY = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "serial", "gpu_serial")
_USEFUL = set(POWER_FIELDS) | set(_VALUES) | set(_FALLBACK_CLOCK) | {"total_energy_consumption"}


def _fields(header: str) -> list[str]:
    if _by_semicolons(header):
        header = header.replace(";", ",")
    return [_UNIT.sub("", name.strip().strip('"')).strip().lower() for name in header.split(",")]


def _by_semicolons(header: str) -> bool:
    """Return whether a table was saved with semicolons, as where numbers have decimal commas."""
    return ";" in header and "," not in header


def _with_points(lines: pl.DataFrame, header: str) -> pl.DataFrame:
    """Return the lines under a header with decimal points, and commas between cells alone.

    Spreadsheets save numbers as ``71,47 W`` where that is how they are written: between semicolons, in
    quotes, or as they are: nvidia-smi's comma between cells has a space after it. Its watts have two
    decimals: three digits after a comma are thousands.
    """
    text = pl.col("text")
    if _by_semicolons(header):
        text = text.str.replace_all(",", ".", literal=True).str.replace_all(";", ", ", literal=True)
    text = text.str.replace_all(r'"(\s*-?\d+),(\d\d(?:\s*[A-Za-z%]+)?)"', "${1}.${2}")
    text = text.str.replace_all('"', "", literal=True)
    between = header.count(",")
    if 0 < between == header.count(", "):
        more = text.str.count_matches(",", literal=True) > between
        text = pl.when(more).then(text.str.replace_all(r"(\d),(\d\d)(\D|$)", "${1}.${2}${3}")).otherwise(text)
    return lines.with_columns(text.alias("text"))


#: No header is longer; what is would only cost time to look at.
_LONGEST_HEADER = 8192


def _is_header(line: str) -> bool:
    if len(line) > _LONGEST_HEADER or "timestamp" not in line.lower():
        return False
    fields = _fields(line)
    if "gpu" in fields:  # amd-smi counts cards in a column of that name
        return False
    return len(fields) > 1 and "timestamp" in fields and bool(_USEFUL & set(fields))


def sniff(probe: Probe) -> float:
    """Score: a header line naming ``timestamp`` and a field of nvidia-smi."""
    return 1.0 if any(_is_header(line) for line in probe.lines(200)) else 0.0


def _section(lines: pl.DataFrame, fields: list[str]) -> pl.DataFrame:
    """Return the lines under one header as text columns named by field, with ``line`` and ``text``."""
    names = [f if fields.index(f) == i else f"{f}#{i}" for i, f in enumerate(fields)]
    value = pl.col("part").struct.field(f"field_{len(names)}").str.strip_chars()
    return lines.with_columns(
        pl.col("text").str.split_exact(",", len(fields)).alias("part")
    ).select(
        "line", "text", pl.col("part").struct.field(f"field_{len(names) - 1}").is_null().alias("#torn"),
        (value != "").fill_null(value=False).alias("#run_on"),
        *[pl.col("part").struct.field(f"field_{i}").str.strip_chars().alias(n) for i, n in enumerate(names)],
    )  # fmt: skip


def _readings(rows: pl.DataFrame) -> pl.DataFrame:
    columns = set(rows.columns)
    values = [pl.col("time_ns"), pl.col("device")]
    for field, name in _VALUES.items():
        if field in columns and name not in [e.meta.output_name() for e in values]:
            scale = 0.01 if name == "utilization" else 1.0
            values.append((measured(field) * scale).alias(name))
    if "clock_mhz" not in [e.meta.output_name() for e in values]:
        values += [measured(f).alias("clock_mhz") for f in _FALLBACK_CLOCK if f in columns][:1]
    values += [clean_text(f).alias("throttle_reasons") for f in _REASONS if f in columns][:1]
    if "total_energy_consumption" in columns:
        values.append((measured("total_energy_consumption") * 1e-3).alias("energy_j"))
    powers = [f for f in POWER_FIELDS if f in columns]
    return power_rows(
        rows.select(*values, *[measured(f).alias(f"#{f}") for f in powers]), {f"#{f}": f for f in powers}
    )


def _devices(rows: pl.DataFrame, warnings: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows with ``device`` and the table of GPUs."""
    identities = [f for f in _IDENTITY if f in rows.columns]
    if identities:
        key = pl.col(identities[0]).fill_null("?")
        rows = rows.with_columns(key.rank("dense").cast(pl.Int32).sub(1).alias("device"))
        if "index" in identities:
            order = rows.group_by("device").agg(leading_number("index").min().alias("i"))
            order = order.with_columns(pl.col("i").rank("ordinal").cast(pl.Int32).sub(1).alias("to")).sort(
                "device"
            )
            if not order["to"].null_count():
                rows = rows.with_columns(
                    pl.col("device").replace_strict(order["device"], order["to"]).cast(pl.Int32)
                )
    else:
        device, note = split_interleaved(
            rows["time_ns"], rows["memory.total"] if "memory.total" in rows.columns else None
        )
        if _all_repeated(rows["text"], device):  # the repeats are dropped where all readings are
            device, note = pl.zeros(rows.height, pl.Int32, eager=True), ""
        rows = rows.with_columns(device.alias("device"))
        if note:
            warnings.append(note)

    def first(*names: str) -> pl.Expr:
        present = [n for n in names if n in rows.columns]
        return clean_text(pl.col(present[0]).first()) if present else pl.lit(None, dtype=pl.String)

    devices = (
        rows.group_by("device")
        .agg(
            name=first("name", "gpu_name"),
            uuid=first("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"),
            profiler_device=leading_number(first("index")).cast(pl.Int64, strict=False),
        )
        .sort("device")
        .with_columns(vendor=pl.lit("nvidia"))
    )
    if not identities and devices.height > 1:  # nvidia-smi writes the GPUs of a poll by their index
        devices = devices.with_columns(profiler_device=pl.col("device").cast(pl.Int64))
    return rows, devices


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings of a log; stamps are local wall clock.

    Raises
    ------
    BadInput
        If no line can be used.
    """
    text = read_text(path, options.max_ratio)
    lines = pl.DataFrame({"text": text.splitlines()}, schema={"text": pl.String}).with_row_index(
        "line", offset=1
    )
    lines = lines.filter(pl.col("text").str.strip_chars() != "")
    maybe = lines.filter(pl.col("text").str.to_lowercase().str.contains("timestamp", literal=True))
    heads = [(n, _fields(t), t) for n, t in maybe.select("line", "text").iter_rows() if _is_header(t)]
    if not heads:
        raise BadInput.in_file(path, "has no nvidia-smi header line", "log with --format=csv and its header")
    lines = lines.filter(~pl.col("line").is_in([n for n, *_ in heads]))
    trace = Trace("nvidia-smi", Clock("local", basis="nvidia-smi writes local time, milliseconds"))
    sections = []
    for i, (at, fields, header) in enumerate(heads):
        until = heads[i + 1][0] if i + 1 < len(heads) else 1 << 62
        section_lines = lines.filter((pl.col("line") > at) & (pl.col("line") < until))
        sections.append(_section(_with_points(section_lines, header), fields))
    rows = pl.concat(sections, how="diagonal") if sections else pl.DataFrame()
    if before := lines.filter(pl.col("line") < heads[0][0]).height:
        trace.warnings.append(f"left out {counted(before, 'line')} before the header")
    stamps = rows["timestamp"]
    if is_absolute(stamps):
        trace.clock = Clock("utc", 0, 1e6, basis="the stamps are epochs or carry their zone")
    rows = rows.with_columns(parse_stamps(stamps).alias("time_ns"))
    if rows["#run_on"].mean() == 1:  # a header that names too few: all lines are alike
        _check_points(path, rows)
        rows = rows.with_columns(pl.lit(value=False).alias("#run_on"))
    trace.rejected += _reject(path, rows)
    rows = rows.filter(pl.col("time_ns").is_not_null() & ~pl.col("#torn") & ~pl.col("#run_on"))
    if not rows.height:
        raise BadInput.in_file(path, "holds no reading with a time", "log again with nvidia-smi --query-gpu")
    if not {*POWER_FIELDS, "total_energy_consumption"} & set(rows.columns):
        seen = ", ".join(dict.fromkeys(f for _, fields, _ in heads for f in fields))
        known = ", ".join((*(f for f in POWER_FIELDS if f.startswith("power.")), "total_energy_consumption"))
        trace.warnings.append(f"no column of power among {seen}; known: {known}")
    rows, trace.devices = _devices(rows, trace.warnings)
    trace.telemetry = _readings(rows)
    return trace


def _check_points(path: Path, rows: pl.DataFrame) -> None:
    """Refuse a log whose longer lines may be decimal commas: half a number would stand for a reading.

    nvidia-smi writes watts with two decimals, so a power with a decimal point has all of its digits.
    """
    powers = [f for f in POWER_FIELDS if f in rows.columns]
    if powers and not any(rows[f].str.contains(".", literal=True).any() for f in powers):
        raise BadInput.in_file(
            path,
            "every line has more cells than its header: decimal commas, or a header cut short",
            "write decimal points, or semicolons between cells; log with a whole header",
        )


def _reject(path: Path, rows: pl.DataFrame) -> list[pl.DataFrame]:
    rejected = []
    no_time, torn, run_on = pl.col("time_ns").is_null(), pl.col("#torn"), pl.col("#run_on")
    for why, which in (
        ("no time stamp", no_time),
        ("line cut short", torn & ~no_time),
        ("two lines in one", run_on & ~no_time),
    ):
        bad = rows.filter(which)
        if bad.height:
            rejected.append(rejected_rows(path.name, bad["line"], why, bad["text"]))
    return rejected


FORMAT = Format(
    title="nvidia-smi query log",
    holds="telemetry",
    made_by="nvidia-smi --query-gpu=timestamp,index,uuid,power.draw,clocks.sm --format=csv -lms 100",
    tried="drivers of 2020 to 2025, V100 to B200, InferenceX's",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".csv", ".txt", ".log"),
    memory_ratio=12.0,
)
