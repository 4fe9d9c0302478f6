"""A kernel's course with power settling from steady execution to steady power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.measure.fingrav.basis import Basis, polynomial, spline
from tracetool.measure.fingrav.curves import Curve
from tracetool.measure.fingrav.executions import Executions
from tracetool.measure.fingrav.stitch import Placed, Samples, rows_of
from tracetool.measure.fingrav.trend import Trend, fit_trend
from tracetool.vocabulary.arrays import Bools, Floats, Ints
from tracetool.vocabulary.errors import BadInput

#: Relative change of power below which it is steady.
POWER_TOLERANCE = 0.02
#: Time constants tried for power settling, in executions.
_SETTLE = (1.5, 5.0, 15.0, 50.0)
#: Samples from which on several time constants of settling are told apart.
_MANY = 60


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


@dataclass(frozen=True)
class Seen:
    """What a fit looks at: executions, which are golden, and the samples placed in them."""

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
    """One component's course, with power settling beside it."""

    spline: Trend
    straight: Trend
    settling: Floats  # (last + 1, q)
    copies: Floats  # (b, q) resampled amplitudes of settling


def _bases(seen: Seen, used: int) -> tuple[Basis, Basis]:
    """Curves as fine as the samples allow: each averaged sample holds little of one execution's course."""
    length = float(np.median(seen.executions.duration_s[seen.inside]))
    worth = used / max(1.0, seen.samples.window_s / length)
    pieces = int(min(10, worth / 6.0))
    if pieces < 1:
        return polynomial(0), polynomial(0)
    return spline(pieces), polynomial(4 if worth >= 12 else 1)


def fit_settling(seen: Seen) -> dict[str, Fit]:
    """Return each component's course with settling, from all golden samples.

    Raises
    ------
    BadInput
        If fewer than five samples meet a golden execution.
    """
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
        out[component] = Fit(trends[0], trends[1], grid, trends[0].resampled_other[:, : grid.shape[1]])
    return out


def _besides(seen: Seen, used: Bools) -> Floats:
    """What an averaging sampler saw besides: each warm-up execution, odd ones, pauses. Shape (n, q)."""
    executions, placed, sse, count = seen.executions, seen.placed, seen.sse, len(seen.samples.time_s)
    odd = ~seen.inside[placed.execution]
    position = np.minimum(executions.position[placed.execution], sse)
    spent = np.zeros((count, sse + 2))
    np.add.at(spent, (placed.sample[odd], position[odd]), placed.share[odd])
    whole = np.bincount(placed.sample, placed.share, minlength=count)
    spent[:, -1] = np.maximum(1.0 - whole, 0.0)
    return np.asarray(spent[:, spent[used].max(axis=0) > 1e-6])


def steady_power(fit: Fit, sse: int, last: int) -> tuple[Floats, int, bool]:
    """Excess of power at each position, where it is steady, and whether the runs got there."""
    amplitude = fit.spline.other[: fit.settling.shape[1]]
    excess = fit.settling @ amplitude
    excess[:sse] = 0.0
    mean = fit.spline.mean()[0]
    loose = np.flatnonzero(np.abs(excess[sse:]) > POWER_TOLERANCE * abs(mean))
    ssp = sse + int(loose[-1]) + 1 if len(loose) else sse
    return excess, min(ssp, last), ssp <= last


def curve_at(seen: Seen, fit: Fit, *, component: str, kind: str, position: int) -> Curve:
    """Return a component's profile as it is at a position: its course plus what power lies above steady."""
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
