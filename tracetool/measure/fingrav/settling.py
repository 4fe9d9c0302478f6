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
#: Shortest time constant of power settling that is tried, the longest as a share of a run, in executions, and
#: how many: within 7 % of each other in runs of a hundred. Settings.
_SHORTEST, _LONGEST, _TRIED = 1.5, 0.6, 60
#: Samples a profile needs; of an averaging sampler those that hold this much of golden executions.
_FEWEST, _HELD = 5, 0.2
#: Power where an execution begins and ends, which no sample shows, differs from that beside it by this
#: share. [1] A prior: kernels fill the GPU and drain it there.
_EDGE_SD = 0.05
#: Samples from which on the time constant of settling is fitted, too.
_MANY = 60


def _settling(away: Floats, constant: float, *, slope: bool) -> Floats:
    """Return columns of power settling, ``away`` executions after SSE. Shape (n, q).

    With ``slope`` a second one for a constant that is a little off: the first's slope in its logarithm.
    """
    left = np.exp(-away / constant)
    return np.stack([left, away / constant * left] if slope else [left], axis=1)


def _likeliest(rows: Floats, power_w: Floats, away: Floats, longest: float) -> float:
    """Return the time constant of settling with the least squares beside a profile. [executions]"""
    within, _ = np.linalg.qr(rows)
    beyond = power_w - within @ (within.T @ power_w)
    tried = np.geomspace(_SHORTEST, max(_LONGEST * longest, 2.0 * _SHORTEST), _TRIED)
    left = np.exp(-away[:, None] / tried)
    left -= within @ (within.T @ left)
    explained = (beyond @ left) ** 2 / np.maximum((left**2).sum(axis=0), 1e-300)
    return float(tried[np.argmax(explained)])


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
    owner = np.zeros(count, dtype=np.int64)
    owner[golden_pairs.sample] = executions.run[golden_pairs.execution]
    away = np.zeros(count)
    away[golden_pairs.sample] = np.maximum(executions.position[golden_pairs.execution] - sse, 0)
    rows = [(basis, rows_of(golden_pairs, basis, count)[used]) for basis in _bases(int(used.sum()))]
    longest, many = float(max(last - sse, 1)), int(used.sum()) >= _MANY
    constant = longest / 3.0
    if many:
        constant = _likeliest(rows[0][1], samples.power_w["total"][used], away[used], longest)
    beside = _settling(away[used], constant, slope=many)
    grid = _settling(np.maximum(np.arange(last + 1.0) - sse, 0.0), constant, slope=many)
    out = {}
    for component, power in samples.power_w.items():
        curve, straight = (
            fit_trend(sample_means, power[used], owner[used], basis, beside=beside, seed=seed)
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
    places = np.arange(golden_samples.last + 1)
    out = {"total": _as_fit(total_profile, places)}
    for name in components:
        averaged = deconvolve(
            windows, power[name], at=(total_profile.place_s, total_profile.width_s), seed=golden_samples.seed
        )
        out[name] = _as_fit(averaged, places)
    return {name: out[name] for name in power if name in out}


def _as_fit(deconvolution: Deconvolution, places: Ints) -> Fit:
    """A deconvolved profile as a fit: the spline, and the degree-4 polynomial closest to it.

    ``places`` are the positions in a run.
    """
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
    grid = deconvolution.windows.settling(places)
    return Fit(curve, straight, grid, settling, deconvolution, deconvolution.windows)


def steady_power(fit: Fit, sse: int, last: int) -> tuple[Floats, int, bool]:
    """Excess of power at each position, where it is steady, and whether the runs got there."""
    excess = fit.settling @ fit.spline.other
    excess[:sse] = 0.0
    mean = fit.spline.mean()[0]
    loose = np.flatnonzero(np.abs(excess[sse:]) > POWER_TOLERANCE * abs(mean))
    ssp = sse + int(loose[-1]) + 1 if len(loose) else sse
    return excess, min(ssp, last), ssp <= last


def _edges_sd_w(golden_samples: GoldenSamples, fit: Fit, mean_w: float) -> float:
    """Return the standard deviation of a mean from the samples left out at the edges of executions. [W]

    They lie within two standard errors of their times from an edge; averaging samplers see edges too.
    """
    if fit.deconvolution is not None:
        return 0.0
    duration_s = float(np.median(golden_samples.executions.duration_s[golden_samples.inside]))
    unseen = min(2.0 * golden_samples.samples.error_s / duration_s, 0.5)  # at either end
    return _EDGE_SD * abs(mean_w) * unseen * float(np.sqrt(2.0))


def curve_at(golden_samples: GoldenSamples, fit: Fit, *, component: str, kind: str, position: int) -> Curve:
    """Return a component's profile at a position: the settled one plus its power above steady.

    Steady power (SSP) is that of a run's last execution; its mean's interval holds where it settles, too.
    """
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
    settled, means = means, means + more
    mean_w, edges_w = steady + extra, Z90 * _edges_sd_w(golden_samples, fit, steady + extra)
    ends = [means, means]
    if kind == "ssp" and abs(extra) <= POWER_TOLERANCE * abs(
        steady
    ):  # steady, and a little is left to settle
        ends = [np.minimum(means, settled), np.maximum(means, settled)]
    mean_low_w, mean_high_w = (float(np.percentile(end, q)) for end, q in zip(ends, (5.0, 95.0), strict=True))
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
