"""The power log of ``tracetool record``: also one that ends in the middle, whatever killed its writer."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import DEVICE_LIMIT, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.readings import power_rows
from tracetool.tables.power_log import COLUMNS, MAGIC

_POWERS = {
    "instant_mw": ("power.draw.instant", "instant"),
    "average_mw": ("power.draw.average", "average"),
    "draw_mw": ("power.draw", None),
}
_VALUES = {
    "energy_j": ("energy_uj", 1e-6),
    "clock_mhz": ("clock_mhz", 1.0),
    "mem_clock_mhz": ("mem_clock_mhz", 1.0),
    "temperature_c": ("temperature_c", 1.0),
    "utilization": ("utilization_pct", 1e-2),
    "power_limit_w": ("limit_mw", 1e-3),
}
_QUALITY = ("jitter_us", "read_delay_us", "cpu_s", "wall_s")
#: Pairs of clock readings that disagree by more than this are worth a word.
_STEP_NS = 1_000_000


def sniff(probe: Probe) -> float:
    """Score: the magic first line."""
    return 1.0 if probe.head.startswith(MAGIC.encode()) else 0.0


def _notes(lines: list[str]) -> list[dict[str, Any]]:
    notes = []
    for line in lines:
        try:
            note = json.loads(line[1:])
        except (ValueError, RecursionError):
            continue
        if isinstance(note, dict):
            notes.append(note)
    return notes


def _pairs(notes: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """Return boot time, UTC and half width of every pair of clock readings. [ns]"""
    keys = ("boot_ns", "utc_ns", "half_width_ns")
    return [
        (n["boot_ns"], n["utc_ns"], n["half_width_ns"])
        for n in notes
        if n.get("what") in ("start", "clock", "end")
        and all(type(n.get(k)) is int and 0 <= n[k] < 1 << 62 for k in keys)
    ]


def _clock(notes: list[dict[str, Any]], warnings: list[str]) -> Clock:
    pairs = _pairs(notes)
    if not pairs:
        return Clock("boot", basis="boot time; the log holds no pair of clock readings")
    from statistics import median

    offsets = [utc - boot for boot, utc, _ in pairs]
    spread = max(offsets) - min(offsets)
    if spread > _STEP_NS:
        warnings.append(f"the machine's UTC clock moved by {spread / 1e6:.1f} ms against boot time meanwhile")
    start = next((n for n in notes if n.get("what") == "start"), {})
    local = start.get("local_offset_s")
    return Clock(
        "boot",
        int(median(offsets)),
        max(half for _, _, half in pairs) + spread / 2,
        int(local) * 10**9 if isinstance(local, int) else None,
        f"boot time, tied to UTC by {len(pairs)} pairs of readings",
    )


def _is_index(device: dict[str, Any]) -> bool:
    index = device.get("index")
    return isinstance(index, int) and 0 <= index <= DEVICE_LIMIT


def _devices(notes: list[dict[str, Any]]) -> pl.DataFrame:
    start = next((n for n in notes if n.get("what") == "start"), {})
    listed = start.get("devices")
    rows = [d for d in listed if isinstance(d, dict) and _is_index(d)] if isinstance(listed, list) else []
    return pl.DataFrame(
        {
            "device": [d["index"] for d in rows],
            "name": [str(d.get("name") or "") or None for d in rows],
            "uuid": [str(d.get("uuid") or d.get("bus") or "") or None for d in rows],
            "profiler_device": [d["index"] for d in rows],
            "vendor": [str(start.get("vendor") or "") or None for _ in rows],
        },
        schema={
            "device": pl.Int32,
            "name": pl.String,
            "uuid": pl.String,
            "profiler_device": pl.Int64,
            "vendor": pl.String,
        },
    )


def _readings(text: str, path: Path, trace: Trace) -> pl.DataFrame:
    lines = pl.DataFrame({"text": text.split("\n")}, schema={"text": pl.String}).with_row_index(
        "line", offset=1
    )
    ended = text.count("\n")
    lines = lines.filter((pl.col("text") != "") & ~pl.col("text").str.starts_with("#"))
    # The line a killed sampler was writing has no end: its last number may be without digits.
    complete = (pl.col("line") <= ended) & (
        pl.col("text").str.count_matches(",", literal=True) == len(COLUMNS) - 1
    )
    readable = lines.filter(complete)
    rows = pl.read_csv(
        io.StringIO("\n".join(readable["text"])),
        has_header=False,
        quote_char=None,  # the log quotes nothing: one that was damaged must not swallow the next lines
        new_columns=list(COLUMNS),
        schema=dict.fromkeys(COLUMNS, pl.String),
    ) if readable.height else pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String))  # fmt: skip
    odd = pl.any_horizontal(
        (pl.col(c) != "") & pl.col(c).cast(pl.Int64, strict=False).is_null()
        for c in COLUMNS
        if c != "throttle"
    )
    rows = rows.with_columns(
        odd.fill_null(value=False).alias("#odd"),
        readable["line"],
        *[pl.col(c).cast(pl.Int64, strict=False) for c in COLUMNS if c != "throttle"],
    )
    whole_number = pl.col("time_ns").is_not_null() & pl.col("device").is_between(0, DEVICE_LIMIT)
    usable = whole_number.fill_null(value=False) & ~pl.col("#odd")
    bad = rows.filter(~usable)
    cut = lines.filter(~complete)
    numbers = [*cut["line"].to_list(), *bad["line"].to_list()]
    if numbers:
        trace.rejected.append(rejected_rows(path.name, numbers, "not a whole reading", [""] * len(numbers)))
    return rows.filter(usable).drop("#odd")


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings, on boot time, and what the sampler noted.

    Raises
    ------
    BadInput
        If no reading can be used.
    """
    text = read_text(path, options.max_ratio)
    notes = _notes([line for line in text.split("\n") if line.startswith("# {")])
    trace = Trace("tracetool record", Clock("boot"))
    rows = _readings(text, path, trace)
    if not rows.height:
        raise BadInput.in_file(path, "holds no reading", "record again, longer")
    trace.clock = _clock(notes, trace.warnings)
    trace.devices = _devices(notes)
    missing = sorted(set(rows["device"].to_list()) - set(trace.devices["device"].to_list()))
    if missing:  # the start of the log is missing
        trace.devices = pl.concat(
            [trace.devices, pl.DataFrame({"device": missing}, schema={"device": pl.Int32})], how="diagonal"
        )
    values = [(pl.col(c).cast(pl.Float64) * scale).alias(name) for name, (c, scale) in _VALUES.items()]
    frame = rows.select(
        "time_ns",
        pl.col("device").cast(pl.Int32),
        *values,
        throttle_reasons="throttle",
        **{c: pl.col(c).cast(pl.Float64) * 1e-3 for c in _POWERS},
    )
    fields = {c: field for c, (field, _) in _POWERS.items()}
    kinds = dict(_POWERS.values())
    trace.telemetry = power_rows(frame, fields, kinds)
    lost = [n for n in notes if n.get("what") == "lost"]
    trace.warnings += [
        f"GPU {n.get('device')} stopped answering ({n.get('error')}); readings are missing" for n in lost[:3]
    ]
    end = next((n for n in notes if n.get("what") == "end"), None)
    if end is None:
        trace.warnings.append("the log has no end: its writer was killed; all it had read is here")
    elif end.get("dropped"):
        trace.warnings.append(f"{end['dropped']} readings were lost to a full disk")
    start = next((n for n in notes if n.get("what") == "start"), {})
    for note, keys in ((start, ("driver", "poll_s", "host")), (end or {}, _QUALITY)):
        trace.details |= {k: note[k] for k in keys if k in note}
    return trace


FORMAT = Format(
    title="tracetool's own power log",
    holds="telemetry",
    made_by="tracetool record -- PROGRAM",
    tried="version 1",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".log",),
    memory_ratio=12.0,
)
