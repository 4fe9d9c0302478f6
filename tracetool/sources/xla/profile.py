"""A profile of JAX or TensorFlow as a trace: kernels, operators of the compiled module, modules, power."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.calls import with_call_kinds
from tracetool.sources.columns import rejected_rows
from tracetool.sources.devices import device_rows
from tracetool.sources.format import NS_2015, Clock, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.linking import link_launches
from tracetool.sources.pytorch.columns import texts, whole_numbers
from tracetool.sources.xla import hlo, tables
from tracetool.sources.xla.planes import Event, Plane, Value, planes

_GPU: Final = re.compile(r"^/device:GPU:(\d{1,9})")
#: Readings of the driver's that newer profilers keep (CUPTI's environment records).
_READINGS = frozenset(("power_mw", "gpu_temp_c"))
#: The host's wall clock when the profile began; device times are converted to it by the profiler.
_ANCHOR_ERROR_NS = 1e6


def read_profile(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or holds no GPU.
    """
    options.progress.step(f"reading {path.name}")
    try:
        listed = list(planes(unpacked_bytes(path, options.max_ratio)))
        gpus = {int(m[1]): p for p in listed if (m := _GPU.match(p.name))}
        if not gpus:
            raise BadInput.in_file(path, f"is an XLA profile without a GPU{_of_what(listed)}",
                                   "record with jax.profiler.trace(...) while a GPU computes")  # fmt: skip
        return _trace(path, listed, gpus)
    except BrokenMessage as error:
        raise BadInput.in_file(path, f"is a cut or damaged XLA profile: {error}", "copy it again") from error


def _of_what(listed: list[Plane]) -> str:
    names = sorted({p.name for p in listed if p.name.startswith("/device:")})
    return f" (of {', '.join(n[:30] for n in names[:3])})" if names else ""


def _trace(path: Path, listed: list[Plane], gpus: Mapping[int, Plane]) -> Trace:
    events: list[Event] = []
    places: list[int] = []
    for number, plane in gpus.items():
        for event in plane.events(lambda line: line.startswith("Stream #")):
            if not tables.NO_WORK & event.stats.keys():
                events.append(event)
                places.append(number)
    trace = Trace("XLA profiler", Clock("session"))
    amd = any("amd" in str(p.stats.get("device_vendor", "")).lower() for p in gpus.values())
    host = [e for p in listed if p.name.startswith("/host:CPU") for e in p.events(lambda _: True, _is_named)]
    calls = [e for e in host if "correlation_id" in e.stats]
    trace.host_calls = with_call_kinds(tables.intervals(calls))
    trace.ranges = tables.intervals(
        [e for e in host if e.duration_ns > 0 and "correlation_id" not in e.stats]
    ).drop("correlation")
    activities = tables.activities(events, places)
    activities = link_launches(activities, trace.host_calls, names=False)
    activities = tables.number_calls(activities)
    programs = activities.select("program", "instruction").drop_nulls()["program"].unique().to_list()
    trace.operators = tables.operators(activities, _compiled(path, listed, programs, trace))
    trace.modules = tables.modules(trace.operators)
    trace.operators = trace.operators.drop("path")
    used = activities["profiler_device"].unique().sort().to_list()
    trace.devices = device_rows([_device(i, n, gpus[n].stats, amd) for i, n in enumerate(used)])
    place = pl.col("profiler_device").replace_strict(used, list(range(len(used))), return_dtype=pl.Int32)
    trace.activities = activities.with_columns(place.alias("device")).drop(
        "profiler_device", "program", "instruction", "module_name"
    )
    _set_clock(trace, listed)
    if not events:
        trace.warnings.append("no kernel ran on a GPU while this profile was recorded")
    trace.telemetry = _power(gpus, used)
    if not all(isinstance(gpus[n].stats.get("gpu_device_name"), str) for n in used):
        trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


def _is_named(name: str) -> bool:
    """Whether a host event is a call or a program's range, not the interpreter's or the runtime's own."""
    return bool(name) and not name.startswith("$") and "::" not in name


def _compiled(
    path: Path, listed: list[Plane], programs: list[int], trace: Trace
) -> dict[int, dict[str, hlo.Operator]]:
    """Return the operators of the modules that ran, by the program's number."""
    attached = {n: raw for p in listed if p.name == "/host:metadata" for n, raw in p.attached.items()}
    compiled: dict[int, dict[str, hlo.Operator]] = {}
    for program in programs:
        if program not in attached:
            continue
        try:
            compiled[program] = hlo.operators(attached[program])
        except BrokenMessage as error:
            trace.rejected.append(rejected_rows(path.name, [f"module {program}"], "damaged module", [error]))
    if absent := len(set(programs) - compiled.keys()):
        trace.warnings.append(
            f"the compiled module of {absent} of {len(programs)} programs is not in the file: their"
            " operators have no shapes"
        )
    return compiled


def _device(place: int, number: int, stats: Mapping[str, Value], amd: bool) -> dict[str, Value]:
    clock, major, minor = (stats.get(n) for n in ("clock_rate", "compute_cap_major", "compute_cap_minor"))
    return {
        "device": place, "profiler_device": number, "name": stats.get("gpu_device_name"),
        "vendor": "amd" if amd else "nvidia" if major else None, "sm_count": stats.get("core_count"),
        "memory_bytes": stats.get("memory_size"),
        "clock_max_mhz": clock / 1000 if isinstance(clock, int | float) else None,
        "compute_capability": None if amd or major is None else f"{major}.{minor or 0}",
    }  # fmt: skip


def _power(gpus: Mapping[int, Plane], used: Sequence[int]) -> pl.DataFrame:
    """Return the driver's readings: counters ``power_mw`` and ``gpu_temp_c`` beside the streams.

    Their line states no start of its own: it is that of the streams.
    """
    parts = []
    for place, number in enumerate(used):
        plane = gpus[number]
        begun = plane.first_start_ns(lambda line: line.startswith("Stream #"))
        events = list(
            plane.events(lambda line: not line.startswith("Stream #"), _READINGS.__contains__, begun)
        )
        values = pl.Series([_number(e.stats.get(e.name)) for e in events], dtype=pl.Float64)
        frame = pl.DataFrame(
            {"time_ns": whole_numbers([e.start_ns for e in events]), "name": texts([e.name for e in events])}
        )
        parts.append(
            frame.select(
                "time_ns", pl.lit(place, dtype=pl.Int32).alias("device"),
                pl.when(pl.col("name") == "power_mw").then(values / 1000).alias("power_w"),
                pl.when(pl.col("name") == "gpu_temp_c").then(values).alias("temperature_c"),
                pl.when(pl.col("name") == "power_mw").then(pl.lit("power.draw")).alias("field"),
            )
        )  # fmt: skip
    return pl.concat(parts) if parts else pl.DataFrame()


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _set_clock(trace: Trace, listed: list[Plane]) -> None:
    """State the file's clock: the profile's start in UTC is beside the events of newer files."""
    begun = next((v for p in listed if isinstance(v := p.stats.get("profile_start_time"), int)), 0)
    first = trace.activities["start_ns"].min() if trace.activities.height else None
    if isinstance(first, int) and first >= NS_2015:
        trace.clock = Clock(
            "utc", 0, _ANCHOR_ERROR_NS, basis="wall clock of the host, as the profiler wrote it"
        )
    elif NS_2015 <= begun < 1 << 62:
        trace.clock = Clock(
            "utc", begun, _ANCHOR_ERROR_NS, basis="the profile's start, as the profiler wrote it"
        )
    else:
        trace.clock = Clock(
            "session", basis="nanoseconds since the profile began; its start is not in the file"
        )
        trace.warnings.append("the file does not say when it was recorded")
