"""Identify: a power sensor's window, period, lag and delay from its own log, its gain beside a meter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.characterize import Characterized, Estimate, characterize
from tracetool.measure.energy_tables import gain_basis
from tracetool.measure.meter_calibration import MeteredGain, gain_against
from tracetool.measure.power_log import PowerLog, power_logs, telemetry_devices
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.sources.telemetry.logs import read_telemetry
from tracetool.tables.activity_table import read_activity, read_meter
from tracetool.tables.run import Run
from tracetool.tables.run_folder import is_run_path
from tracetool.tables.write import aside_file

_NS, _US, _MS = 1e-9, 1e-6, 1e3


@dataclass(frozen=True)
class IdentifiedSensor:
    """One field of a log and the sensor identified from it."""

    field: str
    characterized: Characterized
    nominal: Sensor  # what the GPU's file and class say
    metered: MeteredGain | None = None  # gain and offset, where a meter ran beside

    def sensor(self) -> Sensor:
        """Return the sensor as the log shows it; where the log agrees, with the window of such GPUs."""
        window, nominal = self.characterized.window_s, self.nominal
        characterized = self.characterized.sensor(nominal)
        agrees = window is not None and window.low <= nominal.window_s <= window.high
        return (
            replace(characterized, window_s=nominal.window_s)
            if agrees and nominal.basis == "measured"
            else characterized
        )

    def row(self) -> dict[str, Any]:
        """Return field and values as one row: values in milliseconds, with their 90 % intervals."""
        out: dict[str, Any] = {"field": self.field, "kind": self.characterized.kind or None}
        for name in ("window", "lag", "update", "offset"):
            estimate: Estimate | None = getattr(self.characterized, f"{name}_s")
            if name == "offset" and not self.characterized.kind:
                estimate = None  # where readings hardly answer, one delay explains them as well as another
            out[f"{name}_ms"] = None if estimate is None else float(estimate.value) * _MS
            out[f"{name}_low_ms"] = None if estimate is None else float(estimate.low) * _MS
            out[f"{name}_high_ms"] = None if estimate is None else float(estimate.high) * _MS
        gain, sd, offset = self.nominal.gain, self.nominal.gain_sd, self.nominal.offset_w
        if self.metered is not None:
            gain, sd, offset = self.metered.gain, self.metered.gain_sd, self.metered.offset_w
        out |= {"gain": gain, "gain_low": gain - Z90 * sd, "gain_high": gain + Z90 * sd, "offset_w": offset}
        out["gain_from"] = "meter" if self.metered is not None else gain_basis(self.nominal)
        return {**out, "note": self.characterized.reason or None}

    def in_words(self) -> dict[str, str]:
        """Return the row as text: each value with its 90 % interval, a dash where the log shows none."""
        row = self.row()
        out = {"kind": row["kind"] or "-"}
        for name in ("window", "lag", "update", "offset"):
            low, high = row[f"{name}_low_ms"], row[f"{name}_high_ms"]
            value = row[f"{name}_ms"]
            shown = "delay" if name == "offset" else name
            out[f"{shown} [ms]"] = "-" if value is None else f"{value:.1f} ({low:.1f} to {high:.1f})"
        out["gain"] = f"{row['gain']:.3f} ({row['gain_low']:.3f} to {row['gain_high']:.3f})"
        out["offset [W]"] = f"{row['offset_w']:+.1f}"
        out["gain from"] = row["gain_from"]
        return out

    def toml(self) -> str:
        """Return the identified sensor as a calibration file's section."""
        lines = ["[sensor]"]
        sensor = self.sensor()
        for name, value in (("window", sensor.window_s), ("lag", sensor.lag_s), ("update", sensor.update_s)):
            if np.isfinite(value) and value > 0:
                lines.append(f"{name}_ms = {value * _MS:.2f}")
        metered = self.metered
        if metered is None:
            return "\n".join([*lines, "# gain = ...      sensor over true power, from a meter", ""])
        lines += [
            f"gain = {metered.gain:.5f}  # reading = gain * true + offset_w, {metered.readings} readings",
            f"gain_sd = {metered.gain_sd:.5f}",
            f"offset_w = {metered.offset_w:.3f}",
            f"offset_sd_w = {metered.offset_sd_w:.3f}  # at the pivot",
            f"pivot_w = {metered.pivot_w:.1f}",
        ]
        return "\n".join([*lines, ""])


def save_sensor(identified: IdentifiedSensor, path: str | os.PathLike[str]) -> Path:
    """Write a calibration file for ``--sensor`` and return its path."""
    with aside_file(path) as aside:
        aside.write_text(identified.toml(), "utf-8")
    return Path(path)


def identify_sensor(
    source: str | os.PathLike[str],
    *,
    power: Sequence[Path] = (),
    tz: str | None = None,
    gpu: str | None = None,
    device: int | None = None,
    meter: str | os.PathLike[str] | None = None,
) -> list[IdentifiedSensor]:
    """Return the sensor identified from each power field of a log.

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
    meter : path, optional
        A physical meter's table beside the log (``time_us`` UTC, ``power_w``), on the log's clock to 50 ms:
        it determines gain and offset.

    Raises
    ------
    BadInput
        If a file cannot be used or the log shows no sensor.
    """
    if is_run_path(source):
        run = Run.open(source)
        if power:
            raise BadInput("a run is identified by its own log", "ingest it with --power LOG")
        load = _load_of_run(run, gpu, device)
    else:
        load = _load_of_table(source, power, tz, gpu, device)
    logged = telemetry_devices(load.telemetry)
    if not logged:
        raise BadInput.in_file(source, "has no power readings beside it")
    if device is not None and device not in logged:
        raise BadInput(f"the log has no device {device}", f"it has: {', '.join(map(str, logged))}")
    chosen = load.device if load.device in logged else logged[0]
    origin_ns = int(load.telemetry["time_ns"].min() or 0)  # type: ignore[arg-type]
    timeline = load.timeline(origin_ns)
    gpu_spec = load_gpu(load.gpu, part="sensor") if load.gpu else None
    true = read_meter(meter) if meter is not None else None
    identified: list[IdentifiedSensor] = []
    for log in power_logs(load.telemetry, chosen, origin_ns):
        nominal = candidate_sensors(gpu_spec, log.field)[0]
        one = IdentifiedSensor(log.field, characterize(log, timeline, nominal), nominal)
        if true is not None:
            # the field attribution uses must have its gain; others may be too slow for one
            one = _with_gain(one, log, true, origin_ns, required=not identified)
        identified.append(one)
    return identified


@dataclass(frozen=True)
class _Load:
    """Activity of one GPU and the telemetry beside it."""

    telemetry: pl.DataFrame
    start_ns: Ints
    end_ns: Ints
    device: int
    gpu: str | None
    jitter_s: float  # error of a start or end [s]

    def timeline(self, origin_ns: int) -> Timeline:
        """Return the activity as one class, in seconds from ``origin_ns``."""
        start_s, end_s = (
            (ends - origin_ns).astype(np.float64) * _NS for ends in (self.start_ns, self.end_ns)
        )
        return build_timeline(start_s, end_s, np.zeros(len(start_s), np.int64), 1, self.jitter_s)


def _load_of_run(run: Run, gpu: str | None, device: int | None) -> _Load:
    """Return the kernels of a run's GPU, by default of the one with most of them, and its telemetry."""
    kernels = run.kernels
    if device is None:
        device = int(kernels["device"].mode().sort()[0]) if kernels.height else 0
    kernels = kernels.filter(pl.col("device") == device)
    start_ns = kernels["start_ns"].to_numpy()
    rows = run.devices.filter(pl.col("device") == device).to_dicts()
    gpu = gpu or (rows[0].get("gpu") or match_gpu(rows[0].get("name") or "") if rows else None)
    return _Load(run.telemetry, start_ns, start_ns + kernels["duration_ns"].to_numpy(), device, gpu, 2e-5)


def _load_of_table(
    source: str | os.PathLike[str], power: Sequence[Path], tz: str | None, gpu: str | None, device: int | None
) -> _Load:
    """Return the activities of a table, and the telemetry of the power logs beside it."""
    table = read_activity(source)
    if not power:
        raise BadInput.in_file(source, "is a table of activities without a power log", "give --power LOG")
    telemetry = pl.concat([read_telemetry(p, tz) for p in power])
    start_ns, end_ns = (table[column].to_numpy() * 1000 for column in ("start_us", "end_us"))
    return _Load(telemetry, start_ns, end_ns, device or 0, gpu, 3e-4)


def _with_gain(
    identified: IdentifiedSensor, log: PowerLog, meter: pl.DataFrame, origin_ns: int, *, required: bool
) -> IdentifiedSensor:
    """Return a sensor with its gain and offset by a meter; without where they are open, unless required."""
    time_s = (meter["time_us"].to_numpy() * 1e3 - origin_ns) * _NS
    try:
        metered = gain_against(log, identified.sensor(), time_s, meter["power_w"].to_numpy())
    except BadInput:
        if required:
            raise
        return identified
    return replace(identified, metered=metered)
