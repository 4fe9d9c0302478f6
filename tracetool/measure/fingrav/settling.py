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
#: Second difference of a course from knot to knot that is nothing odd, relative to its mean: where an
#: averaging sampler hardly sees the course, samples alone would call it flat, and be sure of it.
_BEND = 0.05
#: Constants tried for an averaging sampler.
_TRIED = 12
#: Samples from which on several time constants of settling are told apart.
_MANY = 60


def _constants(sse: int, last: int, simple: bool) -> tuple[float, ...]:
    """Time constants of settling, in executions, that runs of this length can show."""
    room = max(last - sse, 1)
    constants = [c for c in _SETTLE if c <= room / 2.0]
    if not constants or constants[-1] < room / 2.5:  # short runs: something as slow as they are long
        constants.append(float(room))
    if simple:  # one time constant, a third of the way
        constants = [room / 3.0]
    return tuple(constants)


def _settling(position: Ints, sse: int, constants: tuple[float, ...], *, nudged: bool = False) -> Floats:
    """Columns of power settling after SSE, and how they answer to a longer constant. Shape (n, q)."""
    away = np.maximum(position - sse, 0)
    columns = [np.exp(-away / c) for c in constants]
    if nudged:
        columns += [away / c * np.exp(-away / c) for c in constants]
    return np.stack(columns, axis=1)


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
    constants = _constants(sse, last, int(used.sum()) < _MANY)
    owner = np.zeros(count, dtype=np.int64)
    owner[kept.sample] = executions.run[kept.execution]
    others = _besides(seen, used) if samples.window_s > 0 else np.zeros((count, 0))
    average = samples.window_s > 0
    # Executions of other levels run the same course: a sample that holds part of one sees that part.
    course = placed if average else kept
    spline_rows, straight_rows = (
        (basis, rows_of(course, basis, count)[used]) for basis in _bases(seen, int(used.sum()))
    )

    def fitted(power: Floats, rows: tuple[Basis, Floats], told: tuple[float, ...]) -> Trend:
        settle = _settling(executions.position[kept.execution], sse, told, nudged=average)
        beside = np.zeros((count, settle.shape[1]))
        np.add.at(beside, kept.sample, settle * kept.share[:, None])
        beside = np.hstack([beside, others])[used]
        bend = _BEND * float(np.median(power[used])) if average else 0.0
        return fit_trend(rows[1], power[used], owner[used], rows[0], beside=beside, bend_w=bend, seed=seed)

    if average:
        # An averaged sample holds little of any one execution: the one constant that explains them best.
        total = samples.power_w["total"]
        tried = np.geomspace(_SETTLE[0], max(0.5 * (last - sse), 2.0 * _SETTLE[0]), _TRIED)
        constants = min(((float(c),) for c in tried), key=lambda c: fitted(total, straight_rows, c).miss_w)
    grid = _settling(np.arange(last + 1), sse, constants, nudged=average)
    out = {}
    for component, power in samples.power_w.items():
        curve, straight = (fitted(power, rows, constants) for rows in (spline_rows, straight_rows))
        out[component] = Fit(curve, straight, grid, curve.resampled_other[:, : grid.shape[1]])
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
