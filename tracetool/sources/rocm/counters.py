"""Counters that ``rocprof-sys`` samples beside a trace: those of GPUs become telemetry, the others are named.

It polls AMD SMI and calls what it reads ``device_power`` (category ``amd_smi_power``), ``device_temp``,
``device_busy_gfx`` and so on in databases; counter tracks in Perfetto traces are ``GPU Power [0] (S)``,
``GPU [0] Current Power (S)`` or ``[GPU 0] Power``, by release. Source: ``rocm_smi.cpp``, ``amd_smi.cpp``,
``categories.hpp`` and ``perfetto_policy.hpp`` of rocprofiler-systems.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracetool.core.number_text import counted

#: Columns of samples: when, on which GPU (None: not one of a GPU), what, in which unit, how much.
SAMPLES: Final[dict[str, pl.DataType]] = {
    "time_ns": pl.Int64(), "gpu": pl.Int64(), "name": pl.String(), "unit": pl.String(), "value": pl.Float64(),
}  # fmt: skip
#: The field's name in telemetry. AMD SMI gives the package's current or average power, whichever the GPU has.
FIELD: Final = "device_power"
_READ: Final = (
    ("power_w", re.compile(r"^device_power\b|^(?:gpu )?(?:current |average |socket )*power$")),
    ("temperature_c", re.compile(r"^device_temp\b|^(?:gpu )?temperature$")),
    ("utilization", re.compile(r"^device_busy(?:_gfx)?$|^(?:gpu )?(?:gfx )?busy$")),
    ("clock_mhz", re.compile(r"^device_gfx_clock\b|^(?:gpu )?gfx clock$")),
    ("mem_clock_mhz", re.compile(r"^device_mem_clock\b|^(?:gpu )?(?:memory|mem) clock$")),
)
#: Unit to the steps that make one of the telemetry's; an empty one is the writer's usual.
_UNITS: Final[dict[str, dict[str, float]]] = {
    "power_w": {
        "w": 1,
        "watts": 1,
        "watt": 1,
        "": 1,
        "mw": 1e3,
        "milliwatts": 1e3,
        "uw": 1e6,
        "microwatts": 1e6,
    },
    "temperature_c": {"c": 1, "degc": 1, "deg c": 1, "\u00b0c": 1, "": 1},
    "utilization": {"%": 100, "percentage": 100, "percent": 100, "": 100},
    "clock_mhz": {"mhz": 1, "": 1, "hz": 1e6},
    "mem_clock_mhz": {"mhz": 1, "": 1, "hz": 1e6},
}
_INDEX: Final = re.compile(r"\[(?:gpu\s*)?(\d{1,3})\]", re.IGNORECASE)
_LISTED = 6


def plain_name(track: str) -> tuple[str, int | None]:
    """Return a track's name in lower case without the GPU's index and marks, and that index.

    >>> plain_name("GPU Power [1] (S)"), plain_name("[GPU 0] Power"), plain_name("GPU [2] Current Power (S)")
    (('gpu power', 1), ('power', 0), ('gpu current power', 2))
    """
    index = _INDEX.search(track)
    bare = _INDEX.sub(" ", track).replace("(S)", " ")
    return " ".join(bare.lower().split()), int(index[1]) if index else None


def _column(name: str, unit: str) -> tuple[str, float] | None:
    """Return the column of telemetry a counter is, and the steps of its unit in one of the column's."""
    for column, pattern in _READ:
        if pattern.search(name):
            steps = _UNITS[column].get(unit.strip().lower())
            return None if steps is None else (column, steps)
    return None


def gpu_telemetry(samples: pl.DataFrame, warnings: list[str]) -> pl.DataFrame:
    """Return readings of GPUs, with ``gpu``; counters that are none are named in a warning with their counts.

    Parameters
    ----------
    samples : DataFrame
        With the columns of :data:`SAMPLES`, in any order.
    """
    counter_rows, unread = [], []
    keys = samples.group_by("name", "unit").agg(
        pl.len().alias("count"), (pl.col("gpu").is_null() | pl.col("time_ns").is_null()).sum().alias("lost")
    )
    for name, unit, count, lost in keys.sort("name", "unit", nulls_last=True).iter_rows():
        meaning = _column(plain_name(name or "")[0], unit or "")
        if meaning is None:
            unread.append((name or "without a name", unit, count))
            continue
        if lost:
            unread.append((f"{name} without a GPU or a time", unit, lost))
        column, steps = meaning
        of_counter = pl.col("name").eq_missing(pl.lit(name)) & pl.col("unit").eq_missing(pl.lit(unit))
        rows = samples.filter(of_counter).drop_nulls(["gpu", "time_ns", "value"])
        counter_rows.append(
            rows.select("time_ns", "gpu", column=pl.lit(column), value=pl.col("value") / steps)
        )
    if unread:
        listed = [f"{n}{f' [{u}]' if u else ''} ({counted(c, 'sample')})" for n, u, c in unread]
        more = sum(c for _, _, c in unread[_LISTED:])
        tail = f" and {len(unread) - _LISTED} more ({counted(more, 'sample')})" if more else ""
        warnings.append(f"counters that are not read: {', '.join(listed[:_LISTED])}{tail}")
    if not counter_rows:
        return pl.DataFrame()
    # One reading a poll: its values share their time. The highest, should one be there twice.
    table = pl.concat(counter_rows).group_by("gpu", "time_ns").agg(
        pl.col("value").filter(pl.col("column") == c).max().alias(c)
        for c, _ in _READ
    )  # fmt: skip
    field = pl.when(pl.col("power_w").is_not_null()).then(pl.lit(FIELD))
    return table.with_columns(field=field, scope=pl.lit("gpu")).sort("gpu", "time_ns")


def unread_counters(name: str, count: int) -> str:
    """Return the note on counters of dispatches in a file."""
    return f"{name} is not read: {counted(count, 'counter')} of dispatches"


def placed(telemetry: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return readings with ``device``: the GPU of that number, else the one at that place in the order.

    GPUs that ran nothing get the numbers that follow.
    """
    if not telemetry.height:
        return telemetry
    slots = {}
    if devices.height:
        slots = dict(devices.select("profiler_device", "device").drop_nulls().sort("device").iter_rows())
    used = telemetry["gpu"].unique().sort().to_list()
    if not set(used) <= slots.keys():  # counted from zero, while kernels name agents, CPUs among them
        slots = dict(enumerate(slots.values()))
    following = max(slots.values(), default=-1)
    for gpu in used:
        if gpu not in slots:
            following += 1
            slots[gpu] = following
    device = pl.col("gpu").replace_strict(list(slots), list(slots.values()), return_dtype=pl.Int32)
    return telemetry.with_columns(device=device).drop("gpu")
