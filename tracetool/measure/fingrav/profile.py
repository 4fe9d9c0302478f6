"""The fine-grain profile of one kernel: steady execution, steady power, components, outliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.measure.fingrav.basis import Basis, polynomial, spline
from tracetool.measure.fingrav.executions import Executions, golden_runs, largest_bin, steady_execution
from tracetool.measure.fingrav.guidance import Guidance, guidance, runs_wanted
from tracetool.measure.fingrav.stitch import Placed, Samples, place, rows_of
from tracetool.measure.fingrav.trend import Trend, fit_trend
from tracetool.vocabulary.arrays import Bools, Floats, Ints
from tracetool.vocabulary.errors import BadInput

#: Relative change of power below which it is steady.
POWER_TOLERANCE = 0.02
#: Time constants tried for power settling, in executions.
_SETTLE = (1.5, 5.0, 15.0, 50.0)
#: Samples from which on several time constants of settling are told apart.
_MANY = 60


@dataclass(frozen=True)
class Curve:
    """One profile: power over the course of an execution."""

    component: str  # "total" or a part the logger tells
    kind: str  # "sse", "ssp" or "outlier"
    phase: Floats  # (g,) 0 to 1
    power_w: Floats  # (g,) spline
    low_w: Floats
    high_w: Floats
    polynomial_w: Floats  # (g,) degree 4
    mean_w: float
    mean_low_w: float
    mean_high_w: float
    samples: int  # of interest
    sample_phase: Floats  # (s,) where they lie
    sample_w: Floats  # (s,)


@dataclass(frozen=True)
class RunTrend:
    """Power over a whole run."""

    time_s: Floats  # (g,) since the run's first execution [s]
    power_w: Floats  # (g,) degree 4
    low_w: Floats
    high_w: Floats
    sample_time_s: Floats
    sample_w: Floats


@dataclass(frozen=True)
class FineProfile:
    """Everything told of one kernel."""

    duration_s: float  # median golden execution at SSE
    guide: Guidance
    runs: int
    golden: Bools  # (runs,)
    sse: int  # position of the steady execution, 0 first
    ssp: int  # position from which power is steady
    ssp_reached: bool
    settled: Floats  # (positions,) power above its steady mean, at and after SSE; 0 before [W]
    further_runs: int
    curves: tuple[Curve, ...]
    run_trend: RunTrend
    outlier_share: float  # share of executions after warm-up outside the golden bin

    def curve(self, kind: str, component: str = "total") -> Curve:
        """Return one profile; KeyError where there is none."""
        for found in self.curves:
            if found.kind == kind and found.component == component:
                return found
        raise KeyError((kind, component))


def _settling(position: Ints, sse: int, last: int, simple: bool) -> Floats:
    """Columns of power settling after SSE. Shape (n, q)."""
    room = max(last - sse, 1)
    constants = [c for c in _SETTLE if c <= room / 2.0]
    if not constants or constants[-1] < room / 2.5:  # short runs: something as slow as they are long
        constants.append(float(room))
    if simple:  # one time constant, a third of the way
        constants = [room / 3.0]
    away = np.maximum(position - sse, 0)
    return np.stack([np.exp(-away / c) for c in constants], axis=1)


def fine_profile(
    executions: Executions, samples: Samples, *, margin: float | None = None, grid: int = 51, seed: int = 0
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
    grid : int
        Points of the curves.
    seed : int
        Of the resampling behind the bands.

    Notes
    -----
    The nine steps of FinGraV: golden runs by execution-time binning, samples and times of interest,
    stitching, regression. The course is fitted with power settling from steady execution (SSE) to
    steady power (SSP) as a further term, so that every golden sample after SSE counts; averaging
    samplers are deconvolved by integrating the course over each sample's window.

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
    seen = _Seen(executions, samples, place(samples, executions), inside, sse, last, grid, seed)
    fitted = _fit(seen)
    settled, ssp, reached = _steady_power(fitted["total"], sse, last)
    curves: list[Curve] = []
    for component, fit in fitted.items():
        for kind, position in (("sse", sse), ("ssp", ssp)):
            curves.append(_curve(seen, fit, component=component, kind=kind, position=position))
    outliers = (executions.position >= sse) & ~inside
    told = _outliers(seen, outliers)
    if told is not None:
        curves.append(told)
    own = next(c for c in curves if c.kind == "sse")
    share = float(golden.mean())
    return FineProfile(
        float(np.median(executions.duration_s[inside])) if inside.any() else typical,
        guide,
        executions.runs,
        golden,
        sse,
        ssp,
        reached,
        settled,
        runs_wanted(guide.samples - own.samples, typical, samples.period_s, share),
        tuple(curves),
        _run_trend(seen, golden),
        float(outliers.sum() / max((executions.position >= sse).sum(), 1)),
    )


@dataclass(frozen=True)
class _Seen:
    executions: Executions
    samples: Samples
    placed: Placed
    inside: Bools  # (e,) executions of the golden bin, SSE and after
    sse: int
    last: int
    grid: int
    seed: int


@dataclass(frozen=True)
class _Fit:
    spline: Trend
    straight: Trend
    settling: Floats  # (last + 1, q)
    copies: Floats  # (b, q) resampled amplitudes of settling


def _bases(seen: _Seen, used: int) -> tuple[Basis, Basis]:
    """Curves as fine as the samples allow: each averaged sample holds little of one execution's course."""
    length = float(np.median(seen.executions.duration_s[seen.inside]))
    worth = used / max(1.0, seen.samples.window_s / length)
    pieces = int(min(10, worth / 6.0))
    if pieces < 1:
        return polynomial(0), polynomial(0)
    return spline(pieces), polynomial(4 if worth >= 12 else 1)


def _fit(seen: _Seen) -> dict[str, _Fit]:
    executions, samples, placed, inside = seen.executions, seen.samples, seen.placed, seen.inside
    sse, last, seed = seen.sse, seen.last, seen.seed
    count = len(samples.time_s)
    good = inside[placed.execution]
    share = np.bincount(placed.sample, placed.share * good, minlength=count)
    used = share > (0.999 if samples.window_s <= 0 else 0.2)
    if used.sum() < 5:
        raise BadInput(
            f"only {int(used.sum())} samples meet an execution of the golden bin",
            "log more runs, or check that trace and log are of one clock",
        )
    kept = Placed(*(getattr(placed, f)[good] for f in ("sample", "execution", "begin", "end", "share")))
    simple = int(used.sum()) < _MANY
    settle = _settling(executions.position[kept.execution], sse, last, simple) * kept.share[:, None]
    beside = np.zeros((count, settle.shape[1]))
    np.add.at(beside, kept.sample, settle)
    if samples.window_s > 0:
        beside = np.hstack([beside, _besides(seen, used)])
    owner = np.zeros(count, dtype=np.int64)
    owner[kept.sample] = executions.run[kept.execution]
    grid = _settling(np.arange(last + 1), sse, last, simple)
    out = {}
    for component, power in samples.power_w.items():
        trends = []
        for basis in _bases(seen, int(used.sum())):
            rows = rows_of(kept, basis, count)
            trends.append(
                fit_trend(rows[used], power[used], owner[used], basis, beside=beside[used], seed=seed)
            )
        out[component] = _Fit(trends[0], trends[1], grid, trends[0].resampled_other[:, : grid.shape[1]])
    return out


def _besides(seen: _Seen, used: Bools) -> Floats:
    """What an averaging sampler saw besides: each warm-up execution, odd ones, pauses. Shape (n, q)."""
    executions, placed, sse, count = seen.executions, seen.placed, seen.sse, len(seen.samples.time_s)
    odd = ~seen.inside[placed.execution]
    position = np.minimum(executions.position[placed.execution], sse)
    spent = np.zeros((count, sse + 2))
    np.add.at(spent, (placed.sample[odd], position[odd]), placed.share[odd])
    whole = np.bincount(placed.sample, placed.share, minlength=count)
    spent[:, -1] = np.maximum(1.0 - whole, 0.0)
    return np.asarray(spent[:, spent[used].max(axis=0) > 1e-6])


def _steady_power(fit: _Fit, sse: int, last: int) -> tuple[Floats, int, bool]:
    """Excess of power at each position, where it is steady, and whether the runs got there."""
    amplitude = fit.spline.other[: fit.settling.shape[1]]
    excess = fit.settling @ amplitude
    excess[:sse] = 0.0
    mean = fit.spline.mean()[0]
    loose = np.flatnonzero(np.abs(excess[sse:]) > POWER_TOLERANCE * abs(mean))
    ssp = sse + int(loose[-1]) + 1 if len(loose) else sse
    return excess, min(ssp, last), ssp <= last


def _curve(seen: _Seen, fit: _Fit, *, component: str, kind: str, position: int) -> Curve:
    placed, samples, inside, sse = seen.placed, seen.samples, seen.inside, seen.sse
    phase = np.linspace(0.0, 1.0, seen.grid)
    here = fit.settling[position if kind == "sse" else -1]
    extra = float(here @ fit.spline.other[: len(here)])
    copies = fit.spline.resampled @ fit.spline.basis.at(phase).T + (fit.copies @ here)[:, None]
    low, high = np.percentile(copies, [5.0, 95.0], axis=0)
    whole = fit.spline.basis.integral(np.array([1.0]))[0]
    means = fit.spline.resampled @ whole + fit.copies @ here
    at = seen.executions.position[placed.execution]
    chosen = inside[placed.execution] & ((at == sse) if kind == "sse" else (at >= position))
    chosen &= placed.share > 0.5 if samples.window_s <= 0 else placed.share > 0
    return Curve(
        component,
        kind,
        phase,
        fit.spline.basis.at(phase) @ fit.spline.coefficients + extra,
        low,
        high,
        fit.straight.basis.at(phase) @ fit.straight.coefficients
        + float(here @ fit.straight.other[: len(here)]),
        float(whole @ fit.spline.coefficients) + extra,
        float(np.percentile(means, 5.0)),
        float(np.percentile(means, 95.0)),
        len(np.unique(placed.sample[chosen])),
        placed.end[chosen],
        samples.power_w[component][placed.sample[chosen]],
    )


def _outliers(seen: _Seen, outliers: Bools) -> Curve | None:
    """Profile of executions of unusual length; None where too few samples met one."""
    executions, samples, placed, seed = seen.executions, seen.samples, seen.placed, seen.seed
    chosen = outliers[placed.execution] & (placed.share > 0.5)
    if samples.window_s > 0 or chosen.sum() < 12:
        return None
    kept = Placed(*(getattr(placed, f)[chosen] for f in ("sample", "execution", "begin", "end", "share")))
    basis: Basis = polynomial(2)
    power = samples.power_w["total"][kept.sample]
    trend = fit_trend(basis.at(kept.end), power, executions.run[kept.execution], basis, seed=seed)
    phase = np.linspace(0.0, 1.0, seen.grid)
    mid, low, high = trend.at(phase)
    mean, mean_low, mean_high = trend.mean()
    return Curve(
        "total", "outlier", phase, mid, low, high, mid, mean, mean_low, mean_high, len(power), kept.end, power
    )


def _run_trend(seen: _Seen, golden: Bools) -> RunTrend:
    """Power over the time of a run: the degree-4 trend of FinGraV's figures."""
    executions, samples, grid, seed = seen.executions, seen.samples, seen.grid, seen.seed
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
    within &= since <= length
    power = samples.power_w["total"]
    if within.sum() < 8:
        none = np.zeros(0)
        return RunTrend(none, none, none, none, since[within], power[within])
    basis = polynomial()
    trend = fit_trend(basis.at(since[within] / length), power[within], owner[within], basis, seed=seed)
    phase = np.linspace(0.0, 1.0, grid)
    mid, low, high = trend.at(phase)
    return RunTrend(phase * length, mid, low, high, since[within], power[within])
