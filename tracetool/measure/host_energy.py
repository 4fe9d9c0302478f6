"""Energy of what is around the GPUs over a run's window: CPU packages, host memory, modules and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.core.number_text import number
from tracetool.tables.run import Run
from tracetool.tables.scopes import SCOPES

#: Gain of a host's meter, one standard deviation: a guess, since none states its own; power supplies and RAPL
#: were within a few percent of calibrated meters where they were compared. [1]
GAIN_SD: Final = 0.03
#: A window is measured from this share of its time on. [1]
_WHOLE: Final = 0.99
#: Row of a node without its GPUs.
REST: Final = "node without GPUs"
_NS: Final = 1e-9


@dataclass(frozen=True)
class _Energy:
    joules: float
    deviation: float  # of the readings; the gain's is common to all of a scope [J]
    coverage: float  # share of the window between first and last reading [1]
    spacing_s: float


def host_energy(run: Run, gpus: Mapping[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the energy of each scope but the GPU's over a run's window, and what it rests on.

    Parameters
    ----------
    run : Run
        The run.
    gpus : mapping, optional
        Measured ``energy_j``, ``energy_low_j`` and ``energy_high_j`` of all its GPUs over that window: with
        them a node has a row of what it drew without its GPUs.

    Returns
    -------
    rows : list of dict
        ``scope``, ``energy_j`` and its 90 % ends, ``power_w``, ``meter``. A scope whose meters leave part of
        the window out has no row.
    notes : list of str
        Guesses made, meters that measure the same thing, windows shorter than a meter's interval.
    """
    telemetry, kernels = run.table("telemetry"), run.kernels
    if "scope" not in telemetry.columns or not kernels.height:
        return [], []
    start = int(kernels["start_ns"].min())  # type: ignore[arg-type]
    end = int((kernels["start_ns"] + kernels["duration_ns"]).max())  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for scope in SCOPES:
        if scope in ("gpu", "gpu_memory"):
            continue
        meters = telemetry.filter(pl.col("scope") == scope)
        if meters.height:
            rows += _scope_row(scope, meters, start, end, notes)
    node = next((r for r in rows if r["scope"] == "node"), None)
    if node is not None and gpus is not None and gpus.get("energy_j") is not None:
        rows.append(_without_gpus(node, gpus))
    if rows:
        notes.append(
            f"intervals of host meters include a gain error of {100 * GAIN_SD:.0f} % "
            "(one standard deviation, a prior)"
        )
    return rows, notes


def _scope_row(
    scope: str, meters: pl.DataFrame, start: int, end: int, notes: list[str]
) -> list[dict[str, Any]]:
    """Return the row of a scope: its meters' sum, or the first of several kinds that measure the same."""
    by_field: dict[tuple[str, str], _Energy] = {}
    for (source, field), meter_rows in meters.group_by("source", "field", maintain_order=True):
        energy = _meter(meter_rows.sort("time_ns"), start, end)
        if energy is not None:
            by_field[str(source), str(field)] = energy
    if not by_field:
        notes.append(f"{scope}: its meters hold too few readings")
        return []
    first_source = next(iter(by_field))[0]
    used_fields = {f for s, f in by_field if s == first_source}
    used = {k: e for k, e in by_field.items() if k[0] == first_source or k[1] in used_fields}
    if unused := sorted({s for s, _ in by_field} - {s for s, _ in used}):
        notes.append(f"{scope}: {first_source} is used; {', '.join(unused)} measure it too and are not added")
    coverage = min(e.coverage for e in used.values())
    seconds = (end - start) * _NS
    if coverage < _WHOLE:
        notes.append(
            f"{scope}: {first_source} covers {100 * coverage:.0f} % of the run: its energy is not stated"
        )
        return []
    spacing = max(e.spacing_s for e in used.values())
    if spacing > 0.5 * seconds:
        notes.append(
            f"{scope}: a reading every {number(spacing)} s in a run of {number(seconds)} s: "
            "variation within the run is not resolved"
        )
    joules = sum(e.joules for e in used.values())
    deviation = float(np.hypot(np.sqrt(sum(e.deviation**2 for e in used.values())), GAIN_SD * joules))
    return [_row(scope, joules, Z90 * deviation, Z90 * deviation, seconds, first_source)]


def _row(scope: str, joules: float, down: float, up: float, seconds: float, meter: str) -> dict[str, Any]:
    return {
        "scope": scope,
        "energy_j": joules,
        "energy_low_j": max(joules - down, 0.0),
        "energy_high_j": joules + up,
        "power_w": joules / seconds if seconds > 0 else None,
        "meter": meter,
    }


def _without_gpus(node: Mapping[str, Any], gpus: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node less its GPUs; their errors are independent."""
    joules = node["energy_j"] - gpus["energy_j"]
    seconds = node["energy_j"] / node["power_w"] if node["power_w"] else 0.0
    down = np.hypot(node["energy_j"] - node["energy_low_j"], gpus["energy_high_j"] - gpus["energy_j"])
    up = np.hypot(node["energy_high_j"] - node["energy_j"], gpus["energy_j"] - gpus["energy_low_j"])
    return _row(REST, joules, float(down), float(up), seconds, node["meter"])


def _meter(meter_rows: pl.DataFrame, start: int, end: int) -> _Energy | None:
    """Return the energy of a window by one meter: from its counter where it has one, else from its power."""
    counted = meter_rows.drop_nulls("energy_j").unique("time_ns", maintain_order=True)
    column, rows = (
        ("energy_j", counted) if counted.height > 1 else ("power_w", meter_rows.drop_nulls("power_w"))
    )
    rows = rows.unique("time_ns", maintain_order=True)
    if rows.height < 2:
        return None
    time = (rows["time_ns"].to_numpy() - start) * _NS
    values, seconds = rows[column].to_numpy(), (end - start) * _NS
    inside = max(0.0, min(seconds, float(time[-1])) - max(0.0, float(time[0])))
    coverage = inside / seconds if seconds > 0 else 0.0
    spacing = float(np.median(np.diff(time)))
    if column == "energy_j":
        gained, lasted = np.diff(values), np.diff(time)
        rose = gained >= 0  # what a fall hides is no part of the energy, nor of what is covered
        joules, unseen_s = (
            float(np.diff(np.interp([0.0, seconds], time, np.concatenate([[0.0], np.cumsum(steps)])))[0])
            for steps in (np.where(rose, gained, 0.0), np.where(rose, 0.0, lasted))
        )
        coverage -= unseen_s / seconds if seconds > 0 else 0.0
        return _Energy(joules, _ends_error(gained[rose] / lasted[rose], spacing), coverage, spacing)
    grid = np.union1d(time[(time > 0.0) & (time < seconds)], [0.0, seconds])
    joules = float(np.trapezoid(np.interp(grid, time, values), grid))
    near = (time >= -spacing) & (time <= seconds + spacing)
    steps = np.diff(values[near]) * np.diff(time[near])
    # Between two readings power went from one to the other at a moment that is not known.
    deviation = float(np.sqrt((steps**2).sum() / 12.0))
    return _Energy(joules, deviation, coverage, spacing)


def _ends_error(power: Floats, spacing: float) -> float:
    """Return the error of a counter's gain, its ends being anywhere within a tick. [J]"""
    return float(np.max(power, initial=0.0)) * spacing * float(np.sqrt(2.0 / 12.0))


def host_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each row."""
    return [
        f"{r['scope']}: {number(r['energy_j'])} J measured (90 %: {number(r['energy_low_j'])} to "
        f"{number(r['energy_high_j'])}), {number(r['power_w'] or 0.0)} W on average, by {r['meter']}"
        for r in rows
    ]
