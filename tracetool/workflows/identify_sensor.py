"""Identify: a power sensor's window, period, lag and delay from its own log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.measure.characterize import Characterized, Estimate, characterize
from tracetool.measure.power_log import power_logs, telemetry_devices
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.sources.telemetry import read_telemetry
from tracetool.tables.run import Run
from tracetool.vocabulary.errors import BadInput
from tracetool.workflows.activity_files import read_activity

_NS, _US, _MS = 1e-9, 1e-6, 1e3


@dataclass(frozen=True)
class IdentifiedSensor:
    """One field of a log and what it tells of its sensor."""

    field: str
    found: Characterized

    def row(self) -> dict[str, Any]:
        """Return it as one row: values in milliseconds with both ends of their 90 % intervals."""
        out: dict[str, Any] = {"field": self.field, "kind": self.found.kind or None}
        for name in ("window", "lag", "update", "offset"):
            told: Estimate | None = getattr(self.found, f"{name}_s")
            out[f"{name}_ms"] = None if told is None else float(told.value) * _MS
            out[f"{name}_low_ms"] = None if told is None else float(told.low) * _MS
            out[f"{name}_high_ms"] = None if told is None else float(told.high) * _MS
        return {**out, "note": self.found.reason or None}

    def toml(self) -> str:
        """Return what was identified as a calibration file's section."""
        lines = ["[sensor]"]
        for name in ("window", "lag", "update"):
            told: Estimate | None = getattr(self.found, f"{name}_s")
            if told is not None:
                lines.append(f"{name}_ms = {float(told.value) * _MS:.2f}")
        return "\n".join([*lines, "# gain = ...      sensor over true power, from a meter", ""])


def identify_sensor(
    source: str | os.PathLike[str],
    *,
    power: Sequence[Path] = (),
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
) -> list[IdentifiedSensor]:
    """Return what each power field of a log tells of its sensor.

    Parameters
    ----------
    source : path
        A run, or an activity table (``name``, ``start_us``, ``end_us``); best a square wave of loads.
    power : sequence of path
        Power logs; a run has its own.
    tz : str, optional
        Zone of logs in local time.
    gpu : str, optional
        Name of the GPU: where the update period is looked for first.
    device : int, optional
        Which GPU of the log; by default its first.

    Raises
    ------
    BadInput
        If a file cannot be used or the log tells nothing.
    """
    if Path(source).is_dir():
        run = Run.open(source)
        telemetry = run.telemetry
        if power:
            raise BadInput("a run is identified by its own log", "ingest it with --power LOG")
        kernels = run.kernels
        wanted = int(kernels["device"].mode()[0]) if kernels.height and device is None else device or 0
        kernels = kernels.filter(pl.col("device") == wanted)
        start = kernels["start_ns"].to_numpy()
        end = start + kernels["duration_ns"].to_numpy()
        told = run.devices.filter(pl.col("device") == wanted).to_dicts()
        gpu = gpu or (told[0].get("gpu") or match_gpu(told[0].get("name") or "") if told else None)
        jitter = 2e-5
    else:
        table = read_activity(source)
        if not power:
            raise BadInput.in_file(source, "is a table of activities without a power log", "give --power LOG")
        telemetry = pl.concat([read_telemetry(p, tz) for p in power])
        start, end = table["start_us"].to_numpy() * 1000, table["end_us"].to_numpy() * 1000
        wanted, jitter = device or 0, 3e-4
    logged = telemetry_devices(telemetry)
    if not logged:
        raise BadInput.in_file(source, "has no power readings beside it")
    chosen = wanted if wanted in logged else logged[0]
    origin = int(telemetry["time_ns"].min() or 0)  # type: ignore[arg-type]
    first = (start - origin).astype(np.float64) * _NS
    last = (end - origin).astype(np.float64) * _NS
    timeline = build_timeline(first, last, np.zeros(len(first), np.int64), 1, jitter)
    board = load_gpu(gpu, part="sensor") if gpu else None
    return [
        IdentifiedSensor(log.field, characterize(log, timeline, candidate_sensors(board, log.field)[0]))
        for log in power_logs(telemetry, chosen, origin)
    ]
