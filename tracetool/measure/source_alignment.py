"""Alignment of sources whose clocks share no reference: where activity explains power best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.align import LEAST_CORRELATION, coarse_offsets, least_correlation
from tracetool.measure.clock_fit import ClockFit, fit_clock_offset
from tracetool.measure.counter import counter_readings
from tracetool.measure.filter_likelihood import log_likelihoods
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.observe import DECISIVE
from tracetool.measure.power_log import PowerLog, power_logs, telemetry_devices
from tracetool.measure.readings import Readings, resolve_updates
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.sources.assemble import shift_trace
from tracetool.sources.clocks import Source

_NS = 1e-9
#: Readings by which places are held against one another, spread over all of the log. [1] A prior.
_EXPLAINED = 6000


@dataclass(frozen=True)
class _Fit:
    offset_s: float
    correlation: float
    fit: ClockFit
    least: float = LEAST_CORRELATION  # correlation below which it is not used
    rivals_s: tuple[float, ...] = ()  # other offsets that explain the log as well [s]


def fit_unplaced(sources: Sequence[Source], clock: dict[str, Any], gpu: str | None) -> None:
    """Place sources that only overlap with others, in place; ``clock`` records how, and with what error.

    Parameters
    ----------
    sources : sequence of Source
        Through ``align_sources``.
    clock : dict
        What that returned; entries of sources that are placed here are completed.
    gpu : str, optional
        Model of the GPU, for its sensor.

    Notes
    -----
    The cross-correlation of busy time and power finds the place to about an update of the sensor; the
    likelihood of the readings under the activity, filtered by the sensor's window, refines it
    (:func:`tracetool.measure.clock_fit.fit_clock_offset`). The drift comes from the parts of a long
    log. A fit whose correlation stays below :func:`tracetool.measure.align.least_correlation` is not used. A
    job that repeats may fit in several places: then all are named, and the stated interval reaches over them.
    """
    entries = clock["alignment"]
    for source, entry in zip(sources, entries, strict=True):
        if entry["placed"]:
            continue
        is_log = not source.trace.activities.height
        candidates = [
            s for s, e in zip(sources, entries, strict=True)
            if e["placed"] and (s.trace.activities.height if is_log else s.trace.telemetry.height)
        ]  # fmt: skip
        fits: list[_Fit] = []
        for candidate in candidates:
            trace, log = (candidate, source) if is_log else (source, candidate)
            fits += _try(trace, log.trace.telemetry, gpu)
        best = max(fits, key=lambda f: f.correlation, default=None)
        if best is None or best.correlation < best.least:
            if best is not None:
                entry["basis"] += f" (best overlap correlates {best.correlation:.2f} only: not used)"
            continue
        by = round(best.offset_s / _NS) * (-1 if is_log else 1)
        shift_trace(source.trace, by)
        entry.update(
            placed=True, offset_ns=by, correlation=round(best.correlation, 4), **_stated(best.fit, by)
        )
        if best.rivals_s:
            entry.update(_ambiguous(entry, [round(r / _NS) * (-1 if is_log else 1) for r in best.rivals_s]))


def _stated(fit: ClockFit, by_ns: int) -> dict[str, Any]:
    """Return the entry of ``run.json`` for a fit: its error by contribution and the 90 % interval."""
    alignment = fit.alignment
    error = alignment.offset_sd_s / _NS
    record: dict[str, Any] = {
        "error_ns": round(error),
        "low_ns": round(by_ns - Z90 * error),
        "high_ns": round(by_ns + Z90 * error),
        "error_parts_ns": {
            "likelihood": round(fit.likelihood_sd_s / _NS),
            "sampling": round(fit.sampling_sd_s / _NS),
            "stamps": round(fit.stamp_sd_s / _NS),
        },
        "basis": "fitted: where the activity makes the power log likeliest",
    }
    if alignment.drift_sd > 0:  # too short a log shows no drift
        record |= {
            "drift_ppm": round(1e6 * alignment.drift, 3),
            "drift_sd_ppm": round(1e6 * alignment.drift_sd, 3),
        }
    return record


def _ambiguous(entry: dict[str, Any], rivals_ns: list[int]) -> dict[str, Any]:
    """Return the entry of ``run.json`` where several places explain the log equally well."""
    half = entry["high_ns"] - entry["offset_ns"]
    low, high = min(entry["offset_ns"], *rivals_ns) - half, max(entry["offset_ns"], *rivals_ns) + half
    places = ", ".join(f"{(r - entry['offset_ns']) * _NS:+.3f} s" for r in sorted(rivals_ns))
    return {
        "ambiguous": True,
        "rivals_ns": sorted(rivals_ns),
        "low_ns": low,
        "high_ns": high,
        "error_ns": round((high - low) / (2.0 * Z90)),
        "basis": f"{entry['basis']}, but the work repeats: {places} away the log is explained as well",
    }


def _try(trace: Source, telemetry: pl.DataFrame, gpu: str | None) -> list[_Fit]:
    """Return a fit for each device of the log, to the busiest device of the trace."""
    activities = trace.trace.activities
    busy = (
        activities.group_by("device", maintain_order=True)
        .agg(pl.col("duration_ns").sum())
        .sort("duration_ns")
        .tail(1)
    )
    if not busy.height or telemetry.is_empty():
        return []
    busy_device = activities.filter(pl.col("device") == busy["device"][0])
    origin = int(telemetry["time_ns"].median() or 0)  # type: ignore[arg-type]
    middle = int(busy_device["start_ns"].median() or 0)  # type: ignore[arg-type]
    start = (busy_device["start_ns"].to_numpy() - middle) * _NS
    timeline = build_timeline(
        start, start + busy_device["duration_ns"].to_numpy() * _NS, np.zeros(len(start), np.int64), 1
    )
    gpu_spec = _gpu_spec(trace, int(busy["device"][0]), gpu)
    needed_columns = ("power_w", "energy_j", "field", "power_kind")
    absent = [c for c in needed_columns if c not in telemetry.columns]
    kinds = {"power_w": pl.Float64, "energy_j": pl.Float64, "field": pl.String, "power_kind": pl.String}
    telemetry = telemetry.with_columns(pl.lit(None, dtype=kinds[c]).alias(c) for c in absent)
    fits = []
    for device in telemetry_devices(telemetry):
        for log in power_logs(telemetry, device, origin)[:1]:
            fit = _fit(log, timeline, gpu_spec)
            if fit is not None:
                # Both clocks were counted from their own middles: put them back.
                moved = fit.offset_s + (origin - middle) * _NS
                rivals = tuple(r + (origin - middle) * _NS for r in fit.rivals_s)
                fits.append(replace(fit, offset_s=moved, rivals_s=rivals))
    return fits


def _gpu_spec(trace: Source, device: int, gpu: str | None) -> Gpu | None:
    name = None
    if trace.trace.devices.height and "name" in trace.trace.devices.columns:
        row = trace.trace.devices.filter(pl.col("device") == device)
        name = match_gpu(row["name"][0]) if row.height and row["name"][0] else None
    name = name or gpu
    try:
        return load_gpu(name, part="sensor") if name else None
    except BadInput:
        return None


def _fit(log: PowerLog, timeline: Timeline, gpu_spec: Gpu | None) -> _Fit | None:
    sensors = candidate_sensors(gpu_spec, log.field, None)
    try:
        readings = (
            counter_readings(log, sensors[0].update_s)
            if log.field == "counter"
            else resolve_updates(log.time_s, log.power_w, sensors[0].update_s)
        )
        if len(readings) < 8 or not np.ptp(readings.power_w) > 0.0:  # a flat log shows no place
            return None
        start, end = timeline.span_s
        reach = (readings.time_s[-1] - readings.time_s[0]) + (end - start)
        places = coarse_offsets(readings, timeline, reach)
        if len(places) == 1:
            fit = fit_clock_offset(log, timeline.shifted(places[0][0]), sensors)
            offset_s = places[0][0] + (0.0 if fit is None else fit.alignment.offset_s)
            least = least_correlation(readings.power_w)
            return None if fit is None else _Fit(offset_s, places[0][1], fit, least)
        return _likeliest(log, readings, timeline, sensors, places)
    except (BadInput, ValueError, IndexError, FloatingPointError):
        return None


def _likeliest(
    log: PowerLog,
    readings: Readings,
    timeline: Timeline,
    sensors: list[Sensor],
    places: list[tuple[float, float]],
) -> _Fit | None:
    """Return the place of several that explains the readings best, with those that do so as well."""
    explained = []
    least = least_correlation(readings.power_w)
    every = 1 + len(readings) // _EXPLAINED
    readings = replace(readings, time_s=readings.time_s[::every], power_w=readings.power_w[::every])
    for at, _ in places:
        boxes = [sensor_boxes(s, readings.jitter_s) for s in sensors[:3]]
        near = at + np.linspace(-1.0, 1.0, 7) * readings.update_s
        values = [
            (float(value), float(x))
            for box in boxes
            for value, x in zip(log_likelihoods(readings, timeline, box, near), near, strict=True)
        ]
        explained.append(max(values))
    best = int(np.argmax([value for value, _ in explained]))
    fit = fit_clock_offset(log, timeline.shifted(places[best][0]), sensors)
    if fit is None:
        return None
    offset_s = places[best][0] + fit.alignment.offset_s
    level = explained[best][0] - DECISIVE
    rivals = [
        offset_s + at - explained[best][1]
        for i, (value, at) in enumerate(explained)
        if i != best and value > level
    ]
    return _Fit(offset_s, places[best][1], fit, least, tuple(rivals))
