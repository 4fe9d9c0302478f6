"""The share of kernels' time in which a log shows the clock lowered: by its reasons, or clocks and powers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.interval import ENDS
from tracetool.core.number_text import counted
from tracetool.measure.power_check.conditions import THROTTLE_REASONS, reason_bits
from tracetool.measure.timeline import Timeline

#: Median polling intervals between two readings beyond which the time between them counts as unknown. [1] A
#: prior.
_MAX_INTERVALS: Final = 5.0
#: Ratio to the highest clock under load below which a clock counts as lowered. [1] A prior: two clock steps
#: of a driver are less than 3 %.
_LOWERED: Final = 0.97
#: Share of the limit from which on power counts as being at it. [1] A prior: governors regulate one or two
#: per cent below it.
_AT_LIMIT: Final = 0.95
#: Exponent of a kernel's power over its clock where the voltage follows the clock. [1] A prior: frequency
#: times voltage squared would give 3 for dynamic power alone; static power lowers it.
_CLOCK_EXPONENT: Final = 2.0
#: Share of the time before a reading that activity must fill for its clock to be one of work. [1] A prior.
_FILLED: Final = 0.9
#: That time. [s] A prior.
_BEFORE_S: Final = 0.05
#: Share of a class's time that the log has to cover. [1] A prior.
_COVERED: Final = 0.5


@dataclass(frozen=True)
class ThrottleLog:
    """When one GPU's clock was lowered, reading by reading."""

    time_s: Floats  # (r,)
    lowered: Bools  # (r,)
    basis: str  # "reasons", or "clock and power"
    reasons: Mapping[str, float]  # share of the readings that name each

    def covered(self) -> Bools:
        """Return which times between two readings, shape (r - 1,), are short enough to be known."""
        step = np.diff(self.time_s)
        usual = float(np.median(step[step > 0])) if (step > 0).any() else 0.0
        return np.asarray(step <= _MAX_INTERVALS * usual)

    def spans(self) -> tuple[Ints, Ints]:
        """Return spans with a lowered clock: places of the first reading of each, and of the one it ends at.

        A span ends at the first reading that is not lowered; at its own last one where the log ends or is
        silent after that.

        Examples
        --------
        >>> lowered = np.array([False, True, True, False, True, True])
        >>> ThrottleLog(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 30.0]), lowered, "reasons", {}).spans()
        (array([1]), array([3]))
        """
        steps = np.flatnonzero(self.lowered[:-1] & self.covered())
        first = np.flatnonzero(np.diff(steps, prepend=-2) > 1)
        last = np.append(first[1:], len(steps)) - 1
        return steps[first], steps[last[: len(first)]] + 1


@dataclass(frozen=True)
class ThrottledTime:
    """Share of the time of k classes in which the clock was lowered; NaN where the log does not cover it."""

    share: Floats  # (k,)
    low: Floats  # (k,) where both readings about a moment show it
    high: Floats  # (k,) where either does


def throttle_log(telemetry: pl.DataFrame, device: int, origin_ns: int, limit_w: float) -> ThrottleLog | None:
    """Return the throttling that a log states of a GPU; None where it states none.

    Parameters
    ----------
    telemetry : DataFrame
        The ``telemetry`` table.
    device : int
        GPU of the log.
    origin_ns : int
        What times count from. [ns]
    limit_w : float
        Power limit of the GPU where the log names none; NaN where it is not known. [W]

    Notes
    -----
    Reasons are bits of NVML's clocks event reasons: power cap, hardware and thermal slowdown, power brake.
    Without them a clock is taken to be lowered where it is below the highest one of the log while the power
    is at the limit.
    """
    rows = telemetry.filter(pl.col("device").eq_missing(pl.lit(device)))
    with_reasons = _first_of_each_moment(rows.filter(pl.col("throttle_reasons").is_not_null()))
    if with_reasons.height > 1:
        bits = _bits(with_reasons["throttle_reasons"])
        shares = {
            name: float(np.mean(bits & bit != 0))
            for bit, name in THROTTLE_REASONS.items()
            if (bits & bit).any()
        }
        lowered = (bits & sum(THROTTLE_REASONS)) != 0
        return ThrottleLog(_seconds(with_reasons, origin_ns), lowered, "reasons", shares)
    clocked = _first_of_each_moment(rows.filter((pl.col("clock_mhz") > 0) & (pl.col("power_w") > 0)))
    logged = rows["power_limit_w"].drop_nulls()
    limit = float(np.median(logged.to_numpy())) if len(logged) else limit_w
    if clocked.height < 2 or not np.isfinite(limit):
        return None
    clock, power = clocked["clock_mhz"].to_numpy(), clocked["power_w"].to_numpy()
    throttled = (clock < _LOWERED * clock.max()) & (power >= _AT_LIMIT * limit)
    return ThrottleLog(
        _seconds(clocked, origin_ns), throttled, "clock and power", {"power cap": float(throttled.mean())}
    )


def moved_by_clock(telemetry: pl.DataFrame, device: int, origin_ns: int, timeline: Timeline) -> float:
    """Return by what share the power of work moved with the GPU's clock, as a deviation of its median. [1]

    Parameters
    ----------
    telemetry : DataFrame
        The ``telemetry`` table; 0 where it logs no clock.
    device : int
        GPU of the log.
    origin_ns : int
        What times count from. [ns]
    timeline : Timeline
        Activity on the log's clock: clocks of moments before which it filled the time count.
    """
    rows = _first_of_each_moment(
        telemetry.filter(pl.col("device").eq_missing(pl.lit(device)) & (pl.col("clock_mhz") > 0))
    )
    if not rows.height:
        return 0.0
    time = _seconds(rows, origin_ns)
    at_work = timeline.busy(time) - timeline.busy(time - _BEFORE_S) > _FILLED * _BEFORE_S
    if at_work.sum() < 2:
        return 0.0
    clock = np.log(rows["clock_mhz"].to_numpy()[at_work])
    return _CLOCK_EXPONENT * 1.4826 * float(np.median(np.abs(clock - np.median(clock))))


def throttled_time(log: ThrottleLog, timeline: Timeline) -> ThrottledTime:
    """Return the throttled share of each class of a timeline on the log's clock.

    Examples
    --------
    >>> from tracetool.measure.timeline import build_timeline
    >>> log = ThrottleLog(np.arange(5.0), np.array([False, False, True, True, True]), "reasons", {})
    >>> work = build_timeline(np.array([0.0, 2.0]), np.array([2.0, 4.0]), np.array([0, 1]), 2)
    >>> found = throttled_time(log, work)
    >>> found.share, found.low, found.high
    (array([0.25, 1.  ]), array([0., 1.]), array([0.5, 1. ]))
    """
    step, covered = np.diff(log.time_s), log.covered()
    before, after = log.lowered[:-1], log.lowered[1:]
    states = (np.ones(len(step)), 0.5 * before + 0.5 * after, before & after, before | after)
    k = timeline.classes
    class_s = np.bincount(timeline.label, timeline.end_s - timeline.start_s, minlength=k)[:k]
    covered_s, middle, low, high = (
        _summed(log.time_s, np.where(covered, state, 0.0) * step, timeline)[:k] for state in states
    )
    enough_covered = (covered_s > 0) & (covered_s >= _COVERED * class_s)

    def share(lowered_s: Floats) -> Floats:
        return np.asarray(np.divide(lowered_s, covered_s, out=np.full(k, np.nan), where=enough_covered))

    return ThrottledTime(share(middle), share(low), share(high))


def throttle_record(log: ThrottleLog, throttled: ThrottledTime, seconds: Floats) -> dict[str, Any] | None:
    """Return the throttled share of all classes together; None where the log covers none of them.

    Parameters
    ----------
    log, throttled : ThrottleLog, ThrottledTime
        The readings, and the share of each of k classes.
    seconds : array, shape (k,)
        Time of each class that counts. [s]
    """
    weight = np.where(np.isfinite(throttled.share), seconds, 0.0)
    if not weight.sum() > 0:
        return None
    means = [
        float(np.nan_to_num(v) @ weight / weight.sum())
        for v in (throttled.share, throttled.low, throttled.high)
    ]
    names = ("throttled_share", "throttled_share_low", "throttled_share_high")
    return {**dict(zip(names, means, strict=True)), "basis": log.basis, "reasons": dict(log.reasons)}


def throttle_note(record: Mapping[str, Any], device: int, log: ThrottleLog) -> str:
    """Return a sentence on a GPU's throttling."""
    share, low, high = (100 * record[f"throttled_share{end}"] for end in ENDS)
    why = ", ".join(
        f"{name} {100 * share_of_reason:.0f} %"
        for name, share_of_reason in record["reasons"].items()
        if share_of_reason > 0
    )
    stated = "throttle reasons" if log.basis == "reasons" else "clock and power"
    source = f"{counted(len(log.time_s), 'reading')} of {stated}{f': {why}' if why else ''}"
    return (
        f"GPU {device}: throttled for {share:.0f} % of kernel time (90 %: {low:.0f} to {high:.0f} %), from"
        f" {source}"
    )


def _first_of_each_moment(stating: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in time order, one a moment: logs of several fields have a row for each of them.

    Rows that state nothing go before: kept as the first, they would hide what the next one states.
    """
    return stating.unique("time_ns", keep="first", maintain_order=True).sort("time_ns")


def _bits(reasons: pl.Series) -> Ints:
    """Return the bits of each reading; a log has few different texts, each is parsed once."""
    texts = reasons.unique()
    bits = [reason_bits(text) for text in texts.to_list()]
    return np.asarray(reasons.replace_strict(texts, bits, return_dtype=pl.Int64).to_numpy())


def _seconds(rows: pl.DataFrame, origin_ns: int) -> Floats:
    return np.asarray((rows["time_ns"] - origin_ns).cast(pl.Float64).to_numpy() * 1e-9)


def _summed(time_s: Floats, parts_s: Floats, timeline: Timeline) -> Floats:
    """Return the sum over each class of ``parts_s``, one per step between readings. Shape (k,). [s]"""
    total = np.concatenate([[0.0], np.cumsum(parts_s)])
    inside = np.interp(timeline.end_s, time_s, total) - np.interp(timeline.start_s, time_s, total)
    return np.asarray(np.bincount(timeline.label, inside, minlength=timeline.classes), dtype=np.float64)
