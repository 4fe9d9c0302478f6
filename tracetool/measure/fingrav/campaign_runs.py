"""One run's part of a fine-grain campaign, and several laid on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.number_text import counted
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.measure.fingrav.executions import Executions, in_runs
from tracetool.measure.fingrav.interleaving import Activities
from tracetool.measure.fingrav.stitch import Samples
from tracetool.measure.observe import Observation, observe
from tracetool.measure.power_log import paired_devices, power_logs, telemetry_devices
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.tables.run import Run

_NS = 1e-9


@dataclass(frozen=True)
class Part:
    """One run's share of a campaign, on its own clock."""

    executions: Executions
    samples: Samples
    activities: Activities
    note: str


def read_part(run: Run, name: str, gpu: str | None) -> Part:
    """Return the executions of a kernel in a run, the readings beside them, and all else that ran.

    Raises
    ------
    BadInput
        If the run holds no readings, not the kernel, or no readings of the GPU that ran it.
    """
    devices = telemetry_devices(run.telemetry)
    if not devices:
        raise BadInput.in_file(run.path, "holds no power readings", "ingest it with a log: --power LOG")
    kernels = run.kernels
    own_kernels = _launches_of(run, name)
    device = int(own_kernels["device"].mode().sort()[0])
    numbers = {ran: log for log, ran in paired_devices(devices, sorted(kernels["device"].unique())).items()}
    if device not in numbers:
        raise BadInput.in_file(
            run.path, f"holds no power readings of GPU {device}, which ran the kernel", "log that GPU too"
        )
    logged = numbers[device]
    device_kernels = kernels.filter(pl.col("device") == device)
    own_kernels = own_kernels.filter(pl.col("device") == device)
    origin = int(run.telemetry["time_ns"].min() or 0)  # type: ignore[arg-type]
    start, end = _seconds(device_kernels, origin)
    gpu_spec = _gpu_of(run, device, gpu)
    log = power_logs(run.telemetry, logged, origin)[0]
    timeline = build_timeline(start, end, np.zeros(len(start), np.int64), 1)
    observation = observe(log, timeline, candidate_sensors(gpu_spec, log.field, None))
    own_start, own_end = _seconds(own_kernels, origin)
    alignment, sensor = observation.alignment, observation.sensor
    executions = in_runs(alignment.moved(own_start), alignment.moved(own_end))
    samples = _samples(run, observation, logged, origin)
    note = (
        f"{run.path.name}: {counted(len(executions.start_s), 'execution')}"
        f" in {counted(executions.runs, 'run')},"
        f" {counted(len(observation.readings), 'reading')} of {log.field}"
        f" ({samples.window_s * 1e3:.3g} ms window);"
        f" moved {alignment.offset_s * 1e3:+.2f} ± {Z90 * samples.error_s * 1e3:.2f} ms;"
        f" gain {sensor.gain:.3f} ± {Z90 * sensor.gain_sd:.3f}, whose error all figures share, is undone"
    )
    names = run.signatures.select("signature", "name")
    ran = device_kernels.sort("start_ns").join(names, on="signature", how="left", maintain_order="left")
    begin, finish = _seconds(ran, origin)
    activities = activities_of(alignment.moved(begin), alignment.moved(finish), ran["name"].to_list(), name)
    return Part(executions, samples, activities, note)


def _launches_of(run: Run, name: str) -> pl.DataFrame:
    """Return the launches of a kernel; raise BadInput where there are none."""
    signature_ids = run.signatures.filter(pl.col("name") == name)["signature"]
    launches = run.kernels.filter(pl.col("signature").is_in(signature_ids.implode()))
    if not launches.height:
        raise BadInput.in_file(run.path, "does not hold the kernel", "leave this run out")
    return launches


def _gpu_of(run: Run, device: int, gpu: str | None) -> Gpu | None:
    """Return the GPU of a device: the one named, else as the run states it, None where it is not known."""
    device_rows = run.devices.filter(pl.col("device") == device).to_dicts()
    gpu_name = gpu or (
        device_rows[0].get("gpu") or match_gpu(device_rows[0].get("name") or "") if device_rows else None
    )
    return load_gpu(gpu_name, part="sensor") if gpu_name else None


def _samples(run: Run, observation: Observation, logged: int, origin: int) -> Samples:
    """Return the readings of a logged device as samples; where memory is logged too, also by component.

    The sensor's gain and offset are undone, as in attribution.
    """
    sensor, readings = observation.sensor, observation.readings
    total_w = (readings.power_w - sensor.offset_w) / sensor.gain
    power: dict[str, Floats] = {"total": total_w}
    memory_rows = (
        run.telemetry.filter(
            (pl.col("device") == logged)
            & pl.col("memory_power_w").is_not_null()
            & pl.col("power_w").is_not_null()
        )
        .unique("time_ns")
        .sort("time_ns")
    )
    if memory_rows.height > 2:
        at = (memory_rows["time_ns"].to_numpy() - origin) * _NS
        memory = np.interp(readings.time_s, at, memory_rows["memory_power_w"].to_numpy())
        power |= {"memory": memory / sensor.gain, "gpu": total_w - memory / sensor.gain}
    window = sensor.window_s if sensor.kind == "boxcar" else 2.0 * sensor.lag_s
    return Samples(
        readings.time_s - sensor.delay_s,
        power,
        window,
        readings.update_s,
        observation.alignment.offset_sd_s,
    )


def activities_of(start_s: Floats, end_s: Floats, names: Sequence[str | None], kernel: str) -> Activities:
    """Return activities sorted by start, the profiled kernel as class 0."""
    other_names = dict.fromkeys(n for n in names if n != kernel)
    number = {kernel: 0} | {n: i + 1 for i, n in enumerate(other_names)}
    label = np.array([number[n] for n in names], dtype=np.int64)
    order = np.argsort(start_s, kind="stable")
    class_names = (kernel, *("?" if n is None else n for n in other_names))
    return Activities(start_s[order], end_s[order], label[order], class_names)


def _seconds(kernels: pl.DataFrame, origin: int) -> tuple[Floats, Floats]:
    start = kernels["start_ns"].to_numpy() - origin
    length = kernels["duration_ns"].to_numpy()
    return start.astype(np.float64) * _NS, (start + length).astype(np.float64) * _NS


def join_parts(run_parts: Sequence[Part]) -> tuple[Executions, Samples, Activities]:
    """Concatenate runs on one clock, far enough apart not to overlap."""
    executions, samples = [p.executions for p in run_parts], [p.samples for p in run_parts]
    names = list(dict.fromkeys(n for p in run_parts for n in p.activities.names))  # the kernel first
    common = [c for c in samples[0].power_w if all(c in s.power_w for s in samples)]
    shifts, now, count, runs = [], 0.0, 0, []
    for run_part in run_parts:
        low = min(float(run_part.activities.start_s.min()), float(run_part.samples.time_s.min()))
        high = max(float(run_part.activities.end_s.max()), float(run_part.samples.time_s.max()))
        shifts.append(now - low)
        runs.append(run_part.executions.run + count)
        count += run_part.executions.runs
        now += high - low + 10.0
    labels = [
        np.array([names.index(n) for n in p.activities.names], dtype=np.int64)[p.activities.label]
        for p in run_parts
    ]

    def moved(columns: Sequence[Floats]) -> Floats:
        return np.concatenate([c + shift for c, shift in zip(columns, shifts, strict=True)])

    return (
        Executions(
            np.concatenate(runs),
            np.concatenate([e.position for e in executions]),
            moved([e.start_s for e in executions]),
            moved([e.end_s for e in executions]),
        ),
        Samples(
            moved([s.time_s for s in samples]),
            {c: np.concatenate([s.power_w[c] for s in samples]) for c in common},
            samples[0].window_s,
            samples[0].period_s,
            max(s.error_s for s in samples),
        ),
        Activities(
            moved([p.activities.start_s for p in run_parts]),
            moved([p.activities.end_s for p in run_parts]),
            np.concatenate(labels),
            tuple(names),
        ),
    )
