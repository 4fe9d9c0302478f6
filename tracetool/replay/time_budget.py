"""The time budget of a run: computing, communication, copies and idle time by cause, in ms, % and J."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import ENDS
from tracetool.measure.host_energy import host_energy
from tracetool.measure.sampled_activity import activity_notes
from tracetool.replay.energy_source import joined_sources, joules_by_source
from tracetool.replay.gpu_work import gpu_work
from tracetool.replay.group_energy import (
    GroupEnergy,
    GroupTimes,
    RunEnergies,
    run_energies,
)
from tracetool.replay.time_parts import BUSY, PARTS, TimeParts, time_parts
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: Name of the row that all parts sum to.
WHOLE: Final = "run"


@dataclass(frozen=True)
class TimeBudget:
    """A run's time and energy by what it was spent on.

    Parameters
    ----------
    frame : DataFrame
        The ``time_budget`` table: of all GPUs together (``device`` null), then of each.
    span_ms : float
        The run's window, from its first start to its last end. [ms]
    devices : int
        GPUs that worked; times of all together sum to ``devices`` windows.
    gpus : DataFrame
        The ``gpu_work`` table: the GPUs against each other.
    notes : tuple of str
        What the figures rest on.
    throttled : tuple of dict
        ``throttled_share`` of kernel time with its ends and ``source``: measured for each GPU (``device``)
        whose log shows it, else predicted for all together (``device`` None).
    hosts : tuple of dict
        Energy of CPU packages, host memory, modules and nodes over the window, and of the node without its
        GPUs: ``scope``, ``energy_j`` and its 90 % ends, ``power_w``, ``meter``.
    measured_j : float
        Part of the run's energy that logs measured. [J]
    """

    frame: pl.DataFrame
    span_ms: float
    devices: int
    gpus: pl.DataFrame
    notes: tuple[str, ...] = ()
    throttled: tuple[dict[str, Any], ...] = ()
    hosts: tuple[dict[str, Any], ...] = ()
    measured_j: float = 0.0

    @property
    def energy_words(self) -> str:
        """Energy of the run and how it is known; empty where it is not."""
        row = self.together().row(-1, named=True)
        if row["energy_j"] is None:
            return ""
        return joules_by_source(row["energy_j"], row["source"], self.measured_j)

    @property
    def source(self) -> str | None:
        """How the energy of the run is known; None where it is not."""
        return str(s) if (s := self.together()["source"][-1]) is not None else None

    def together(self) -> pl.DataFrame:
        """Return the parts of all GPUs together, and the run."""
        return self.frame.filter(pl.col("device").is_null())


def time_budget(
    run: Run | str | os.PathLike[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    energies: RunEnergies | None = None,
) -> TimeBudget:
    """Return the time budget of a run.

    Parameters
    ----------
    run : Run or path
        The run.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded.
    power : sequence of path
        Power logs in place of the run's.
    tz : str, optional
        Zone of those logs.
    energies : RunEnergies, optional
        Where they have been made already.

    Raises
    ------
    BadInput
        If the run holds no activity, or a log that was given cannot be used.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    run_energy = energies or run_energies(opened, gpu=gpu, power=power, tz=tz)
    gpu_parts = time_parts(opened)
    each = [_device_rows(run_energy, one) for one in gpu_parts]
    all_gpus = _together(each)
    frame = pl.concat(
        [pl.DataFrame(rows, infer_schema_length=None) for rows in (all_gpus, *each)], how="vertical_relaxed"
    )
    notes = list(run_energy.notes)
    if run_energy.measured is not None:
        notes += run_energy.measured.notes
    notes += activity_notes(opened.telemetry)
    hosts, host_notes = host_energy(opened, all_gpus[-1] if all_gpus[-1]["source"] == "measured" else None)
    notes += host_notes
    return TimeBudget(
        load_schema("time_budget").conform(frame),
        gpu_parts[0].span_ns * 1e-6,
        len(gpu_parts),
        gpu_work(opened, run_energy, gpu_parts),
        tuple(notes),
        _throttled(run_energy),
        tuple(hosts),
        all_gpus[-1]["measured_j"],
    )


def _throttled(energies: RunEnergies) -> tuple[dict[str, Any], ...]:
    """Return the throttled share of kernel time: what logs show, else what is predicted."""
    measured = {} if energies.measured is None else energies.measured.throttled
    if measured:
        return tuple({"device": d, "source": "measured", **record} for d, record in measured.items())
    if energies.predicted is None or not energies.predicted.throttled:
        return ()
    return ({"device": None, "source": "predicted", **energies.predicted.throttled},)


def _sets(one: TimeParts) -> GroupTimes:
    """Return the parts of one GPU as sets, the whole last."""
    shared_s = one.shared_s.sum(axis=0)
    n = len(shared_s)
    share = np.zeros((len(PARTS) + 1, n))
    share[: len(BUSY)] = np.divide(one.shared_s, shared_s, out=np.zeros((len(BUSY), n)), where=shared_s > 0)
    share[0, shared_s <= 0] = 1.0  # what lasts no time has its energy all the same
    share[-1] = 1.0
    gap_s, idle_s = (np.append(v, v.sum()) for v in (one.gap_s, one.idle_s))
    pieces = one.pieces
    return GroupTimes(pieces.rows, share, shared_s, gap_s, idle_s, pieces.part, pieces.waits)


def _device_rows(run_energy: RunEnergies, gpu_parts: TimeParts) -> list[dict[str, Any]]:
    sets = _sets(gpu_parts)
    if (outside := gpu_parts.idle.outside_s(run_energy.covered(gpu_parts.device))) is not None:
        place = len(BUSY) + gpu_parts.idle_cause
        each = [np.bincount(place, s, minlength=len(PARTS)) for s in outside]
        sets = replace(sets, outside_s=(np.append(each[0], each[0].sum()), np.append(each[1], each[1].sum())))
    measured = run_energy.measured_of(gpu_parts.device, sets)
    if measured is not None and not np.isfinite(measured.energy_j[-1]):
        measured = None
    predicted = None if run_energy.predicted is None else run_energy.predicted.of(sets)
    time_ms = np.append(gpu_parts.part_ns, gpu_parts.span_ns) * 1e-6
    return _rows(gpu_parts.device, time_ms, measured, predicted)


def _rows(
    device: int | None, time_ms: Floats, measured: GroupEnergy | None, predicted: GroupEnergy | None
) -> list[dict[str, Any]]:
    best = measured or predicted
    sources = None if best is None else best.sources()
    rows = []
    for i, part in enumerate((*PARTS, WHOLE)):
        row: dict[str, Any] = {
            "device": device,
            "part": part,
            "source": None if sources is None else sources[i],
            "measured_j": 0.0 if best is None or best.measured_j is None else float(best.measured_j[i]),
            "time_ms": float(time_ms[i]),
            "time_share": float(time_ms[i] / time_ms[-1]) if time_ms[-1] > 0 else 0.0,
        }
        for stem, energy in (("", best), ("predicted_", predicted)):
            row |= {
                f"{stem}energy_j": None if energy is None else float(energy.energy_j[i]),
                f"{stem}energy_low_j": None if energy is None else float(energy.low_j[i]),
                f"{stem}energy_high_j": None if energy is None else float(energy.high_j[i]),
            }
        whole_j = 0.0 if best is None else float(best.energy_j[-1])
        row["share"] = row["energy_j"] / whole_j if best is not None and whole_j > 0 else None
        joules = row["energy_j"]
        row["power_w"] = 1e3 * joules / row["time_ms"] if joules is not None and row["time_ms"] > 0 else None
        rows.append(row)
    return rows


def _together(each: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the parts of all GPUs: energies and times add up, errors of GPUs are independent."""
    sources = [joined_sources([rows[i]["source"] for rows in each]) for i in range(len(PARTS) + 1)]

    def summed(stem: str) -> GroupEnergy | None:
        values = [[[r[f"{stem}energy{end}_j"] for r in rows] for rows in each] for end in ENDS]
        if any(v is None for end in values for rows in end for v in rows):
            return None
        middle, low, high = (np.array(v, dtype=np.float64) for v in values)
        total = middle.sum(axis=0)
        down, up = (np.sqrt(((middle - v) ** 2).sum(axis=0)) for v in (low, high))
        return GroupEnergy(total, total - down, total + up, np.zeros(len(total), np.int64))

    time_ms = np.sum([[r["time_ms"] for r in rows] for rows in each], axis=0)
    best, predicted = summed(""), summed("predicted_")
    rows = _rows(None, time_ms, best, predicted)
    measured_j = np.sum([[r["measured_j"] for r in rows] for rows in each], axis=0)
    return [
        {**row, "source": sources[i] if best is not None else None, "measured_j": float(measured_j[i])}
        for i, row in enumerate(rows)
    ]
