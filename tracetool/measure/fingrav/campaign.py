"""Profile: power profile of one kernel, stitched from repeated runs (FinGraV)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.campaign_runs import join_parts, read_part
from tracetool.measure.fingrav.campaign_tables import read_executions, read_samples, read_sync
from tracetool.measure.fingrav.curves import FineProfile
from tracetool.measure.fingrav.deconvolve import GOAL, Deconvolution
from tracetool.measure.fingrav.interleaving import Activities, Interleaving, interleaving
from tracetool.measure.fingrav.kernel_choice import chosen_kernels
from tracetool.measure.fingrav.profile import fine_profile
from tracetool.measure.fingrav.run_trends import run_record, run_rows, run_trends
from tracetool.measure.fingrav.stitch import Samples
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema


@dataclass(frozen=True)
class Profiled:
    """A kernel's fine-grain profile: the curves as a table, and the data behind them."""

    kernel: str
    frame: pl.DataFrame  # ``profile`` schema
    profile: FineProfile = field(repr=False)
    notes: tuple[str, ...] = ()
    among: Interleaving | None = None  # None where the kernel ran among no others

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON document."""
        p = self.profile
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
            "run": [run_record(trend) for trend in run_trends(p)],
            "deconvolution": None
            if p.deconvolution is None
            else _deconvolution_record(p.deconvolution, identifiable=p.shape_identifiable),
            "interleaving": None if self.among is None else _among(self.among),
            "notes": list(self.notes),
        }


def profile_tables(
    executions: str | os.PathLike[str],
    samples: str | os.PathLike[str],
    *,
    sync: str | os.PathLike[str] | None = None,
    window_s: float = 0.0,
    margin: float | None = None,
    kernel: str | None = None,
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
    kernel : str
        Part of the kernel's name where the table holds several; by default the one with most time.

    Raises
    ------
    BadInput
        If a table cannot be used, or no sample overlaps an execution.
    """
    kernel_runs, name, activities = read_executions(executions, kernel)
    clock = read_sync(sync) if sync is not None else None
    power_samples = read_samples(samples, clock, window_s)
    notes = []
    if clock is not None:
        notes.append(
            f"clocks: {clock.points} sync points, drift {clock.drift * 1e6:+.1f} ppm,"
            f" times of interest to {power_samples.error_s * 1e6:.1f} us"
        )
    return _profiled(
        name, fine_profile(kernel_runs, power_samples, margin=margin), notes, power_samples, activities
    )


def profile_runs(
    runs: Sequence[Run | str | os.PathLike[str]],
    *,
    kernel: str | None = None,
    gpu: str | None = None,
    margin: float | None = None,
) -> Profiled:
    """Return the profile of a kernel over runs that have its trace and a power log.

    Parameters
    ----------
    runs : sequence of Run or path
        Ingested runs; each may hold many repetitions, separated by the idle times between them.
    kernel : str
        Part of the kernel's name; by default the kernel with the most time.
    gpu : str, optional
        Name of the GPU: it determines the sensor's window.
    margin : float, optional
        Binning margin; by default as the guidance table says.

    Raises
    ------
    BadInput
        If no kernel is called so, a run has no readings, or no sample overlaps an execution.
    """
    opened = [r if isinstance(r, Run) else Run.open(r) for r in runs]
    if not opened:
        raise BadInput("no run to profile", "give one or more: tracetool profile RUN...")
    name = _chosen(opened, kernel)
    run_parts = [read_part(run, name, gpu) for run in opened]
    executions, samples, activities = join_parts(run_parts)
    notes = [run_part.note for run_part in run_parts]
    return _profiled(name, fine_profile(executions, samples, margin=margin), notes, samples, activities)


def kernel_times(runs: Sequence[Run]) -> dict[str, float]:
    """Return the time of each kernel of several runs. [ns]

    Raises
    ------
    BadInput
        If no kernel ran.
    """
    names = pl.concat([r.signatures.filter(pl.col("kind") == "kernel") for r in runs])
    times = names.group_by("name", maintain_order=True).agg(pl.col("duration_ns").sum())
    if not times.height:
        raise BadInput("no kernel ran", "give runs whose traces hold kernels")
    return dict(times.sort("duration_ns", maintain_order=True).iter_rows())


def _chosen(runs: Sequence[Run], name_part: str | None) -> str:
    return chosen_kernels(kernel_times(runs), [name_part] if name_part else [], 1)[0]


def _profiled(
    name: str, profile: FineProfile, notes: Sequence[str], samples: Samples, activities: Activities
) -> Profiled:
    frames = [
        pl.DataFrame(
            {
                "kernel": name,
                "kind": c.kind,
                "component": c.component,
                "phase": c.phase,
                "time_us": c.phase * profile.duration_s * 1e6,
                "power_w": c.power_w,
                "power_low_w": c.low_w,
                "power_high_w": c.high_w,
                "polynomial_w": c.polynomial_w,
            }
        )
        for c in profile.curves
    ]
    frames += [run_rows(name, trend) for trend in run_trends(profile)]
    all_notes = list(notes)
    if profile.deconvolution is not None:
        all_notes.append(_deconvolution_note(profile, profile.deconvolution))
    if not profile.ssp_reached:
        all_notes.append("power still changed at the end of the runs: double the executions per run")
    if profile.further_runs:
        aim = (
            "fill the guidance's samples at SSE"
            if profile.deconvolution is None
            else f"bring the profile within {GOAL:.0%} and fill the guidance's samples at SSE"
        )
        all_notes.append(f"{profile.further_runs} further runs would {aim}")
    among = interleaving(activities, samples)
    if among is not None:
        all_notes.append(_history_note(among))
    return Profiled(name, load_schema("profile").conform(pl.concat(frames)), profile, tuple(all_notes), among)


def _deconvolution_note(profile: FineProfile, deconvolution: Deconvolution) -> str:
    """Return the note on how far an averaging sampler determines the profile."""
    share = f"{deconvolution.resolved_share:.0%}"
    sampler_note = (
        f"the sampler averages {deconvolution.width_s * 1e3:.4g} ms,"
        f" {deconvolution.width_s / profile.duration_s:.3g} executions: the profile within one is deconvolved"
    )
    if profile.shape_identifiable:
        error = f"{deconvolution.error:.1%}"
        return f"{sampler_note}, with an expected error of {error} on average ({share} from the samples)"
    further = "" if np.isfinite(deconvolution.runs_factor) else "; more runs like these would not help"
    return (
        f"{sampler_note}, but the samples resolve only {share} of it: read the means, not the profile"
        f"{further}"
    )


def _deconvolution_record(deconvolution: Deconvolution, *, identifiable: bool) -> dict[str, Any]:
    """Return a deconvolution as plain values."""
    return {
        "window_ms": deconvolution.width_s * 1e3,
        "window_ends_after_stamp_us": deconvolution.place_s * 1e6,
        "expected_error": deconvolution.error,
        "told_by_samples": deconvolution.resolved_share,
        "identified": identifiable,
        "runs_factor": _or_none(deconvolution.runs_factor),
    }


def _history_note(among: Interleaving) -> str:
    """Return the history term in words."""
    history = among.history
    if history is None:
        return f"history: not identifiable, {among.reason}"
    if not history.identifiable:
        return (
            "history: the effect of earlier power is not identifiable from these samples"
            f" (90 %: {history.gain_low:.0%} to {history.gain_high:.0%} of the difference)"
        )
    return (
        f"history: {history.gain:.0%} of the difference to what ran before lingers (90 %:"
        f" {history.gain_low:.0%} to {history.gain_high:.0%}), fading over {history.memory_s * 1e3:.2g} ms"
    )


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _among(among: Interleaving) -> dict[str, Any]:
    """Return contexts and history term as plain values."""
    history = among.history
    return {
        "contexts": [
            {
                "context": c.context,
                "executions": c.executions,
                "samples": c.samples,
                "mean_w": _or_none(c.mean_w),
                "mean_low_w": _or_none(c.low_w),
                "mean_high_w": _or_none(c.high_w),
            }
            for c in among.contexts
        ],
        "history": None
        if history is None
        else {
            "gain": history.gain,
            "gain_low": history.gain_low,
            "gain_high": history.gain_high,
            "memory_ms": history.memory_s * 1e3,
            "power_w": history.power_w,
            "samples": history.samples,
            "told": history.identifiable,
        },
        "reason": among.reason or None,
    }


def context_table(profiled: Profiled) -> pl.DataFrame | None:
    """Return one row per context of the kernel; None where it ran among no others."""
    if profiled.among is None or not profiled.among.contexts:
        return None
    rows: list[Mapping[str, Any]] = _among(profiled.among)["contexts"]
    return pl.DataFrame(rows, infer_schema_length=None)


def summary(profiled: Profiled) -> pl.DataFrame:
    """Return one row per kind and component: mean power, its interval, energy, samples."""
    rows: list[Mapping[str, Any]] = profiled.document()["profiles"]
    return pl.DataFrame(rows)
