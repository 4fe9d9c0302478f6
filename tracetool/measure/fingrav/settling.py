"""A kernel's power profile with power settling from steady execution to steady power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.core.number_text import counted
from tracetool.measure.fingrav.averaged import Windows
from tracetool.measure.fingrav.basis import Basis, polynomial, spline
from tracetool.measure.fingrav.curves import Curve
from tracetool.measure.fingrav.deconvolve import Deconvolution, deconvolve
from tracetool.measure.fingrav.executions import Executions
from tracetool.measure.fingrav.stitch import Placed, Samples, rows_of
from tracetool.measure.fingrav.trend import Trend, fit_trend

#: Relative change of power below which it is steady.
POWER_TOLERANCE = 0.02
#: Time constants tried for power settling, in executions.
_SETTLE = (1.5, 5.0, 15.0, 50.0)
#: Samples a profile needs; of an averaging sampler those that hold this much of golden executions.
_FEWEST, _HELD = 5, 0.2
#: Power where an execution begins and ends, which no sample shows, differs from that beside it by this
#: share. [1] A prior: kernels fill the GPU and drain it there.
_EDGE_SD = 0.05
#: Samples from which on several time constants of settling are fitted.
_MANY = 60


def _constants(sse: int, last: int, simple: bool) -> tuple[float, ...]:
    """Time constants of settling, in executions, that runs of this length can show."""
    longest = max(last - sse, 1)
    constants = [c for c in _SETTLE if c <= longest / 2.0]
    if not constants or constants[-1] < longest / 2.5:  # short runs: something as slow as they are long
        constants.append(float(longest))
    if simple:  # one time constant, a third of the way
        constants = [longest / 3.0]
    return tuple(constants)


def _settling(position: Ints, sse: int, constants: tuple[float, ...]) -> Floats:
    """Columns of power settling after SSE. Shape (n, q)."""
    away = np.maximum(position - sse, 0)
    return np.stack([np.exp(-away / c) for c in constants], axis=1)


@dataclass(frozen=True)
class GoldenSamples:
    """Input of a fit: executions, which are golden, and the samples placed in them."""

    executions: Executions
    samples: Samples
    placed: Placed
    inside: Bools  # (e,) executions of the golden bin, SSE and after
    sse: int
    last: int
    grid: int
    seed: int


@dataclass(frozen=True)
class Fit:
    """One component's power profile, with power settling beside it."""

    spline: Trend
    straight: Trend
    settling: Floats  # (last + 1, q)
    copies: Floats  # (b, q) resampled amplitudes of settling
    deconvolution: Deconvolution | None = (
        None  # of an averaging sampler: the profile grows with the power then
    )
    windows: Windows | None = None  # what it saw


def _bases(used: int) -> tuple[Basis, Basis]:
    """Curves as fine as the samples allow."""
    pieces = int(min(10, used / 6.0))
    if pieces < 1:
        return polynomial(0), polynomial(0)
    return spline(pieces), polynomial(4 if used >= 12 else 1)


def fit_settling(golden_samples: GoldenSamples) -> dict[str, Fit]:
    """Return each component's power profile with settling, from all golden samples.

    Raises
    ------
    BadInput
        If fewer than five samples overlap a golden execution.
    """
    if golden_samples.samples.window_s > 0:
        return _averaged(golden_samples)
    executions, samples, placed, inside = (
        golden_samples.executions,
        golden_samples.samples,
        golden_samples.placed,
        golden_samples.inside,
    )
    sse, last, seed = golden_samples.sse, golden_samples.last, golden_samples.seed
    count = len(samples.time_s)
    good = inside[placed.execution]
    used = np.bincount(placed.sample, placed.share * good, minlength=count) > 0.999
    if used.sum() < _FEWEST:
        raise BadInput(
            f"only {counted(int(used.sum()), 'sample')} within an execution of the golden bin",
            "log more runs, or check that trace and log are of one clock",
        )
    golden_pairs = Placed(
        *(getattr(placed, f)[good] for f in ("sample", "execution", "begin", "end", "share"))
    )
    constants = _constants(sse, last, int(used.sum()) < _MANY)
    owner = np.zeros(count, dtype=np.int64)
    owner[golden_pairs.sample] = executions.run[golden_pairs.execution]
    settle = _settling(executions.position[golden_pairs.execution], sse, constants)
    beside = np.zeros((count, settle.shape[1]))
    np.add.at(beside, golden_pairs.sample, settle * golden_pairs.share[:, None])
    rows = [(basis, rows_of(golden_pairs, basis, count)[used]) for basis in _bases(int(used.sum()))]
    grid = _settling(np.arange(last + 1), sse, constants)
    out = {}
    for component, power in samples.power_w.items():
        curve, straight = (
            fit_trend(sample_means, power[used], owner[used], basis, beside=beside[used], seed=seed)
            for basis, sample_means in rows
        )
        out[component] = Fit(curve, straight, grid, curve.resampled_other)
    return out


def _averaged(golden_samples: GoldenSamples) -> dict[str, Fit]:
    """Each component's power profile from an averaging sampler; the logged parts help identify the total."""
    windows = Windows.of(
        golden_samples.executions,
        golden_samples.samples,
        golden_samples.inside,
        golden_samples.sse,
        golden_samples.last,
    )
    share = windows.share(windows.inside.astype(np.float64))
    if (share > _HELD).sum() < _FEWEST:
        most = float(share.max(initial=0.0))
        length = f"{golden_samples.samples.window_s * 1e3:.4g} ms"
        raise BadInput(
            f"windows of {length} hold {most:.0%} of golden executions at most: no profile",
            "run the kernel alone, back to back, for longer than a window; check both clocks",
        )
    power = windows.samples.power_w
    components = [
        name for name in power if name != "total" and power[name].any()
    ]  # one of 0 W has no profile
    components_w = np.sum([power[name] for name in components], axis=0) if components else None
    total_profile = deconvolve(windows, power["total"], components_w, seed=golden_samples.seed)
    grid = windows.settling(np.arange(golden_samples.last + 1))
    out = {"total": _as_fit(total_profile, grid, windows)}
    for name in components:
        averaged = deconvolve(
            windows, power[name], at=(total_profile.place_s, total_profile.width_s), seed=golden_samples.seed
        )
        out[name] = _as_fit(averaged, grid, windows)
    return {name: out[name] for name in power if name in out}


def _as_fit(deconvolution: Deconvolution, grid: Floats, windows: Windows) -> Fit:
    """A deconvolved profile as a fit: the spline, and the degree-4 polynomial closest to it."""
    k = deconvolution.basis.size
    mean = deconvolution.draws[:, [k]]
    copies = deconvolution.draws[:, :k] + mean
    settling = deconvolution.draws[:, k + 1 :]
    middle = deconvolution.departure_w + deconvolution.mean_w
    curve = Trend(deconvolution.basis, middle, copies, 1.0, deconvolution.settling_w, settling, 0.0)
    phase = np.linspace(0.0, 1.0, 101)
    close = polynomial(4)
    onto = np.linalg.pinv(close.at(phase)) @ deconvolution.basis.at(phase)
    straight = Trend(close, onto @ middle, copies @ onto.T, 0.0, deconvolution.settling_w, settling, 0.0)
    return Fit(curve, straight, grid, settling, deconvolution, windows)


def steady_power(fit: Fit, sse: int, last: int) -> tuple[Floats, int, bool]:
    """Excess of power at each position, where it is steady, and whether the runs got there."""
    excess = fit.settling @ fit.spline.other
    excess[:sse] = 0.0
    mean = fit.spline.mean()[0]
    loose = np.flatnonzero(np.abs(excess[sse:]) > POWER_TOLERANCE * abs(mean))
    ssp = sse + int(loose[-1]) + 1 if len(loose) else sse
    return excess, min(ssp, last), ssp <= last


def _edges_sd_w(golden_samples: GoldenSamples, fit: Fit, mean_w: float) -> float:
    """Return how far off the mean is for the edges of executions, where samples were left out. [W]

    They lie within two standard errors of their times from an edge; averaging samplers see edges too.
    """
    if fit.deconvolution is not None:
        return 0.0
    duration_s = float(np.median(golden_samples.executions.duration_s[golden_samples.inside]))
    unseen = min(2.0 * golden_samples.samples.error_s / duration_s, 0.5)  # at either end
    return _EDGE_SD * abs(mean_w) * unseen * float(np.sqrt(2.0))


def curve_at(golden_samples: GoldenSamples, fit: Fit, *, component: str, kind: str, position: int) -> Curve:
    """Return a component's profile at a position: the settled one plus its power above steady."""
    placed, samples, inside, sse = (
        golden_samples.placed,
        golden_samples.samples,
        golden_samples.inside,
        golden_samples.sse,
    )
    phase = np.linspace(0.0, 1.0, golden_samples.grid)
    settling = fit.settling[position if kind == "sse" else -1]
    full_integral = fit.spline.basis.integral(np.array([1.0]))[0]
    middle, steady = (
        fit.spline.basis.at(phase) @ fit.spline.coefficients,
        float(full_integral @ fit.spline.coefficients),
    )
    straight = fit.straight.basis.at(phase) @ fit.straight.coefficients
    copies, means = fit.spline.resampled @ fit.spline.basis.at(phase).T, fit.spline.resampled @ full_integral
    extra, more = float(settling @ fit.spline.other), fit.copies @ settling
    if fit.deconvolution is not None:
        middle, straight = middle * (1.0 + extra / steady), straight * (1.0 + extra / steady)
        copies = copies * (1.0 + more / means)[:, None]
    else:
        middle, straight, copies = middle + extra, straight + extra, copies + more[:, None]
    means = means + more
    mean_w, edges_w = steady + extra, Z90 * _edges_sd_w(golden_samples, fit, steady + extra)
    mean_low_w, mean_high_w = (float(q) for q in np.percentile(means, [5.0, 95.0]))
    low, high = np.percentile(copies, [5.0, 95.0], axis=0)
    at = golden_samples.executions.position[placed.execution]
    chosen = inside[placed.execution] & ((at == sse) if kind == "sse" else (at >= position))
    chosen &= placed.share > 0.5
    overlapping = len(np.unique(placed.sample[chosen]))
    if fit.windows is not None:
        where = fit.windows.executions.position
        at_position = fit.windows.inside & ((where == sse) if kind == "sse" else (where >= position))
        overlapping = int((fit.windows.share(at_position.astype(np.float64)) > 0).sum())
    return Curve(
        component,
        kind,
        phase,
        middle,
        low,
        high,
        straight,
        mean_w,
        mean_w - float(np.hypot(mean_w - mean_low_w, edges_w)),
        mean_w + float(np.hypot(mean_high_w - mean_w, edges_w)),
        overlapping,
        placed.end[chosen],
        samples.power_w[component][placed.sample[chosen]],
    )
