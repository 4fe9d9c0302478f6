"""Whether the readings are those of a working sensor: range, dropouts, stuck or coarse values, counter."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.number_text import counted, number
from tracetool.measure.counter import check_counter
from tracetool.measure.power_check.finding import Finding, LogCase, graded

#: A reading of no more than this is none: no GPU with a driver loaded draws less. [W]
_NOTHING_W: Final = 0.5
#: A GPU under load draws at least this; less is kilowatts or per cent. [W]
_LEAST_W: Final = 3.0
#: No GPU draws as much: an idle one logged in milliwatts does. [W]
_MOST_W: Final = 5000.0
#: Share of readings that are dropouts. [1]
_DROPOUTS: Final = (0.0, 0.2)
#: A GPU regulates to its limit; readings beyond this factor are another GPU's or another unit. [1] Gains
#: of sensors reach 1.13 (sensors.toml).
_ABOVE_LIMIT: Final = 1.3
#: Resolution as a share of the median reading. [1]
_COARSE: Final = (0.02, 0.2)
#: One value for this many updates and this long is no sensor at work; with coarse steps it may be. [1], [s]
_STUCK_UPDATES, _STUCK_S = 20.0, 2.0
_COARSE_W, _COARSE_FACTOR = 0.5, 4.0
#: Share of the time with a stuck value. [1]
_STUCK: Final = (0.02, 0.5)


def readings_range(case: LogCase) -> Finding:
    """Whether values can be watts of this GPU."""
    power_w = case.readings.power_w
    top_w = float(np.quantile(power_w, 0.99))
    together = 1 if case.gpu is None else case.gpu.metered_gpus
    if top_w < _LEAST_W and case.gpu is not None and together > 1:
        reason = f"reads no power: one GPU of each package of {case.gpu.name} reads that of all {together}"
        return Finding("range", "unusable", reason, top_w, "W")
    if top_w < _LEAST_W:
        reason = f"reads at most {number(top_w)} W: kilowatts, or no power at all?"
        return Finding("range", "unusable", reason, top_w, "W")
    if top_w > _MOST_W:
        reason = f"reads {number(top_w)} W, no GPU draws more than {number(_MOST_W)} W: milliwatts?"
        return Finding("range", "unusable", reason, top_w, "W")
    dropouts = float((power_w <= _NOTHING_W).mean())
    if dropouts > 0.0:
        count = int((power_w <= _NOTHING_W).sum())
        reason = f"{counted(count, 'reading')} of 0 W among the others: dropouts of the sensor"
        return Finding("range", graded(dropouts, *_DROPOUTS), reason, 100.0 * dropouts, "%")
    limit_w = together * case.gpu.power_limit_w if case.gpu is not None else np.nan
    logged = case.frame["power_limit_w"].drop_nulls()
    if len(logged):
        limit_w = float(np.nanmax([limit_w, float(logged.max())]))  # type: ignore[arg-type]
    if case.gpu is not None and top_w > _ABOVE_LIMIT * limit_w:
        reason = (
            f"reads {number(top_w)} W, {case.gpu.name} is limited to {number(limit_w)} W: another GPU's log?"
        )
        return Finding("range", "unusable", reason, top_w, "W")
    return Finding("range", "good", f"highest reading {number(top_w)} W", top_w, "W")


def resolution_w(case: LogCase) -> float:
    """Return the smallest step between two values of a log; NaN where it has only one. [W]"""
    values = np.unique(np.round(case.readings.power_w, 3))
    return float(np.diff(values).min()) if len(values) > 1 else float("nan")


def quantization(case: LogCase) -> Finding:
    """How fine the values are."""
    step_w = resolution_w(case)
    if not np.isfinite(step_w):
        return Finding("quantization", "good", "one value only: its resolution is not known")
    share = step_w / max(float(np.median(case.readings.power_w)), 1e-9)
    reason = f"values in steps of {number(step_w)} W"
    return Finding("quantization", graded(share, *_COARSE), reason, step_w, "W")


def stuck(case: LogCase) -> Finding:
    """Share of the time in which the value did not move although it must have."""
    time_s, power_w = case.log.time_s, case.log.power_w
    if len(power_w) > 10 and np.ptp(power_w) == 0.0:
        reason = f"every reading is {number(float(power_w[0]))} W: the sensor does not work"
        return Finding("stuck", "unusable", reason, 100.0, "%")
    first = np.flatnonzero(np.diff(power_w, prepend=np.nan) != 0)
    begin_s = time_s[first]
    last = np.append(first[1:] - 1, len(time_s) - 1)
    end_s = time_s[last]
    factor = _COARSE_FACTOR if resolution_w(case) >= _COARSE_W else 1.0
    least_s = factor * max(_STUCK_UPDATES * case.spacing_s, _STUCK_S)
    long = (end_s - begin_s > least_s) & (last - first > 2)
    if case.timeline is not None:  # an idle GPU may well read one value
        busy_s = case.timeline.busy(end_s) - case.timeline.busy(begin_s)
        whole_s = float(np.diff(case.timeline.busy(time_s[[0, -1]]))[0])
        long &= busy_s > 0.1 * least_s
    else:
        busy_s, whole_s = end_s - begin_s, float(time_s[-1] - time_s[0])
    share = float(busy_s[long].sum()) / max(whole_s, 1e-9)
    if not long.any():
        return Finding("stuck", "good", "values move", 0.0, "%")
    longest = int(np.argmax(np.where(long, end_s - begin_s, 0.0)))
    reason = f"{number(float(end_s[longest] - begin_s[longest]))} s at {power_w[first[longest]]:.2f} W: stuck"
    return Finding("stuck", graded(share, *_STUCK), reason, 100.0 * share, "%")


def counter(case: LogCase) -> Finding:
    """The energy counter against integrated power."""
    compared = check_counter(case.log)
    if compared is None:
        held = bool(np.isfinite(case.log.counter_j).any())
        reason = (
            "too few readings of the energy counter to check it" if held else "no energy counter in the log"
        )
        return Finding("counter", "good", reason)
    alone = compared.ratio is None
    if compared.usable:
        verdict = "usable" if alone or compared.falls else "good"
    else:
        verdict = "unusable" if alone else "usable"
    return Finding("counter", verdict, compared.sentence(), compared.ratio, "1")
