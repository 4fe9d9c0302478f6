"""Measured time, energy and power of a run's kernels, copies and gaps: the scopes predictions have too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import ENDS
from tracetool.core.number_text import number
from tracetool.measure.logged_work import Covered
from tracetool.measure.own_time import with_own_time
from tracetool.measure.signature_sums import SignatureSums
from tracetool.measure.timeline import ACTIVE_IDLE, GAP_HOLD_S, IDLE
from tracetool.tables.idle_intervals import idle_intervals
from tracetool.tables.run import Run
from tracetool.tables.windows import idle_before_s, parts_of

#: A scope counts as measured whole from this share of its time on: stamps of log and trace are not exact. [%]
WHOLE_PCT: Final = 99.0
#: A figure and both ends of its interval.
Ends = tuple[float, float, float]


def measured_scopes(
    run: Run,
    energy: pl.DataFrame | None,
    sums: SignatureSums | None = None,
    half_shares: Mapping[str, float] | None = None,
    covered: Mapping[int, Covered] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return time, energy and power measured of each scope: ``kernels``, ``copies``, ``gaps`` and ``run``.

    Parameters
    ----------
    run : Run
        The run.
    energy : DataFrame or None
        Its ``energy`` table; None where nothing was attributed.
    sums : SignatureSums, optional
        What errors its rows share: ends of intervals are then those of the sums, else sums of ends.
    half_shares : mapping of str to float, optional
        Half the interval of each scope as a share of its energy, of a run read in windows. [1]
    covered : mapping of int to Covered, optional
        What the log covers of the GPUs of which it covers a part.

    Returns
    -------
    dict
        By scope: ``launches`` (of gaps how many), ``time_ms``, ``measured_pct`` (share of that time whose
        energy was measured) and, where there is any, ``energy_j`` and ``power_w`` and their ends.
        The energy of ``run`` is the sum of the others and its time the window, first start to last end; a
        scope without activities, gaps without a log and a run not measured whole are absent.
    """
    scopes: dict[str, dict[str, Any]] = {}
    energy = None if energy is None else with_own_time(run, energy)
    for scope in ("kernels", "copies"):
        signatures = run.signatures.filter((pl.col("kind") == "kernel") == (scope == "kernels"))
        if not signatures.height:
            continue
        inside = None
        if energy is not None:
            inside = energy.filter(pl.col("signature").is_in(signatures["signature"].implode()))
        whole_ms = float(signatures.select(pl.col("duration_ns").sum() / 1e6).item())
        launches = int(signatures["launches"].sum())
        scopes[scope] = {"launches": launches, "time_ms": whole_ms, **_metered(inside, whole_ms)}
    gaps = None if energy is None else measured_gaps(run, energy, covered)
    if gaps is not None:
        scopes["gaps"] = gaps
        if all((scope["measured_pct"] or 0.0) >= WHOLE_PCT for scope in scopes.values()):
            scopes["run"] = _sum(run, scopes)
    if sums is not None and sums.classes:
        half_shares = _joint_half_shares(run, scopes, sums)
    for scope, share in (half_shares or {}).items():
        if scope in scopes and np.isfinite(share):
            for what in ("energy{}_j", "power{}_w"):
                value = scopes[scope][what.format("")]
                ends = (max(value * (1.0 - share), 0.0), value * (1.0 + share))
                scopes[scope] |= {what.format("_low"): ends[0], what.format("_high"): ends[1]}
    return scopes


def _joint_half_shares(
    run: Run, scopes: Mapping[str, Mapping[str, Any]], sums: SignatureSums
) -> dict[str, float]:
    """Return half the interval of each measured scope, as a share, from the errors its classes share. [1]"""
    names = [scope for scope in scopes if scopes[scope].get("energy_j")]
    signature_scopes = run.signatures.select(
        pl.when(pl.col("kind") == "kernel").then(pl.lit("kernels")).otherwise(pl.lit("copies")).alias("name"),
        "signature",
        pl.lit(1.0).alias("part"),
    ).filter(pl.col("name").is_in(names))
    seconds = sums.work_seconds(signature_scopes, names)
    gaps = idle_intervals(run.kernels)
    for device, device_seconds in seconds.items():
        if "gaps" in names:
            held_s, later_s = _gap_seconds(gaps.filter(pl.col("device") == device))
            device_seconds[names.index("gaps"), -2:] = held_s.sum(), later_s.sum()
        if "run" in names:
            device_seconds[names.index("run")] = device_seconds.sum(axis=0)
    return dict(zip(names, sums.half_shares(seconds).tolist(), strict=True))


def _sum(run: Run, scopes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the run: the energies of its scopes together, over its window."""
    seconds = 0.0
    for window in parts_of(run):
        span = window.kernels.select(
            (pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()
        )
        seconds += float(span.item()) * 1e-9 + idle_before_s(window)
    whole_run: dict[str, Any] = {
        "launches": sum(int(scopes[s]["launches"]) for s in scopes if s != "gaps"),
        "time_ms": 1e3 * seconds,
        "measured_pct": min(float(s["measured_pct"] or 0.0) for s in scopes.values()),
    }
    for end in ENDS:
        joules = sum(float(s[f"energy{end}_j"]) for s in scopes.values())
        whole_run |= {f"energy{end}_j": joules, f"power{end}_w": joules / seconds if seconds else None}
    return whole_run


def scopes_line(scopes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the measured energy of a run and its scopes in a sentence, or why there is none of the run."""
    if not scopes:
        return ""
    run_scope = scopes.get("run")
    if run_scope is None:
        shares = {name: scope["measured_pct"] or 0.0 for name, scope in scopes.items()}
        partly = [f"{pct:.0f} % of the time of {name}" for name, pct in shares.items() if pct < WHOLE_PCT]
        lacking = f"the log covers {' and '.join(partly)}" if partly else "the log shows no idle power"
        return f"run: no energy of the whole run, {lacking}"
    listed = ", ".join(
        f"{name} {number(scopes[name]['energy_j'])} J in {number(scopes[name]['time_ms'])} ms"
        for name in ("kernels", "copies", "gaps")
        if name in scopes
    )
    ends = (number(run_scope[f"energy_{end}_j"]) for end in ("low", "high"))
    return f"run: {number(run_scope['energy_j'])} J measured (90 %: {' to '.join(ends)}): {listed}"


#: Idle energy outside the run that is worth a sentence, as a share of the log's. [1] By definition.
_WORTH_SAYING: Final = 0.01


def idle_outside_line(energy: pl.DataFrame, scopes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how much of the idle classes' energy lies outside the run, for they count the whole log.

    Empty where there is little of it, or the gaps of the run are not measured.
    """
    idle_j = float(energy.filter(pl.col("class").is_in([ACTIVE_IDLE, IDLE]))["energy_j"].sum())
    gaps_j = (scopes.get("gaps") or {}).get("energy_j") if "run" in scopes else None
    if gaps_j is None or idle_j - gaps_j < _WORTH_SAYING * idle_j:
        return ""
    outside = f"{number(idle_j - gaps_j)} J of them lie outside the run"
    return f"{ACTIVE_IDLE} and {IDLE} are of the whole log: {outside}"


def _metered(rows: pl.DataFrame | None, time_ms: float) -> dict[str, Any]:
    """Return the measured energy of a scope's activities and the share of its time that was metered."""
    metered = None if rows is None else rows.filter(pl.col("energy_j").is_not_null())
    if metered is None or not metered.height:
        return {"measured_pct": 0.0}
    seconds = float(metered["duration_ns"].sum()) / 1e9
    measured: dict[str, Any] = {"measured_pct": 1e5 * seconds / time_ms if time_ms else None}
    for end in ENDS:
        joules = float(metered[f"energy{end}_j"].sum())
        measured |= {f"energy{end}_j": joules, f"power{end}_w": joules / seconds if seconds else None}
    return measured


def measured_gaps(
    run: Run, measured: pl.DataFrame, covered: Mapping[int, Covered] | None = None
) -> dict[str, Any] | None:
    """Return time, energy and power of the gaps inside the run's window; None where the log determines none.

    Energy is that of the gaps which the log covers: of all of a GPU that has readings, where nothing else is
    said of it.

    A log shows the power shortly after an activity and, where there is any, the power later on; time
    after the last activity is in neither scope of the run.
    """
    watts = idle_watts(measured)
    if watts is None:
        return None
    near, far = watts
    logged = measured["device"].unique().to_list()
    count, held_total_s, later_total_s, outside_s = 0, 0.0, 0.0, np.zeros(2)
    for window in parts_of(run):
        gaps = idle_intervals(window.kernels)
        each_held_s, each_later_s = _gap_seconds(gaps)
        between_s = idle_before_s(window)
        held_s = min(between_s, GAP_HOLD_S)
        count += gaps.height + (between_s > 0)
        held_total_s += float(each_held_s.sum()) + held_s
        later_total_s += float(each_later_s.sum()) + between_s - held_s
        outside_s += _outside_s(gaps, covered or {}, logged)
    time = held_total_s + later_total_s
    inside = time - float(outside_s.sum())
    measured_gap: dict[str, Any] = {
        "launches": count,
        "time_ms": 1e3 * time,
        "measured_pct": 100.0 * inside / time if time else 100.0,
    }
    for end, held_w, later_w in zip(ENDS, near, far, strict=True):
        joules = held_w * (held_total_s - outside_s[0]) + later_w * (later_total_s - outside_s[1])
        measured_gap |= {f"energy{end}_j": joules, f"power{end}_w": joules / inside if inside else None}
    return measured_gap


def idle_watts(measured: pl.DataFrame) -> tuple[Ends, Ends] | None:
    """Return the power up to a second after an activity and later, with ends; None if undetermined. [W]"""
    watts = {name: _watts(measured.filter(pl.col("class") == name)) for name in (ACTIVE_IDLE, IDLE)}
    near, far = watts[ACTIVE_IDLE], watts[IDLE] or watts[ACTIVE_IDLE]
    return None if near is None or far is None else (near, far)


def _gap_seconds(gaps: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return the time of each gap shortly after an activity, and the time later on. [s]"""
    whole_s = gaps["gap_ns"].to_numpy() * 1e-9
    held_s = np.where(gaps["after"].is_not_null(), np.minimum(whole_s, GAP_HOLD_S), 0.0)
    return held_s, whole_s - held_s


def _outside_s(gaps: pl.DataFrame, covered: Mapping[int, Covered], logged: list[int]) -> Floats:
    """Return the time of gaps that logs do not cover: shortly after an activity, and later on. (2,) [s]"""
    total = np.array([s.sum() for s in _gap_seconds(gaps.filter(pl.col("device").is_in(logged).not_()))])
    for device, part in covered.items():
        own = gaps.filter(pl.col("device") == device)
        held_s, later_s = _gap_seconds(own)
        start = own["busy_until_ns"].to_numpy()
        end = start + own["gap_ns"].to_numpy()
        middle = start + np.rint(held_s * 1e9).astype(np.int64)
        total += (held_s @ part.outside(start, middle), later_s @ part.outside(middle, end))
    return total


def _watts(rows: pl.DataFrame) -> Ends | None:
    """Return the mean power of a state with its interval; None where it was not metered. [W]"""
    metered_rows = rows.filter(pl.col("energy_j").is_not_null() & (pl.col("duration_ns") > 0))
    if not metered_rows.height:
        return None
    seconds = float(metered_rows["duration_ns"].sum()) / 1e9
    value, low, high = (float(metered_rows[f"energy{end}_j"].sum()) / seconds for end in ENDS)
    return value, low, high
