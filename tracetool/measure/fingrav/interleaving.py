"""A kernel among others: its power by context, and the history term that explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints, Texts
from tracetool.core.number_text import counted
from tracetool.measure.fingrav.executions import Executions
from tracetool.measure.fingrav.history import (
    LOOK_BACK_S,
    History,
    context_labels,
    fit_history_term,
    power_before,
)
from tracetool.measure.fingrav.stitch import Placed, Samples, place

#: Contexts in the order of the output.
CONTEXTS = ("isolated", "after-alike", "after-heavy", "after-light")
#: Other kernels kept apart from the profiled one; the rest counts as one.
_OTHERS = 12
#: Fewest samples that a context's power or the history needs.
_FEW, _ENOUGH = 8, 24
#: Pairs of sample and activity looked at.
_MOST_PAIRS = 1_500_000
#: Stretches resampled, at least, where a campaign has fewer runs.
_STRETCHES = 24
_RESAMPLES = 200
_TAIL = 5.0


@dataclass(frozen=True)
class Activities:
    """Everything that ran on the kernel's device, on the clock of the samples, sorted by start."""

    start_s: Floats  # (a,)
    end_s: Floats  # (a,)
    label: Ints  # (a,) class; 0 is the profiled kernel
    names: tuple[str, ...]  # of the classes


@dataclass(frozen=True)
class ContextPower:
    """Mean power of a kernel's executions in one context."""

    context: str
    executions: int
    samples: int  # that saw them
    mean_w: float  # NaN where not identifiable
    low_w: float
    high_w: float


@dataclass(frozen=True)
class Interleaving:
    """Power of a kernel among others: by context, and its history term."""

    contexts: tuple[ContextPower, ...]
    history: History | None
    reason: str  # why there is no history term, else empty


def interleaving(activities: Activities, samples: Samples, *, seed: int = 0) -> Interleaving | None:
    """Return a kernel's power by context and its history term; None where it ran among no others.

    Parameters
    ----------
    activities : Activities
        All of the device; class 0 is the kernel.
    samples : Samples
        On the same clock.
    seed : int
        Of the resampling behind the intervals.

    Notes
    -----
    Every sample is a sum over what its window saw: the kernel in each context, each other kernel,
    idle times. Powers solve these equations, so that averaging samplers count too; runs, or stretches of
    a campaign with few of them, are resampled for 90 % intervals.
    """
    grouped = _fewer_classes(activities)
    of_kernel = grouped.label == 0
    if not of_kernel.any() or of_kernel.all():
        return None
    placed, power, run = _samples_near(grouped, samples)
    if len(power) < _ENOUGH:
        return Interleaving((), None, f"only {counted(len(power), 'sample')} in the kernel or its neighbors")
    classes = int(grouped.label.max()) + 1
    level = _solved(_shares(placed, grouped.label, classes, len(power)), power)[:classes]
    contexts_by_launch = context_labels(grouped.start_s, grouped.end_s, level[grouped.label])
    if not np.isin(contexts_by_launch[of_kernel], ("after-heavy", "after-light")).any():
        return None
    contexts = _contexts(grouped, contexts_by_launch, (placed, power, run), seed)
    history, reason, level = _history(grouped, contexts_by_launch, level, (placed, power, run))
    if history is not None:  # again: the excess is over the kernel's own power rather than its mean
        history, reason, _ = _history(grouped, contexts_by_launch, level, (placed, power, run))
    return Interleaving(contexts, history, reason)


def _fewer_classes(activities: Activities) -> Activities:
    """Keep the classes with most time, and merge the rest into one."""
    length = np.bincount(activities.label, activities.end_s - activities.start_s)
    order = 1 + np.argsort(-length[1:], kind="stable")
    number = np.full(len(length), min(_OTHERS, len(order)), dtype=np.int64)
    number[0] = 0
    number[order[: _OTHERS - 1]] = 1 + np.arange(len(order[: _OTHERS - 1]))
    return replace(activities, label=number[activities.label])


def _samples_near(activities: Activities, samples: Samples) -> tuple[Placed, Floats, Ints]:
    """Return the samples near the kernel, their power and the stretch each belongs to."""
    low = np.searchsorted(activities.end_s, samples.time_s - samples.window_s)
    high = np.searchsorted(activities.start_s, samples.time_s)
    of_kernel = np.concatenate([[0], np.cumsum(activities.label == 0)])
    near = np.searchsorted(activities.end_s, samples.time_s - samples.window_s - LOOK_BACK_S)
    after = np.searchsorted(activities.start_s, samples.time_s + LOOK_BACK_S)
    overlapping = np.flatnonzero(of_kernel[after] > of_kernel[np.minimum(near, after)])
    pairs = int(np.maximum(high - low, 0)[overlapping].sum())
    step = max(1, -(-pairs // _MOST_PAIRS))
    chosen = overlapping[::step]
    chosen_samples = replace(samples, time_s=samples.time_s[chosen], power_w={})
    none = np.zeros(len(activities.start_s), dtype=np.int64)
    placed = place(chosen_samples, Executions(none, none, activities.start_s, activities.end_s))
    time = samples.time_s[chosen]
    late = np.diff(time, prepend=time[:1]) > max(20.0 * samples.period_s * step, 2 * LOOK_BACK_S)
    run: Ints = np.cumsum(late, dtype=np.int64)
    if len(run) and run[-1] + 1 < _STRETCHES:
        run = (np.arange(len(time)) * _STRETCHES) // max(len(time), 1)
    return placed, samples.power_w["total"][chosen], run


def _shares(placed: Placed, label: Ints, classes: int, count: int) -> Floats:
    """Return the part of each sample in each class, then in none. Shape (count, classes + 1)."""
    cell = placed.sample * classes + label[placed.execution]
    out = np.bincount(cell, placed.share, minlength=count * classes).reshape(count, classes)
    return np.column_stack([out, np.maximum(1.0 - out.sum(axis=1), 0.0)])


def _solved(rows: Floats, power: Floats) -> Floats:
    """Powers by least squares, weakly tied to the mean of all samples."""
    gram = rows.T @ rows
    tie = 1e-4 * max(float(np.trace(gram)) / len(gram), 1e-12)
    return np.asarray(np.linalg.solve(gram + tie * np.eye(len(gram)), rows.T @ power + tie * power.mean()))


def _contexts(
    activities: Activities, contexts_by_launch: Texts, sampled: tuple[Placed, Floats, Ints], seed: int
) -> tuple[ContextPower, ...]:
    placed, power, run = sampled
    of_kernel = activities.label == 0
    count = len(CONTEXTS)
    label = activities.label + count - 1
    for i, context in enumerate(CONTEXTS):
        label[of_kernel & (contexts_by_launch == context)] = i
    rows = _shares(placed, label, int(label.max()) + 1, len(power))
    if (
        not placed.share.size or (placed.end <= placed.begin).all()
    ):  # instantaneous: what else ran is not in it
        keep = rows[:, :count].sum(axis=1) > 0
        rows, power, run = rows[keep], power[keep], run[keep]
    powers_w = _solved(rows, power)
    _, owner = np.unique(run, return_inverse=True)
    runs, size = int(owner.max(initial=0)) + 1, rows.shape[1]
    grams, sides = np.zeros((runs, size, size)), np.zeros((runs, size))
    for r in range(runs):
        run_rows = rows[owner == r]
        grams[r], sides[r] = run_rows.T @ run_rows, run_rows.T @ power[owner == r]
    draw = np.random.default_rng(seed).multinomial(runs, np.full(runs, 1.0 / runs), _RESAMPLES)
    many = np.tensordot(draw, grams, axes=1)
    tie = 1e-4 * max(float(np.trace(grams.sum(axis=0))) / size, 1e-12)
    right = draw @ sides + tie * power.mean()
    copies = np.linalg.solve(many + tie * np.eye(size), right[:, :, None])[:, :, 0]
    spread = np.percentile(copies[:, :count], [_TAIL, 100.0 - _TAIL], axis=0)
    strength = np.diag(grams.sum(axis=0))
    out = []
    for i, context in enumerate(CONTEXTS):
        executions = int((label == i).sum())
        if not executions:
            continue
        samples = int((rows[:, i] > 0).sum())
        # A tie as strong as the samples, or an interval as wide as the figure, is no measurement.
        width = float(spread[1, i] - spread[0, i])
        resolved = samples >= _FEW and strength[i] > 10 * tie and width < abs(float(powers_w[i]))
        mean, low, high = (
            (float(powers_w[i]), float(spread[0, i]), float(spread[1, i])) if resolved else (np.nan,) * 3
        )
        out.append(ContextPower(context, executions, samples, mean, low, high))
    return tuple(out)


def _history(
    activities: Activities, contexts_by_launch: Texts, level: Floats, sampled: tuple[Placed, Floats, Ints]
) -> tuple[History | None, str, Floats]:
    """Fit the decay of predecessors' power over each unbroken row of the kernel; return updated powers."""
    placed, power, run = sampled
    of_kernel = activities.label == 0
    pause = np.diff(activities.start_s, prepend=-np.inf)
    pause[1:] = activities.start_s[1:] - np.maximum.accumulate(activities.end_s)[:-1]
    opens = of_kernel & (np.concatenate([[True], ~of_kernel[:-1]]) | (pause > LOOK_BACK_S))
    first = np.maximum.accumulate(np.where(opens, np.arange(len(of_kernel)), 0))
    before, _ = power_before(activities.start_s, activities.end_s, level[activities.label])
    after_other = of_kernel & (contexts_by_launch[first] != "isolated")
    excess = np.where(after_other, before[first] - level[0], 0.0)
    at = placed.execution
    after_others = after_other[at]
    if len(np.unique(placed.sample[after_others])) < _ENOUGH:
        return None, f"fewer than {_ENOUGH} samples saw the kernel after others", level
    # Columns: the kernel after others, the kernel after nothing, each other kernel, idle times.
    label = np.where(after_other, 0, np.where(of_kernel, 1, activities.label + 1)).astype(np.int64)
    fixed = _shares(placed, label, int(label.max()) + 1, len(power))
    used_samples = fixed[:, 0] > 0.02
    filled = np.flatnonzero(fixed[used_samples].sum(axis=0) > 0)
    fixed = fixed[used_samples][:, filled]
    row = np.cumsum(used_samples) - 1
    pick = after_others & used_samples[placed.sample]
    sample, which = row[placed.sample[pick]], at[pick]
    start, length = activities.start_s[which], activities.end_s[which] - activities.start_s[which]
    away = start - activities.start_s[first[which]]
    begin, end = away + placed.begin[pick] * length, away + placed.end[pick] * length
    lead = placed.share[pick] * excess[which]
    count = int(used_samples.sum())

    def excess_at(memory: float) -> Floats:
        return np.asarray(np.bincount(sample, lead * _faded(begin, end, memory), minlength=count))

    fitted, powers = fit_history_term(excess_at, fixed, power[used_samples], run[used_samples])
    anew = level.copy()
    other_kernels = (filled > 1) & (filled <= len(level))  # column 1 is the kernel after nothing
    anew[0] = powers[0]
    anew[filled[other_kernels] - 1] = powers[other_kernels]
    return fitted, "", anew


def _faded(begin: Floats, end: Floats, memory: float) -> Floats:
    """Mean of a fading exponential from begin to end, times since it started. [1]"""
    width = (end - begin) / memory
    mean = -np.expm1(-width) / np.where(width > 0, width, 1.0)
    return np.asarray(np.exp(-begin / memory) * np.where(width > 1e-9, mean, 1.0))
