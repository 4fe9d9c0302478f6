"""State of the GPU: idle baseline, throttling, and the sensor behind the log."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.number_text import number
from tracetool.measure.power_check.finding import Finding, LogCase, graded
from tracetool.measure.power_check.values import _NOTHING_W
from tracetool.measure.sampled_activity import sampled_activity

#: Idle power above this share of that under load: something else runs, or the load is none. [1]
_IDLE_SHARE: Final = 0.7
#: Power must rise by this factor under load to be that load's. [1]
_RISE: Final = 1.03
#: Share of the readings taken while the GPU was held back. [1]
_THROTTLED: Final = (0.01, 2.0)
#: Reasons for a lowered clock, bits of NVML's clocks event reasons (NVML API reference, "Clocks Event
#: Reasons"); idle, application clocks, synchronized boost and display are settings, not throttling.
THROTTLE_REASONS: Final = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal (software)", 0x40: "thermal (hardware)",
    0x80: "power brake",
}  # fmt: skip
#: Spellings of a reason: a longer one holds the words of shorter ones, so each is taken out once read.
_SPELLINGS: Final = {
    "hwthermal": 0x40, "hardwarethermal": 0x40, "thermal": 0x20, "brake": 0x80, "cap": 0x4, "slowdown": 0x8,
}  # fmt: skip


def idle(case: LogCase) -> Finding:
    """Power without work, and whether work raises it."""
    if case.timeline is None:
        low_w = float(np.quantile(case.readings.power_w, 0.05))
        return Finding(
            "idle", "good", f"least power {number(low_w)} W; no trace shows when it idles", low_w, "W"
        )
    under_load, quiet = case.loaded()
    quiet = quiet[quiet > _NOTHING_W]
    if not len(under_load):
        return Finding("idle", "unusable", "no reading under load")
    load_w = float(np.median(under_load))
    if not len(quiet):
        reason = "no reading while idle, so idle power is not known: log some seconds before or after"
        return Finding("idle", "usable", reason)
    idle_w = float(np.median(quiet))
    if load_w < _RISE * idle_w:
        reason = f"{number(load_w)} W under load, {number(idle_w)} W idle: readings do not follow the work"
        return Finding("idle", "unusable", reason, idle_w, "W")
    if idle_w > _IDLE_SHARE * load_w:
        reason = f"idle at {number(idle_w)} W, {number(load_w)} W under load: does another program run?"
        return Finding("idle", "usable", reason, idle_w, "W")
    return Finding("idle", "good", f"idle {number(idle_w)} W, load {number(load_w)} W", idle_w, "W")


#: All bits of a column of 64 but its sign, which no reason has. [1] By definition of NVML.
_SIGNED: Final = (1 << 63) - 1


def reason_bits(text: str | None) -> int:
    """Return the bits of a log's reasons for a lowered clock: a number of 64 bits, or words.

    >>> reason_bits("0x0000000000000004"), reason_bits("4"), reason_bits("SW Power Cap"), reason_bits(None)
    (4, 4, 4, 0)
    """
    plain = (text or "").strip().lower()
    try:
        number = int(plain, 0)
        return number & _SIGNED if 0 <= number < 1 << 64 else 0
    except ValueError:
        bits, words = 0, plain.replace(" ", "").replace("_", "")
    for spelling, bit in _SPELLINGS.items():
        for word in (f"{spelling}slowdown", spelling):
            if word in words:
                bits, words = bits | bit, words.replace(word, ";")
    return bits


def throttling(case: LogCase) -> Finding:
    """Share of the readings at work that name a reason for a lowered clock."""
    rows = case.frame.filter(pl.col("throttle_reasons").is_not_null())
    if case.timeline is not None and rows.height:
        origin_s = float(case.log.time_s[0])
        reads = pl.col("power_w").is_not_null() | pl.col("energy_j").is_not_null()
        first_ns = int(case.frame.select(pl.col("time_ns").filter(reads).first()).item())
        at_s = (rows["time_ns"].to_numpy() - first_ns) * 1e-9 + origin_s
        start_s, end_s = case.span_s
        rows = rows.filter(pl.Series((at_s >= start_s) & (at_s <= end_s)))
    if not rows.height:
        return Finding("throttling", "good", "the log holds no reasons for lowered clocks")
    counts = rows.group_by("throttle_reasons", maintain_order=True).len()
    bits = {text: reason_bits(text) for text in counts["throttle_reasons"].to_list()}
    readings_by_reason = dict.fromkeys(THROTTLE_REASONS.values(), 0)
    throttled = 0
    for text, count in counts.iter_rows():
        names = [name for bit, name in THROTTLE_REASONS.items() if bits[text] & bit]
        throttled += count if names else 0
        for name in names:
            readings_by_reason[name] += count
    share = throttled / rows.height
    shown = ", ".join(f"{n} {100 * c / rows.height:.0f} %" for n, c in readings_by_reason.items() if c)
    reason = f"clock held back: {shown} of the time" if share > _THROTTLED[0] else "not throttled"
    return Finding("throttling", graded(share, *_THROTTLED), reason, 100.0 * share, "%")


def activity(case: LogCase) -> Finding:
    """Activity that hardware counters sampled beside the power; it is not judged."""
    words = sampled_activity(case.frame)
    share = case.frame["act_sm"].mean() if words else None
    value = 100.0 * share if isinstance(share, float) else None
    return Finding("activity", "good", words or "no hardware counters beside the log", value, "%")


def sensor(case: LogCase) -> Finding:
    """The sensor behind the log: window, update period, and how sure that is."""
    one = case.sensor
    if one.kind == "counter":
        kind = "energy counter"
    elif one.kind == "lag":
        kind = f"first-order lag of {number(1e3 * one.lag_s)} ms"
    else:
        kind = f"mean over {number(1e3 * one.window_s)} ms"
    reason = f"{case.log.field}: {kind}, an update every {number(1e3 * case.readings.update_s)} ms"
    window_ms = 1e3 * case.window_s
    if case.gpu is None:
        how = "assumed, the log alone cannot show it" if case.timeline is None else "by the log alone"
        return Finding("sensor", "usable", f"{reason} ({how}): name the GPU with --gpu", window_ms, "ms")
    if case.candidates > 1 and case.timeline is None:
        how = "assumed: its column does not state which reading it is, and the log alone cannot show it"
        return Finding("sensor", "usable", f"{reason} ({how})", window_ms, "ms")
    if np.isfinite(one.window_s) and one.window_s < 0.9 * case.spacing_s:
        reason += f": sees {100 * one.window_s / case.spacing_s:.0f} % of the time"
    if case.candidates > 1:
        reason += ", the one the log fits best: its column does not state which reading it is"
    return Finding("sensor", "good", reason, window_ms, "ms")
