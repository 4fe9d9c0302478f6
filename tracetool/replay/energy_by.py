"""Measured energy of a run by what people name (family, module, range, ...); predicted beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.core.arrays import Floats
from tracetool.core.interval import ENDS
from tracetool.replay.energy_source import MEASURED
from tracetool.replay.group_energy import GroupEnergy, GroupTimes, RunEnergies, run_energies
from tracetool.replay.groups import Groups, check_depth, groups_of, parse_keys
from tracetool.replay.time_parts import busy_parts
from tracetool.replay.unidentified_sets import GpuGroups, joint_sets, set_sentences
from tracetool.replay.work_units import Work, annotated_work
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema
from tracetool.tables.windows import refuse_large

#: Name of the row that all groups sum to.
RUN_ROW: Final = "run"


@dataclass(frozen=True)
class EnergyBy:
    """Energy of a run by groups.

    Parameters
    ----------
    frame : DataFrame
        The ``energy_by`` table, highest energy first; ``run`` is the sum, last.
    keys : tuple of str
        What it is by.
    work : mapping of str to float
        Units of work done by the whole run.
    notes : tuple of str
        What the figures rest on.
    """

    frame: pl.DataFrame
    keys: tuple[str, ...]
    work: Mapping[str, float]
    notes: tuple[str, ...] = ()


def energy_by(
    run: Run | str | os.PathLike[str],
    keys: Sequence[str],
    *,
    gpu: str | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
    work: Mapping[str, float | None] | None = None,
    depth: int | None = None,
    energies: RunEnergies | None = None,
    groups: Groups | None = None,
) -> EnergyBy:
    """Return the energy of a run by groups.

    Parameters
    ----------
    run : Run or path
        The run.
    keys : sequence of str
        One or several of :data:`tracetool.replay.groups.KEYS`.
    gpu, power, tz, sensor_file : optional
        As for :func:`tracetool.measure.attribute.attribute_run`.
    work : mapping of str to float, optional
        Units of work that the whole run did: ``{"tokens": 4096}``; None takes them from its steps' names.
    depth : int, optional
        Levels of nested modules kept apart, all by default.
    energies : RunEnergies, optional
        Where the run has been attributed and predicted already.
    groups : Groups, optional
        Where it has been grouped by these keys already.

    Raises
    ------
    BadInput
        If a key is not known, the run holds no activity or no modules, or ``depth`` does not apply.

    Notes
    -----
    Every activity and every idle time is in one group (:func:`tracetool.replay.groups.groups_of`), so that
    groups sum to the run exactly.
    """
    keys = parse_keys(keys)
    check_depth(keys, depth)
    opened = run if isinstance(run, Run) else Run.open(run)
    refuse_large(opened, f"groups by {','.join(keys)}", "leave out --by")
    groups = groups or groups_of(opened, keys, depth)
    energies = energies or run_energies(opened, gpu=gpu, power=power, tz=tz, sensor_file=sensor_file)
    kernels = opened.kernels
    blocks, gpu_groups = zip(
        *(_device_rows(energies, kernels, groups, device) for device in groups.idle), strict=True
    )
    done = _work(opened, work or {}, tuple(keys))
    frame = _summed(pl.concat(blocks, how="vertical_relaxed"), done)
    measured = [groups_of_gpu for groups_of_gpu in gpu_groups if groups_of_gpu is not None]
    if len(measured) == len(gpu_groups):
        apart = joint_sets(measured)
        frame = frame.drop("identified").join(apart, on=["name", "whole"], how="left", maintain_order="left")
    frame = load_schema("energy_by").conform(frame)
    notes = [*set_sentences(frame), *energies.notes]
    if energies.measured is not None:
        notes += [n for n in energies.measured.notes if n not in energies.measured.class_notes]
    return EnergyBy(frame, tuple(keys), {w.unit: w.whole for w in done}, tuple(notes))


def gpu_groups(energies: RunEnergies, groups: Groups) -> pl.DataFrame:
    """Return the energy of each GPU's groups, as :func:`energy_by` sums them over GPUs.

    Parameters
    ----------
    energies : RunEnergies
        What is known of the run's energy.
    groups : Groups
        The run's groups.

    Returns
    -------
    DataFrame
        ``device``, ``name``, ``whole`` (whether it is the GPU's sum, its last row), ``launches``,
        ``time_ms``, ``idle_ms``, ``source``, ``identified``; ``energy_j`` and ``predicted_energy_j`` with
        their 90 % intervals [J], null where not determined.
    """
    kernels = energies.run.kernels
    rows = pl.concat([_device_rows(energies, kernels, groups, d)[0] for d in groups.idle])
    return rows.with_columns(pl.col(pl.Float64).fill_nan(None))


def _work(run: Run, work: Mapping[str, float | None], keys: tuple[str, ...]) -> list[Work]:
    """Return the work given, or that the run's steps state where no amount is."""
    return [
        annotated_work(run, unit, keys) if amount is None else Work(unit, amount, {})
        for unit, amount in work.items()
    ][:1]


def _device_rows(
    energies: RunEnergies, kernels: pl.DataFrame, groups: Groups, device: int
) -> tuple[pl.DataFrame, GpuGroups | None]:
    """Return the groups of a GPU, its sum last, and their measured energies; None where there are none."""
    start_all = kernels["start_ns"].to_numpy()
    rows = np.flatnonzero(kernels["device"].to_numpy() == device)
    start = start_all[rows]
    end = start + kernels["duration_ns"].to_numpy()[rows]
    _, parts_s = busy_parts(start, end, energies.kinds[rows])
    n = len(rows)
    present, place = np.unique(
        np.concatenate([groups.of_activity[rows], groups.of_idle[device]]), return_inverse=True
    )
    group, owner = place[:n], place[n:]
    g = len(present)
    held_s, rest_s = groups.idle[device].held_s()
    gap_s, idle_s = (np.bincount(owner, s, minlength=g) for s in (held_s, rest_s))
    shared_s = parts_s.sum(axis=0)
    places = np.concatenate([group, np.full(n, g)])
    share = sparse.csr_matrix((np.ones(2 * n), (places, np.tile(np.arange(n), 2))), shape=(g + 1, n))
    sets = GroupTimes(rows, share, shared_s, np.append(gap_s, gap_s.sum()), np.append(idle_s, idle_s.sum()))
    if (outside := groups.idle[device].outside_s(energies.covered(device))) is not None:
        each = [np.bincount(owner, s, minlength=g) for s in outside]
        sets = replace(sets, outside_s=(np.append(each[0], each[0].sum()), np.append(each[1], each[1].sum())))
    measured = energies.measured_of(device, sets)
    if measured is not None and not np.isfinite(measured.energy_j[-1]):
        measured = None
    predicted = None if energies.predicted is None else energies.predicted.of(sets)
    best = measured or predicted
    busy_ms = np.append(np.bincount(group, shared_s, minlength=g), shared_s.sum()) * 1e3
    names = [*(groups.names[i] for i in present), RUN_ROW]
    columns: dict[str, Any] = {
        "name": names,
        "whole": [False] * g + [True],
        "device": device,
        "launches": np.append(np.bincount(group, minlength=g), n),
        "time_ms": busy_ms,
        "idle_ms": (sets.gap_s + sets.idle_s) * 1e3,
        "source": None if best is None else best.sources(),
        "measured_j": 0.0 if best is None or best.measured_j is None else best.measured_j,
        "identified": None if measured is None else measured.identified.astype(bool),
    }
    for stem, energy in (("", best), ("predicted_", predicted)):
        columns |= _ends(stem, energy, g + 1)
    frame = pl.DataFrame(columns, schema_overrides={"source": pl.String, "identified": pl.Boolean})
    summed = None if measured is None else measured.summed
    return frame, None if summed is None else GpuGroups(names, summed)


def _ends(stem: str, energy: GroupEnergy | None, count: int) -> dict[str, Floats]:
    nothing = np.full(count, np.nan)
    values = (nothing,) * 3 if energy is None else (energy.energy_j, energy.low_j, energy.high_j)
    return {f"{stem}energy{end}_j": v for end, v in zip(ENDS, values, strict=True)}


def _summed(rows: pl.DataFrame, work: list[Work]) -> pl.DataFrame:
    """Add up the groups of one name over GPUs, whose errors are independent; the run comes last."""
    floats = [c for c, t in rows.schema.items() if t == pl.Float64]
    rows = rows.with_columns(pl.col(floats).fill_nan(None))

    def end(stem: str, side: str) -> pl.Expr:
        middle, edge = pl.col(f"{stem}energy_j"), pl.col(f"{stem}energy_{side}_j")
        apart = ((middle - edge) ** 2).sum().sqrt()
        total = middle.sum()
        return (total - apart if side == "low" else total + apart).alias(f"{stem}energy_{side}_j")

    is_run = pl.col("whole")
    summed = rows.group_by("name", "whole", maintain_order=True).agg(
        pl.col("launches", "time_ms", "idle_ms", "measured_j").sum(),
        *(pl.col(f"{s}energy_j").sum() for s in ("", "predicted_")),
        *(end(s, side) for s in ("", "predicted_") for side in ("low", "high")),
        *(pl.col(f"{s}energy_j").has_nulls().alias(f"{s}open") for s in ("", "predicted_")),
        pl.col("source")
        .drop_nulls()
        .str.split(", ")
        .explode()
        .unique()
        .sort()
        .str.join(", ")
        .alias("source"),
        pl.when(pl.col("identified").has_nulls())
        .then(None)
        .otherwise(pl.col("identified").all())
        .alias("identified"),
    )
    for stem in ("", "predicted_"):
        ends = [f"{stem}energy{e}_j" for e in ENDS]
        summed = summed.with_columns(pl.when(~pl.col(f"{stem}open")).then(pl.col(c)).alias(c) for c in ends)
    logged = pl.col("source").str.contains(MEASURED) | (pl.col("measured_j") > 0.0)
    summed = summed.with_columns(pl.when(logged).then(pl.col("measured_j")))  # not 0 J where nothing measured
    joules = pl.col("energy_j")
    span_ms = pl.col("time_ms") + pl.col("idle_ms")
    summed = summed.with_columns(
        (joules / joules.filter(is_run).first()).alias("share"),
        pl.when(span_ms > 0).then(1e3 * joules / span_ms).alias("power_w"),
    )
    for one in work:
        whole_work = pl.lit(one.whole)
        if one.groups:  # a group's energy over its own work
            group_work = pl.col("name").replace_strict(one.groups, default=None, return_dtype=pl.Float64)
            whole_work = pl.when(is_run).then(whole_work).otherwise(group_work)
        summed = summed.with_columns(
            whole_work.alias("work"),
            (joules / whole_work).alias("energy_per_unit_j"),
            pl.when(joules > 0).then(whole_work / joules).alias("units_per_joule"),
            pl.lit(one.unit).alias("unit"),
        )
    return summed.sort(is_run, joules, descending=[False, True], nulls_last=True, maintain_order=True)
