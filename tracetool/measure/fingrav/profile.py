"""The fine-grain profile of one kernel: steady execution, steady power, components, outliers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Bools
from tracetool.core.errors import BadInput
from tracetool.measure.fingrav.basis import Basis, polynomial
from tracetool.measure.fingrav.curves import Curve, FineProfile, RunTrend
from tracetool.measure.fingrav.executions import Executions, golden_runs, largest_bin, steady_execution
from tracetool.measure.fingrav.guidance import guidance, runs_wanted
from tracetool.measure.fingrav.settling import GoldenSamples, curve_at, fit_settling, steady_power
from tracetool.measure.fingrav.stitch import Placed, Samples, place
from tracetool.measure.fingrav.trend import fit_trend

#: Points of the curves.
_POINTS = 51


def fine_profile(
    executions: Executions, samples: Samples, *, margin: float | None = None, seed: int = 0
) -> FineProfile:
    """Return the fine-grain profile of a kernel.

    Parameters
    ----------
    executions : Executions
        All runs, on the host's clock.
    samples : Samples
        Power samples on that clock.
    margin : float, optional
        Binning margin; the guidance table's by default.
    seed : int
        Of the resampling behind the bands.

    Notes
    -----
    The nine steps of FinGraV: golden runs by execution-time binning, samples and times of interest,
    stitching, regression. The profile is fitted with power settling from steady execution (SSE) to
    steady power (SSP) as a further term, so that every golden sample after SSE counts; averaging
    samplers are deconvolved by integrating the profile over each sample's window.

    Raises
    ------
    BadInput
        If there are no executions, or no sample meets a golden one.
    """
    if not len(executions.start_s):
        raise BadInput("there are no executions to profile", "name a kernel that ran: --kernel")
    sse = steady_execution(executions)
    last = int(np.median(np.bincount(executions.run))) - 1
    sse = min(sse, last)
    typical = float(np.median(executions.duration_s[executions.position >= sse]))
    guide = guidance(typical)
    width = guide.margin if margin is None else margin
    golden = golden_runs(executions, np.array([sse]), width)
    steady = (executions.position >= sse) & golden[executions.run]
    inside = np.zeros(len(steady), dtype=bool)
    inside[steady] = largest_bin(executions.duration_s[steady], width)
    # A mean over a window lies at no phase: only instantaneous samples are placed in executions.
    instants = samples if samples.window_s <= 0 else replace(samples, time_s=np.zeros(0))
    golden_samples = GoldenSamples(
        executions, samples, place(instants, executions), inside, sse, last, _POINTS, seed
    )
    fitted = fit_settling(golden_samples)
    settled, ssp, reached = steady_power(fitted["total"], sse, last)
    curves: list[Curve] = []
    for component, fit in fitted.items():
        for kind, position in (("sse", sse), ("ssp", ssp)):
            curves.append(curve_at(golden_samples, fit, component=component, kind=kind, position=position))
    outliers = (executions.position >= sse) & ~inside
    outlier_curve = _outliers(golden_samples, outliers)
    if outlier_curve is not None:
        curves.append(outlier_curve)
    sse_curve = next(c for c in curves if c.kind == "sse")
    share = float(golden.mean())
    deconvolution = fitted["total"].deconvolution
    further_runs = runs_wanted(guide.samples - sse_curve.samples, typical, samples.period_s, share)
    if deconvolution is not None and np.isfinite(deconvolution.runs_factor):
        further_runs = max(further_runs, int(np.ceil((deconvolution.runs_factor - 1.0) * executions.runs)))
    return FineProfile(
        float(np.median(executions.duration_s[inside])) if inside.any() else typical,
        guide,
        executions.runs,
        golden,
        sse,
        ssp,
        reached,
        settled,
        further_runs,
        tuple(curves),
        _run_trend(golden_samples, golden),
        float(outliers.sum() / max((executions.position >= sse).sum(), 1)),
        deconvolution,
        tuple(_run_trend(golden_samples, golden, c) for c in samples.power_w if c != "total"),
    )


def _outliers(golden_samples: GoldenSamples, outliers: Bools) -> Curve | None:
    """Return the profile of executions of unusual length; None with too few samples in them."""
    executions, samples, placed, seed = (
        golden_samples.executions,
        golden_samples.samples,
        golden_samples.placed,
        golden_samples.seed,
    )
    chosen = outliers[placed.execution] & (placed.share > 0.5)
    if samples.window_s > 0 or chosen.sum() < 12:
        return None
    outlier_pairs = Placed(
        *(getattr(placed, f)[chosen] for f in ("sample", "execution", "begin", "end", "share"))
    )
    basis: Basis = polynomial(2)
    power = samples.power_w["total"][outlier_pairs.sample]
    trend = fit_trend(
        basis.at(outlier_pairs.end), power, executions.run[outlier_pairs.execution], basis, seed=seed
    )
    phase = np.linspace(0.0, 1.0, golden_samples.grid)
    mid, low, high = trend.at(phase)
    mean, mean_low, mean_high = trend.mean()
    return Curve(
        "total",
        "outlier",
        phase,
        mid,
        low,
        high,
        mid,
        mean,
        mean_low,
        mean_high,
        len(power),
        outlier_pairs.end,
        power,
    )


def _run_trend(golden_samples: GoldenSamples, golden: Bools, component: str = "total") -> RunTrend:
    """Power over the time of a run: the degree-4 trend of FinGraV's figures."""
    executions, samples, grid, seed = (
        golden_samples.executions,
        golden_samples.samples,
        golden_samples.grid,
        golden_samples.seed,
    )
    runs = executions.runs
    first = np.full(runs, np.inf)
    final = np.full(runs, -np.inf)
    np.minimum.at(first, executions.run, executions.start_s)
    np.maximum.at(final, executions.run, executions.end_s)
    order = np.argsort(first)
    at = np.searchsorted(first[order], samples.time_s, side="right") - 1
    owner = order[np.maximum(at, 0)]
    within = (at >= 0) & (samples.time_s <= final[owner]) & golden[owner]
    length = float(np.median((final - first)[golden])) if golden.any() else 1.0
    since = samples.time_s - first[owner]
    # A mean that began before the run holds idle time; a whole one is of the middle of its window.
    half_s = 0.5 * max(samples.window_s, 0.0)
    within &= (since <= length) & (since >= 2.0 * half_s)
    since = since - half_s
    power = samples.power_w[component]
    within &= np.isfinite(power)
    if within.sum() < 8:
        none = np.zeros(0)
        return RunTrend(none, none, none, none, since[within], power[within], component)
    basis = polynomial()
    trend = fit_trend(basis.at(since[within] / length), power[within], owner[within], basis, seed=seed)
    phase = np.linspace(0.0, 1.0, grid)
    seen = np.clip(phase, half_s / length, max(1.0 - half_s / length, 0.5))  # no sample lies nearer to an end
    mid, low, high = trend.at(seen)
    return RunTrend(phase * length, mid, low, high, since[within], power[within], component)
