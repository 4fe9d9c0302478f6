"""``nvidia-smi -q -x`` documents, one or a loop of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text, measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.localtime import wall_clock_ns
from tracetool.sources.telemetry.readings import power_rows

_DOCUMENT = re.compile(r"<nvidia_smi_log>.*?</nvidia_smi_log>", re.DOTALL)
_POWERS = {
    "power.draw": ("power_readings/power_draw",),
    "power.draw.average": ("gpu_power_readings/average_power_draw",),
    "power.draw.instant": ("gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw"),
    "module.power.draw.average": ("module_power_readings/average_power_draw",),
    "module.power.draw.instant": (
        "module_power_readings/instant_power_draw",
        "module_power_readings/power_draw",
    ),
    "gpu_memory.power.draw.average": ("gpu_memory_power_readings/average_power_draw",),
    "gpu_memory.power.draw.instant": (
        "gpu_memory_power_readings/instant_power_draw",
        "gpu_memory_power_readings/power_draw",
    ),
}
_VALUES = {
    "clock_mhz": ("clocks/sm_clock",), "mem_clock_mhz": ("clocks/mem_clock",),
    "temperature_c": ("temperature/gpu_temp",),
    "percent": ("utilization/gpu_util",),
    "power_limit_w": ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: the document's root."""
    return 1.0 if "<nvidia_smi_log>" in probe.text[:4096] else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings; stamps are local wall clock in whole seconds.

    Raises
    ------
    BadInput
        If no document is whole.
    """
    from xml.etree import ElementTree as ET

    text = read_text(path, options.max_ratio)
    trace = Trace(
        "nvidia-smi", Clock("local", error_ns=3e8, basis="nvidia-smi -q writes local time, whole seconds")
    )
    rows = []
    for number, document in enumerate(_DOCUMENT.finditer(text)):
        try:
            rows += list(_gpus(document[0]))
        except ET.ParseError as error:
            trace.rejected.append(rejected_rows(path.name, [f"document {number}"], str(error), [document[0]]))
    text_columns = [*_POWERS, *_VALUES, "uuid", "name"]
    frame = pl.DataFrame(rows, schema={"time_ns": pl.Int64, **dict.fromkeys(text_columns, pl.String)})
    undated = frame["time_ns"].null_count()
    if undated:
        trace.rejected.append(rejected_rows(path.name, [], "no time stamp", [], undated))
    frame = frame.drop_nulls("time_ns")
    if not frame.height:
        raise BadInput.in_file(
            path, "holds no whole nvidia-smi document with a time", "log with: nvidia-smi -q -x -l 1"
        )
    key = pl.coalesce("uuid", pl.lit("?"))
    frame = frame.with_columns(key.rank("dense").cast(pl.Int32).sub(1).alias("device"))
    trace.devices = (
        frame.group_by("device")
        .agg(uuid=clean_text(pl.col("uuid").first()), name=clean_text(pl.col("name").first()))
        .sort("device")
        .with_columns(vendor=pl.lit("nvidia"))
    )
    numbers = frame.select(
        "time_ns", "device", *[measured(c).alias(f"#{c}") for c in _POWERS],
        *[measured(c).alias(c) for c in _VALUES],
    ).with_columns(utilization=pl.col("percent") / 100).drop("percent")  # fmt: skip
    trace.telemetry = power_rows(numbers, {f"#{c}": c for c in _POWERS})
    return trace


def _gpus(document: str) -> Iterator[dict[str, object]]:
    from xml.etree import ElementTree as ET

    # Entities could only be defined before the root, and what stands there is never parsed.
    root = ET.fromstring(document)  # noqa: S314
    time = wall_clock_ns(root.findtext("timestamp") or "")
    for gpu in root.iter("gpu"):
        row: dict[str, object] = {
            "time_ns": time,
            "uuid": gpu.findtext("uuid"),
            "name": gpu.findtext("product_name"),
        }
        for column, places in {**_POWERS, **_VALUES}.items():
            texts = [gpu.findtext(p) for p in places]
            row[column] = next((s for s in texts if s and not s.startswith(("N/A", "["))), None)
        yield row


FORMAT = Format(
    title="nvidia-smi XML",
    holds="telemetry",
    made_by="nvidia-smi -q -x -l 1 > smi.xml",
    tried="schema versions 10 to 12",
    checked="watts, times and counters of the lines the test wrote",
    sniff=sniff,
    read=read,
    suffixes=(".xml",),
    memory_ratio=4.0,
)
