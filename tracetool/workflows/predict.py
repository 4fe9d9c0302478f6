"""Predict: a table's rows or a run's kernels at other clocks, and what the whole timeline becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.host import Launch, host_costs
from tracetool.replay.issue import issue
from tracetool.tables.schema import load_schema
from tracetool.vocabulary.arrays import Floats
from tracetool.vocabulary.errors import BadInput
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.prediction import BOUNDS, UNITS, Prediction
from tracetool.workflows.tables import InputTable, read_table

#: Columns of a kernel table that the prediction's own columns replace, and the names they keep.
_KEPT_AS = {
    "clock_mhz": "recorded_clock_mhz",
    "duration_us": "measured_duration_us",
    "power_w": "measured_power_w",
}


@dataclass(frozen=True)
class PredictedTable:
    """Predictions of a table: one row per input row and clock, and totals of the rows run in order."""

    frame: pl.DataFrame
    totals: list[dict[str, Any]]
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)


def predict_table(
    source: str | os.PathLike[str] | pl.DataFrame | InputTable,
    gpu: str,
    clocks_mhz: Sequence[float] | None = None,
    *,
    mem_clock_mhz: float | None = None,
    power_cap_w: float | None = None,
    launch: Launch = "eager",
    anchor: bool | None = None,
) -> PredictedTable:
    """Predict an operator or kernel table.

    Parameters
    ----------
    source : path, DataFrame or InputTable
        See :func:`tracetool.workflows.tables.read_table`.
    gpu : str
        Name of the GPU, e.g. ``a100-sxm``.
    clocks_mhz : sequence of float, optional
        Core clocks; by default the GPU's boost clock, kept under its power cap. [MHz]
    mem_clock_mhz : float, optional
        Memory clock; by default the GPU's. [MHz]
    power_cap_w : float, optional
        Power cap; by default the GPU's limit. [W]
    launch : {"eager", "graph"}
        How the host issues the rows: one by one, or all in one graph.
    anchor : bool, optional
        Scale from the measured duration and power of a kernel table; by default, where it has them.

    Raises
    ------
    BadInput
        If the table, the GPU's name or a clock cannot be used.
    """
    table = source if isinstance(source, InputTable) else read_table(source)
    board = load_gpu(gpu)
    clocks, notes = checked_clocks(clocks_mhz, board)
    anchored = table.kind == "kernels" if anchor is None else anchor and table.kind == "kernels"
    rows = with_clock(table.rows, board) if anchored else table.rows
    predicted = predict_rows(
        rows, board, clocks, mem_clock_mhz=mem_clock_mhz, power_cap_w=power_cap_w, anchor=anchored
    )
    frame = _beside_inputs(table, prediction_frame(predicted))
    if table.kind == "operators":
        totals = sequence_totals(rows, predicted, table, launch)
    else:
        totals = _kernel_totals(predicted, table)
    return PredictedTable(frame, totals, board.name, tuple(notes), {"kind": table.kind, "launch": launch})


def checked_clocks(clocks_mhz: Sequence[float] | None, gpu: Gpu) -> tuple[Floats, list[str]]:
    """Return the clocks asked for, or the boost clock, and a note that says which.

    Raises
    ------
    BadInput
        If a clock is not a positive number or lies above what the GPU can run at.
    """
    if clocks_mhz is None or not len(clocks_mhz):
        note = f"clock: {gpu.clock_boost_mhz:g} MHz, the boost clock of {gpu.name}, lowered where the cap binds"
        return np.array([gpu.clock_boost_mhz], dtype=np.float64), [note]
    clocks = np.asarray(clocks_mhz, dtype=np.float64)
    if not (np.isfinite(clocks).all() and (clocks > 0).all()):
        raise BadInput(f"clocks must be positive numbers of MHz, not {list(clocks_mhz)}")
    top = gpu.clock_max_mhz
    if (clocks > top * 1.001).any():
        raise BadInput(
            f"{clocks.max():g} MHz is above the highest clock of {gpu.name}",
            f"give clocks up to {top:g} MHz",
        )
    low = clocks[clocks < gpu.clock_min_mhz]
    notes = [f"{low.min():g} MHz is below the lowest clock of {gpu.name} ({gpu.clock_min_mhz:g} MHz)"]
    return clocks, notes if low.size else []


def with_clock(rows: OperatorColumns, gpu: Gpu, clock_mhz: float | None = None) -> OperatorColumns:
    """Return the rows with ``recorded_clock_mhz`` filled: the value given, else the boost clock."""
    filled = rows.number("recorded_clock_mhz", clock_mhz or gpu.clock_boost_mhz)
    return replace(rows, columns={**rows.columns, "recorded_clock_mhz": filled})


def prediction_frame(predicted: Prediction) -> pl.DataFrame:
    """Return a prediction as the ``predictions`` table, row by row and within a row clock by clock."""
    timing, work = predicted.timing, predicted.timing.work
    n, c = timing.duration_s.shape
    duration = timing.duration_s
    per_row = {"flops": work.useful_flops, **{k: getattr(work, k) for k in _BYTES}}
    columns: dict[str, Any] = {
        "clock_mhz": np.tile(predicted.asked_mhz, n),
        "clock_actual_mhz": predicted.clock_mhz.ravel(),
        "duration_us": (duration * 1e6).ravel(),
        "duration_low_us": (duration * timing.low[:, None] * 1e6).ravel(),
        "duration_high_us": (duration * timing.high[:, None] * 1e6).ravel(),
        "power_w": predicted.power_w.ravel(),
        "power_low_w": predicted.power_low_w.ravel(),
        "power_high_w": predicted.power_high_w.ravel(),
        "energy_mj": (predicted.energy_j * 1e3).ravel(),
        "energy_low_mj": (predicted.energy_low_j * 1e3).ravel(),
        "energy_high_mj": (predicted.energy_high_j * 1e3).ravel(),
    }
    safe = np.where(duration > 0, duration, 1.0)
    for unit in UNITS:
        busy = timing.busy_s.get(unit)
        columns[f"util_{unit}"] = np.zeros(n * c) if busy is None else np.clip(busy / safe, 0.0, 1.0).ravel()
    columns["util_sm_active"] = np.clip(timing.sm_active, 0.0, 1.0).ravel()
    for name, values in per_row.items():
        columns[name] = np.repeat(values, c)
    columns["bound"] = np.array(BOUNDS, dtype=object)[timing.bound.ravel()].astype(str)
    columns["throttled"] = predicted.throttled.ravel()
    columns["basis"] = np.repeat(timing.basis.astype(str), c)
    return load_schema("predictions").conform(pl.DataFrame(columns))


_BYTES = ("shared_bytes", "l2_bytes", "dram_bytes", "link_bytes")


def _beside_inputs(table: InputTable, predictions: pl.DataFrame) -> pl.DataFrame:
    """Put the predictions of each row behind its input columns; input names that clash are kept apart."""
    c = predictions.height // max(1, len(table.rows))
    made = set(predictions.columns)
    taken = set(table.frame.columns) | made
    names = {}
    for column in table.frame.columns:
        if column in made:
            kept = _KEPT_AS.get(column, f"input_{column}") if table.kind == "kernels" else f"input_{column}"
            while kept in taken:
                kept = f"input_{kept}"
            taken.add(kept)
            names[column] = kept
    inputs = table.frame.rename(names)
    if c == 1:
        return pl.concat([inputs, predictions[table.index]], how="horizontal")
    repeated = inputs[np.repeat(np.arange(inputs.height), c)]
    place = (table.index[:, None] * c + np.arange(c)).ravel()
    return pl.concat([repeated, predictions[place]], how="horizontal")


def sequence_totals(
    rows: OperatorColumns, predicted: Prediction, table: InputTable, launch: Launch
) -> list[dict[str, Any]]:
    """Totals of a table's rows issued in order on one stream, per clock."""
    costs = host_costs(launch)
    place, counts = table.index, np.asarray(table.counts, dtype=np.float64)
    issue_s = costs.issue_s(rows.family)[place]
    made = issue(predicted.timing.duration_s[place], counts, issue_s, costs)
    weight = np.bincount(place, weights=counts, minlength=len(rows))
    return totals(rows, predicted, weight, made.makespan_s, made.idle_s)


def totals(
    rows: OperatorColumns, predicted: Prediction, weight: Floats, makespan_s: Floats, idle_s: Floats
) -> list[dict[str, Any]]:
    """Sums over ``weight`` launches of each row, with idle power in the gaps, one record per clock."""
    timing = predicted.timing
    busy = weight @ timing.duration_s
    energy = weight @ predicted.energy_j
    gap = predicted.idle_w * idle_s
    time_low, time_high = _spread(rows, weight, timing.duration_s, timing.low[:, None], timing.high[:, None])
    low = _safe(predicted.energy_low_j, predicted.energy_j)
    high = _safe(predicted.energy_high_j, predicted.energy_j)
    energy_low, energy_high = _spread(rows, weight, predicted.energy_j, low, high)
    throttled = weight @ (timing.duration_s * predicted.throttled)
    made = []
    for i, clock in enumerate(predicted.asked_mhz):
        total = energy[i] + gap[i]
        made.append(
            {
                "clock_mhz": float(clock),
                "kernel_time_ms": float(busy[i] * 1e3),
                "kernel_time_low_ms": float((busy[i] - time_low[i]) * 1e3),
                "kernel_time_high_ms": float((busy[i] + time_high[i]) * 1e3),
                "makespan_ms": float(makespan_s[i] * 1e3),
                "makespan_low_ms": float((makespan_s[i] - time_low[i]) * 1e3),
                "makespan_high_ms": float((makespan_s[i] + time_high[i]) * 1e3),
                "gap_ms": float(idle_s[i] * 1e3),
                "energy_j": float(total),
                "energy_low_j": float(total - energy_low[i]),
                "energy_high_j": float(total + energy_high[i]),
                "kernel_energy_j": float(energy[i]),
                "gap_energy_j": float(gap[i]),
                "idle_power_w": float(predicted.idle_w[i]),
                "mean_power_w": float(total / makespan_s[i]) if makespan_s[i] > 0 else 0.0,
                "throttled_share": float(throttled[i] / busy[i]) if busy[i] > 0 else 0.0,
            }
        )
    return made


def _safe(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.ones_like(part), where=whole > 0)


def _spread(
    rows: OperatorColumns, weight: Floats, value: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Half-widths of a sum: rows of a family err together, families err apart. Each (c,)."""
    _, family = np.unique(rows.family.astype(str), return_inverse=True)
    below, above = np.zeros((2, int(family.max(initial=0)) + 1, value.shape[1]))
    np.add.at(below, family, weight[:, None] * value * (1.0 - low))
    np.add.at(above, family, weight[:, None] * value * (high - 1.0))
    return np.sqrt((below**2).sum(0)), np.sqrt((above**2).sum(0))


def _kernel_totals(predicted: Prediction, table: InputTable) -> list[dict[str, Any]]:
    """Totals of a kernel table: its rows one after another, without gaps."""
    counts = np.asarray(table.counts, dtype=np.float64)
    weight = np.bincount(table.index, weights=counts, minlength=len(table.rows))
    busy = weight @ predicted.timing.duration_s
    return totals(table.rows, predicted, weight, busy, np.zeros_like(busy))
