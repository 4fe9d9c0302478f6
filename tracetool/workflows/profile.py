"""Profile: power over the course of one kernel, stitched from repeated runs (FinGraV)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.measure.fingrav.executions import Executions, in_runs
from tracetool.measure.fingrav.profile import FineProfile, fine_profile
from tracetool.measure.fingrav.stitch import Samples
from tracetool.measure.observe import observe
from tracetool.measure.power_log import power_logs, telemetry_devices
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.vocabulary.arrays import Floats, Ints
from tracetool.vocabulary.errors import BadInput
from tracetool.workflows.profile_tables import read_executions, read_samples, read_sync

_NS = 1e-9


@dataclass(frozen=True)
class Profiled:
    """A kernel's fine-grain profile: the curves as a table, and what they rest on."""

    kernel: str
    frame: pl.DataFrame  # ``profile`` schema
    found: FineProfile = field(repr=False)
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON document."""
        p = self.found
        return {
            "kernel": self.kernel,
            "duration_us": p.duration_s * 1e6,
            "runs": p.runs,
            "golden_runs": int(p.golden.sum()),
            "binning_margin": p.guide.margin,
            "guidance": {"runs": p.guide.runs, "samples": p.guide.samples},
            "further_runs": p.further_runs,
            "sse_execution": p.sse + 1,
            "ssp_execution": p.ssp + 1,
            "ssp_reached": p.ssp_reached,
            "outlier_share": p.outlier_share,
            "profiles": [
                {
                    "kind": c.kind,
                    "component": c.component,
                    "mean_w": c.mean_w,
                    "mean_low_w": c.mean_low_w,
                    "mean_high_w": c.mean_high_w,
                    "energy_mj": c.mean_w * p.duration_s * 1e3,
                    "samples": c.samples,
                }
                for c in p.curves
            ],
            "notes": list(self.notes),
        }


def profile_tables(
    executions: str | os.PathLike[str],
    samples: str | os.PathLike[str],
    *,
    sync: str | os.PathLike[str] | None = None,
    window_s: float = 0.0,
    margin: float | None = None,
) -> Profiled:
    """Return the profile of a campaign kept in plain tables.

    Parameters
    ----------
    executions : path
        ``start_us``, ``end_us`` on the host's clock, optionally ``run`` and ``kernel``.
    samples : path
        ``power_w`` and component columns ``*_w`` with ``gpu_us`` or ``time_us``.
    sync : path, optional
        Sync points ``host_us``, ``gpu_us``, ``delay_us`` for samples on the GPU's clock.
    window_s : float
        Averaging window of the sampler; 0 where instantaneous. [s]
    margin : float, optional
        Binning margin; by default as the guidance table says.

    Raises
    ------
    BadInput
        If a table cannot be used, or no sample meets an execution.
    """
    made, name = read_executions(executions)
    clock = read_sync(sync) if sync is not None else None
    taken = read_samples(samples, clock, window_s)
    notes = []
    if clock is not None:
        notes.append(
            f"clocks: {clock.points} sync points, drift {clock.drift * 1e6:+.1f} ppm,"
            f" times of interest to {taken.error_s * 1e6:.1f} us"
        )
    return _profiled(name, fine_profile(made, taken, margin=margin), notes, taken)


def profile_runs(
    runs: Sequence[Run | str | os.PathLike[str]],
    *,
    kernel: str = "",
    gpu: str | None = None,
    margin: float | None = None,
) -> Profiled:
    """Return the profile of a kernel over runs that hold its trace and a power log.

    Parameters
    ----------
    runs : sequence of Run or path
        Ingested runs; each may hold many repetitions, told apart by the pauses between them.
    kernel : str
        Part of the kernel's name; by default the kernel with the most time.
    gpu : str, optional
        Name of the GPU: it tells the sensor's window.
    margin : float, optional
        Binning margin; by default as the guidance table says.

    Raises
    ------
    BadInput
        If no kernel is called so, a run has no readings, or no sample meets an execution.
    """
    opened = [r if isinstance(r, Run) else Run.open(r) for r in runs]
    if not opened:
        raise BadInput("no run to profile", "give one or more: tracetool profile RUN...")
    name = _chosen(opened, kernel)
    parts = [_one_run(run, name, gpu) for run in opened]
    executions, samples = _joined(parts)
    notes = [note for part in parts for note in part[2]]
    return _profiled(name, fine_profile(executions, samples, margin=margin), notes, samples)


def _chosen(runs: Sequence[Run], asked: str) -> str:
    names = pl.concat([r.signatures.filter(pl.col("kind") == "kernel") for r in runs])
    if asked:
        names = names.filter(pl.col("name").str.contains(asked, literal=True))
    if not names.height:
        raise BadInput(
            f"no kernel called {asked!r} ran" if asked else "no kernel ran",
            "give part of its name as tracetool classify RUN shows it",
        )
    return str(names.group_by("name").agg(pl.col("duration_ns").sum()).sort("duration_ns")["name"][-1])


def _one_run(run: Run, name: str, gpu: str | None) -> tuple[Executions, Samples, list[str]]:
    devices = telemetry_devices(run.telemetry)
    if not devices:
        raise BadInput.in_file(run.path, "holds no power readings", "ingest it with a log: --power LOG")
    wanted = run.signatures.filter(pl.col("name") == name)["signature"]
    kernels = run.kernels
    mine = kernels.filter(pl.col("signature").is_in(wanted.implode()))
    if not mine.height:
        raise BadInput.in_file(run.path, "does not hold the kernel", "leave this run out")
    device = int(mine["device"].mode()[0])
    logged = device if device in devices else devices[0]
    there = kernels.filter(pl.col("device") == device)
    mine = mine.filter(pl.col("device") == device)
    origin = int(run.telemetry["time_ns"].min() or 0)  # type: ignore[arg-type]
    start, end = _seconds(there, origin)
    told = run.devices.filter(pl.col("device") == device).to_dicts()
    asked = gpu or (told[0].get("gpu") or match_gpu(told[0].get("name") or "") if told else None)
    board = load_gpu(asked, part="sensor") if asked else None
    log = power_logs(run.telemetry, logged, origin)[0]
    timeline = build_timeline(start, end, np.zeros(len(start), np.int64), 1)
    found = observe(log, timeline, candidate_sensors(board, log.field, None))
    own_start, own_end = _seconds(mine, origin)
    shift = found.alignment.offset_s
    executions = in_runs(own_start + shift, own_end + shift)
    power: dict[str, Floats] = {"total": found.readings.power_w}
    parts = (
        run.telemetry.filter(
            (pl.col("device") == logged)
            & pl.col("memory_power_w").is_not_null()
            & pl.col("power_w").is_not_null()
        )
        .unique("time_ns")
        .sort("time_ns")
    )
    if parts.height > 2:
        at = (parts["time_ns"].to_numpy() - origin) * _NS
        memory = np.interp(found.readings.time_s, at, parts["memory_power_w"].to_numpy())
        power |= {"memory": memory, "gpu": found.readings.power_w - memory}
    window = found.sensor.window_s if found.sensor.kind == "boxcar" else 2.0 * found.sensor.lag_s
    sd = found.alignment.offset_sd_s
    samples = Samples(
        found.readings.time_s - found.sensor.delay_s, power, window, found.readings.update_s, sd
    )
    note = (
        f"{run.path.name}: {len(executions.start_s)} executions in {executions.runs} runs,"
        f" {len(found.readings)} readings of {log.field} ({window * 1e3:.3g} ms window);"
        f" moved {shift * 1e3:+.2f} +- {1.645 * sd * 1e3:.2f} ms"
    )
    return executions, samples, [note]


def _seconds(kernels: pl.DataFrame, origin: int) -> tuple[Floats, Floats]:
    start = kernels["start_ns"].to_numpy() - origin
    length = kernels["duration_ns"].to_numpy()
    return start.astype(np.float64) * _NS, (start + length).astype(np.float64) * _NS


def _joined(parts: Sequence[tuple[Executions, Samples, list[str]]]) -> tuple[Executions, Samples]:
    """Lay runs one after another on one clock, far enough apart not to meet."""
    runs: list[Ints] = []
    columns: dict[str, list[Floats]] = {"start": [], "end": [], "time": []}
    positions: list[Ints] = []
    common = set.intersection(*(set(s.power_w) for _, s, _ in parts))
    power: dict[str, list[Floats]] = {c: [] for c in parts[0][1].power_w if c in common}
    shift, count = 0.0, 0
    for executions, samples, _ in parts:
        low = min(float(executions.start_s.min()), float(samples.time_s.min()))
        high = max(float(executions.end_s.max()), float(samples.time_s.max()))
        columns["start"].append(executions.start_s - low + shift)
        columns["end"].append(executions.end_s - low + shift)
        columns["time"].append(samples.time_s - low + shift)
        for name, kept in power.items():
            kept.append(samples.power_w[name])
        runs.append(executions.run + count)
        positions.append(executions.position)
        count += executions.runs
        shift += high - low + 10.0
    executions = Executions(
        np.concatenate(runs),
        np.concatenate(positions),
        np.concatenate(columns["start"]),
        np.concatenate(columns["end"]),
    )
    samples = Samples(
        np.concatenate(columns["time"]),
        {c: np.concatenate(v) for c, v in power.items()},
        parts[0][1].window_s,
        parts[0][1].period_s,
        max(s.error_s for _, s, _ in parts),
    )
    return executions, samples


def _profiled(name: str, found: FineProfile, notes: Sequence[str], samples: Samples) -> Profiled:
    frames = [
        pl.DataFrame(
            {
                "kernel": name,
                "kind": c.kind,
                "component": c.component,
                "phase": c.phase,
                "time_us": c.phase * found.duration_s * 1e6,
                "power_w": c.power_w,
                "power_low_w": c.low_w,
                "power_high_w": c.high_w,
                "polynomial_w": c.polynomial_w,
            }
        )
        for c in found.curves
    ]
    said = list(notes)
    if samples.window_s > found.duration_s:
        said.append(
            f"the sampler averages {samples.window_s * 1e3:.3g} ms, {samples.window_s / found.duration_s:.0f}"
            " executions: the course within one is deconvolved and only as sure as its band"
        )
    if not found.ssp_reached:
        said.append("power still changed at the end of the runs: double the executions per run")
    if found.further_runs:
        said.append(f"{found.further_runs} further runs would fill the guidance's samples at SSE")
    return Profiled(name, load_schema("profile").conform(pl.concat(frames)), found, tuple(said))


def summary(profiled: Profiled) -> pl.DataFrame:
    """Return one row per kind and component: mean power, its interval, energy, samples."""
    rows: list[Mapping[str, Any]] = profiled.document()["profiles"]
    return pl.DataFrame(rows)
