"""Whether log and trace share a clock, and whether the sensor's updates beat with the load."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.number_text import number
from tracetool.measure.align import coarse_offsets
from tracetool.measure.power_check.finding import Finding, LogCase, graded

#: Standard deviation of the busy share from which on readings determine an offset. [1] A prior.
_VARIES: Final = 0.05
#: Offset between clocks that is searched, at most. [s] A prior.
_REACH_S: Final = 60.0
#: Correlation that another offset must have, and by which it must exceed that of the stamps. [1] Priors.
_CLEAR, _BETTER = 0.5, 0.15
#: Independent readings that determine no offset. [1] A prior.
_LEAST = 4.0
#: Largest correlation that is distinguished from 1. [1] A prior.
_MOST_CORRELATION = 0.999
#: Standard deviations by which another offset must be better. [1] A prior: some tens of offsets are tried.
_DEVIATIONS = 3.0
#: Offset as a share of the trace, which assigns as much of its energy to the wrong work. [1] A prior.
_OFFSET: Final = 0.01
#: Drifts up to which the alignment of ``attribute`` follows, and beyond which a log is unusable. [1] Priors.
_DRIFT: Final = (2e-4, 5e-3)
#: Readings used, and offsets tried for a part of a log. [1] For speed.
_MOST_READINGS, _TRIED = 3000, 121
#: Error of integrated power by a beat, as a share of the energy. [1] Priors.
_BEAT: Final = (0.01, 0.5)
#: Phases of the updates against the load that are tried. [1] A prior.
_PHASES: Final = 24
#: Samples of the load from which its period is estimated. [1] For speed.
_SAMPLES: Final = 1 << 16


def _correlation(case: LogCase, offset_s: float) -> float:
    share, power_w = case.busy_share(offset_s), case.readings.power_w
    if np.std(share) < 1e-6 or np.std(power_w) < 1e-9:
        return 0.0
    return float(np.corrcoef(share, power_w)[0, 1])


def _at_stamps(case: LogCase) -> float:
    """Return the correlation of readings and work as they are stamped, the reading's delay left open. [1]"""
    return max(_correlation(case, d) for d in (0.0, 0.5 * case.spacing_s, case.spacing_s))


def follows(case: LogCase, better_than: LogCase | None = None) -> float:
    """Return how well readings follow the work [1]; 0 where that is not clear, or no better than another."""
    around = _covered(case)
    if len(around.readings) < 10 or np.std(around.busy_share()) < _VARIES:
        return 0.0
    own = _at_stamps(around)
    other = 0.0 if better_than is None else _at_stamps(_covered(better_than))
    clear = own >= _CLEAR and own >= other + _BETTER and _significant(around, own, max(other, 0.0))
    return own if clear else 0.0


def _stretch(case: LogCase, begin: int, end: int) -> LogCase:
    readings = case.readings
    stretch = replace(readings, time_s=readings.time_s[begin:end], power_w=readings.power_w[begin:end])
    return replace(case, readings=stretch)


def _covered(case: LogCase) -> LogCase:
    """Return the case with the readings around the work only, and not more than needed."""
    start_s, end_s = case.span_s
    inside = np.flatnonzero((case.readings.time_s > start_s - 5.0) & (case.readings.time_s < end_s + 5.0))
    if len(inside) < 2:
        return _stretch(case, 0, 0)
    return _stretch(case, int(inside[0]), int(inside[-1]) + 1)


def clock(case: LogCase) -> Finding:
    """Offset between the log's clock and the trace's."""
    if case.timeline is None:
        return Finding("clock", "good", "no trace beside the log")
    around = _covered(case)
    if len(around.readings) < 10 or np.std(around.busy_share()) < _VARIES:
        reason = "the load is steady: readings do not determine the offset, stamps are used as logged"
        return Finding("clock", "good", reason)
    at_zero = _at_stamps(around)
    places = coarse_offsets(around.readings, case.timeline, _REACH_S)
    offset_s, best = max(places, key=lambda place: place[1])
    best = max(best, _correlation(around, offset_s))
    rivals = [abs(o) <= 2.0 * case.spacing_s for o, _ in places]
    placed = _inside(case, offset_s) and _significant(around, best, at_zero)
    if best < _CLEAR or best < at_zero + _BETTER or any(rivals) or not placed:
        if _significant(around, -at_zero):
            reason = f"readings fall when work begins (correlation {at_zero:.2f}): the log of another GPU?"
            return Finding("clock", "unusable", reason, 0.0, "ms")
        return Finding("clock", "good", "log and trace share a clock", 0.0, "ms")
    start_s, end_s = case.span_s
    verdict = graded(abs(offset_s), 2.0 * case.spacing_s, max(_OFFSET * (end_s - start_s), 0.5))
    direction = "late" if offset_s > 0 else "early"
    reason = f"the log is {number(abs(offset_s))} s {direction} against the trace: correct its stamps"
    return Finding("clock", verdict, reason, 1e3 * offset_s, "ms")


def _inside(case: LogCase, offset_s: float) -> bool:
    """Return whether a log covers most of the work at an offset; its ends alone determine none."""
    start_s, end_s = case.span_s
    first_s, last_s = case.readings.time_s[0] - offset_s, case.readings.time_s[-1] - offset_s
    return bool(min(end_s, last_s) - max(start_s, first_s) >= 0.5 * (end_s - start_s))


def _significant(case: LogCase, more: float, less: float = 0.0) -> bool:
    """Whether a correlation exceeds another by more than so few readings do at random.

    Fisher's transform of a correlation of n readings deviates by 1 / sqrt(n - 3); readings whose windows
    overlap count by whole windows. A log of a dozen readings fits a load almost anywhere.
    """
    count = len(case.readings) * min(1.0, case.spacing_s / max(case.window_s, 1e-9))
    if count <= _LEAST:
        return False
    gain = np.diff(np.arctanh(np.clip([less, more], -_MOST_CORRELATION, _MOST_CORRELATION)))[0]
    return bool(gain > _DEVIATIONS * np.sqrt(2.0 / (count - 3.0)))


def _offset_of(case: LogCase, reach_s: float) -> tuple[float, float]:
    offsets = np.linspace(-reach_s, reach_s, _TRIED)
    scores = np.array([_correlation(case, float(o)) for o in offsets])
    at = int(np.argmax(scores))
    return float(offsets[at]), float(scores[at])


def drift(case: LogCase) -> Finding:
    """How much faster one clock runs than the other."""
    nothing = "no drift to be seen"
    if case.timeline is None:
        return Finding("drift", "good", "no trace beside the log")
    around = _covered(case)
    count = len(around.readings)
    if count < 60:
        return Finding("drift", "good", "too few readings to find a drift")
    third = min(count // 3, _MOST_READINGS)
    ends = [_stretch(around, 0, third), _stretch(around, count - third, count)]
    if any(np.std(end.busy_share()) < _VARIES for end in ends):
        return Finding("drift", "good", "the load is steady: readings do not determine a drift")
    length_s = float(ends[1].readings.time_s.mean() - ends[0].readings.time_s.mean())
    placed = [_offset_of(end, max(5.0 * case.spacing_s, 0.5)) for end in ends]
    moved_s = placed[1][0] - placed[0][0]
    per_s = moved_s / max(length_s, 1e-9)
    clear = all(score > _CLEAR for _, score in placed)
    gained = any(score > _correlation(end, 0.0) + 0.02 for (_, score), end in zip(placed, ends, strict=True))
    beyond = abs(moved_s) > 0.75 * case.spacing_s
    if not (clear and gained and beyond) or not _runs_through(around, placed, moved_s):
        return Finding("drift", "good", nothing, 0.0, "ppm")
    reason = f"clocks drift by {number(1e3 * abs(moved_s))} ms in {number(length_s)} s"
    return Finding("drift", graded(abs(per_s), *_DRIFT), reason, 1e6 * per_s, "ppm")


def _runs_through(around: LogCase, placed: list[tuple[float, float]], moved_s: float) -> bool:
    """Return whether a log's offset at its middle is between those at its ends, where it is clear.

    A trace that begins after the work or ends before it moves one end alone: profilers record some steps.
    """
    count = len(around.readings)
    middle = _stretch(around, count // 3, count - count // 3)
    if np.std(middle.busy_share()) < _VARIES:
        return True
    offset_s, score = _offset_of(middle, max(5.0 * around.spacing_s, 0.5))
    halfway_s = 0.5 * (placed[0][0] + placed[1][0])
    return score < _CLEAR or abs(offset_s - halfway_s) < 0.4 * abs(moved_s)


def load_period_s(case: LogCase) -> float:
    """Return the strongest period of the load; NaN where none dominates. [s]"""
    assert case.timeline is not None
    start_s, end_s = case.timeline.span_s
    edges = np.linspace(start_s, end_s, _SAMPLES + 1)
    busy = np.diff(case.timeline.busy(edges))
    spectrum = np.abs(np.fft.rfft(busy - busy.mean())) ** 2
    spectrum[:3] = 0.0  # fewer than three turns are no period
    if spectrum.sum() <= 0.0:
        return float("nan")
    at = int(np.argmax(spectrum))
    near = spectrum[max(at - 2, 0) : at + 3].sum()
    return (end_s - start_s) / at if near > 0.1 * spectrum.sum() else float("nan")


def beat(case: LogCase) -> Finding:
    """Error of integrated power where a part-time sensor samples a periodic load.

    The mean busy share that the sensor's windows see is compared over all places its updates may have
    against the load: in step with it they see the same part each time.
    """
    if case.timeline is None:
        return Finding("beat", "good", "no trace beside the log")
    seen_share = case.window_s / case.spacing_s
    if seen_share > 0.9:
        return Finding("beat", "good", "the sensor's windows leave no time out", 0.0, "%")
    around = _covered(case)
    if len(around.readings) < 4:
        return Finding("beat", "good", "too few readings to find a beat")
    start_s, end_s = case.span_s
    inside = (around.readings.time_s >= start_s + case.window_s) & (around.readings.time_s <= end_s)
    if inside.sum() < 4:
        return Finding("beat", "good", "too few readings to find a beat")
    around = replace(
        around,
        readings=replace(
            around.readings,
            time_s=around.readings.time_s[inside],
            power_w=around.readings.power_w[inside],
        ),
    )
    means: Floats = np.array(
        [float(around.busy_share(p).mean()) for p in np.arange(_PHASES) * case.spacing_s / _PHASES]
    )
    under_load, quiet = case.loaded()
    load_w = float(np.median(under_load)) if len(under_load) else 1.0
    idle_w = float(np.median(quiet)) if len(quiet) else 0.3 * load_w
    mean_w = idle_w + (load_w - idle_w) * float(means.mean())
    widening = 0.5 * float(np.ptp(means)) * max(load_w - idle_w, 0.0) / max(mean_w, 1e-9)
    verdict = graded(widening, *_BEAT)
    if verdict == "good":
        return Finding("beat", "good", "load and updates do not beat", 100.0 * widening, "%")
    period_s = load_period_s(case)
    load = (
        f"the load repeats every {number(1e3 * period_s)} ms" if np.isfinite(period_s) else "the load repeats"
    )
    reason = (
        f"{load}, in step with readings of {number(1e3 * case.window_s)} ms every"
        f" {number(1e3 * case.spacing_s)} ms: integrated power may err by up to {100 * widening:.0f} %"
    )
    return Finding("beat", verdict, reason, 100.0 * widening, "%")
