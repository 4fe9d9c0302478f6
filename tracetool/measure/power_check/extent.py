"""Extent of a log against the trace: coverage, gaps, polling, energy outside."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.number_text import counted, number
from tracetool.measure.power_check.finding import Finding, LogCase, graded

#: Share of the work's time without a log: energies of the run are then short by as much. [1] From 1 % on it
#: is more than a sensor's drift; beyond a half most of the run is not measured.
UNCOVERED: Final = (0.01, 0.5)
#: Share of the time lost in gaps. [1] Levels on either side bridge a few per cent.
_LOST: Final = (0.005, 0.25)
#: A step between readings this many times the usual one is a gap. [1]
_GAP_STEPS: Final = 3.0
#: Readings that see the trace, by up to a window after it: fewer than the first give little more than a mean,
#: fewer than the second not even that. [1] Prior.
_FEW, _TOO_FEW = 30, 4
#: Polls this much slower than the updates miss some. [1]
_SLOW: Final = 1.25
#: Work beyond the trace shows as power above this part of the way from idle to load, for this long. [1], [s]
_HIGH, _HIGH_S = 0.5, 1.0


def coverage(case: LogCase) -> Finding:
    """Share of the work's time that the log covers."""
    if case.timeline is None:
        return Finding("coverage", "good", "no trace was given with the log")
    start_s, end_s = case.log.time_s[0] - case.spacing_s, case.log.time_s[-1] + case.spacing_s
    begin, end = case.timeline.busy(np.array([start_s, end_s]))
    whole_s = float(case.timeline.busy.value_s[-1])
    share = float(end - begin) / max(whole_s, 1e-12)
    verdict = graded(1.0 - share, *UNCOVERED)
    if share <= 0.0:
        shift_s = case.log.time_s[0] - case.timeline.span_s[0]
        hours = round(shift_s / 900.0) / 4.0
        zone = (
            f": the time zone is {abs(hours):g} h too far {'west' if hours > 0 else 'east'}? give --tz"
            if hours and abs(hours) <= 14
            else ""
        )
        order = "after" if shift_s > 0 else "before"
        reason = (
            f"log and trace do not overlap (the log begins {abs(shift_s):,.0f} s {order} the trace){zone}"
        )
    elif verdict == "good":
        reason = "the log covers the trace"
    else:
        reason = f"the log covers {100 * share:.1f} % of the time in which anything ran"
    return Finding("coverage", verdict, reason, 100.0 * share, "%")


def gaps(case: LogCase) -> Finding:
    """Share of the covered time in gaps between readings."""
    start_s, end_s = case.span_s
    time_s = case.log.time_s
    steps = np.diff(time_s)
    inside = (time_s[1:] > start_s) & (time_s[:-1] < end_s) & (steps > 0)
    steps = steps[inside]
    spacing_s = case.spacing_s
    limit_s = max(_GAP_STEPS * spacing_s, min(case.window_s, 1.5) + spacing_s)
    long = steps[steps > limit_s]
    covered_s = min(end_s, time_s[-1]) - max(start_s, time_s[0])
    lost = float((long - spacing_s).sum()) / max(covered_s, 1e-9)
    verdict = graded(lost, *_LOST)
    if not len(long):
        return Finding("gaps", "good", "no gaps between readings", 0.0, "%")
    reason = f"{counted(len(long), 'gap')}, the longest {number(float(long.max()))} s"
    return Finding("gaps", verdict, reason, 100.0 * lost, "%")


def polling(case: LogCase) -> Finding:
    """How often the log was polled against the sensor's updates, and how many readings that gave."""
    start_s, end_s = case.span_s
    time_s = case.readings.time_s[case.readings.time_s >= start_s]
    count = int((time_s <= end_s + case.window_s).sum())
    inside = int((time_s <= end_s).sum())
    verdict = graded(-count, -_FEW - 0.5, -_TOO_FEW - 0.5)
    if verdict != "good":
        where = "the trace" if case.timeline is not None else "the log"
        after = f" and {count - inside} after it whose windows reach into it" if count > inside else ""
        reason = f"{counted(inside, 'reading')} inside {where}{after}: log longer or faster"
        return Finding("polling", verdict, reason, count, "1")
    if case.spacing_s > _SLOW * case.sensor.update_s and case.spacing_s > _SLOW * case.window_s:
        return Finding(
            "polling",
            "usable",
            f"polled every {number(1e3 * case.spacing_s)} ms, but the sensor averages"
            f" {number(1e3 * case.window_s)} ms: the time between is not measured",
            1e3 * case.spacing_s,
            "ms",
        )
    reason = f"a reading every {number(1e3 * case.spacing_s)} ms"
    return Finding("polling", "good", reason, 1e3 * case.spacing_s, "ms")


def stamps(case: LogCase) -> Finding:
    """How finely the log stamps its lines."""
    time_ns = case.frame["time_ns"].to_numpy()
    steps = np.diff(np.sort(time_ns))
    steps = steps[steps > 0]
    if len(time_ns) < 10 or not len(steps):
        return Finding("stamps", "good", "too few lines to determine the resolution of their stamps")
    whole_seconds = bool((time_ns % 1_000_000_000 == 0).all())
    if whole_seconds and case.readings.update_s < 1.0:
        return Finding("stamps", "usable", "stamped in whole seconds: an error of up to 1 s", 1000.0, "ms")
    return Finding("stamps", "good", "stamped finely enough", float(steps.min()) / 1e6, "ms")


def outside(case: LogCase) -> Finding:
    """Energy before and after the trace, and whether something ran there."""
    if case.timeline is None:
        return Finding("outside", "good", "no trace beside the log")
    start_s, end_s = case.span_s
    time_s, power_w = case.log.time_s, case.log.power_w
    held_s = np.minimum(np.diff(time_s, append=time_s[-1] + case.spacing_s), 5.0 * case.spacing_s)
    joules = power_w * held_s
    beyond = (time_s < start_s - case.spacing_s) | (time_s > end_s + case.window_s + 1.0)
    share = float(joules[beyond].sum() / max(joules.sum(), 1e-9))
    under_load, quiet = case.loaded()
    if len(under_load) and len(quiet):
        idle_w, load_w = float(np.quantile(quiet, 0.1)), float(np.median(under_load))
        high = beyond & (power_w > idle_w + _HIGH * (load_w - idle_w))
        high_s = float(held_s[high].sum())
        if load_w > 1.2 * idle_w and high_s > _HIGH_S:
            reason = f"{number(high_s)} s at load outside the trace: work that the trace does not hold"
            return Finding("outside", "usable", reason, 100.0 * share, "%")
    reason = f"{100 * share:.0f} % of the log's energy lies outside the trace"
    return Finding("outside", "good", reason, 100.0 * share, "%")
