"""Measured energy of a run by what people name (family, module, range, ...); predicted beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse

from tracetool.core.arrays import Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.kernels.refine import families_of
from tracetool.measure.timeline import GAP_HOLD_S
from tracetool.replay.iterations import named_steps
from tracetool.replay.module_paths import module_names
from tracetool.replay.set_energy import RunEnergies, SetEnergy, SetTimes, run_energies
from tracetool.replay.time_parts import activity_kinds, busy_parts, idle_times
from tracetool.replay.tree import paths
from tracetool.tables.run import Run
from tracetool.tables.schema import load_schema

#: What energy can be asked by.
KEYS: Final = ("signature", "family", "operator", "module", "range", "iteration", "gpu")
#: Groups whose idle time between two of their activities is their own.
_OWN_IDLE: Final = ("module", "range", "iteration", "gpu")
NONE: Final = "(none)"
IDLE_ROW: Final = "(idle)"


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
    work: Mapping[str, float] | None = None,
    depth: int | None = None,
) -> EnergyBy:
    """Return the energy of a run by groups.

    Parameters
    ----------
    run : Run or path
        The run.
    keys : sequence of str
        One or several of :data:`KEYS`.
    gpu, power, tz, sensor_file : optional
        As for :func:`tracetool.measure.attribute.attribute_run`.
    work : mapping of str to float, optional
        Units of work that the whole run did: ``{"tokens": 4096}``.
    depth : int, optional
        Levels of nested modules kept apart, all by default.

    Raises
    ------
    BadInput
        If a key is not known, the run holds no activity or no modules, or ``depth`` does not apply.

    Notes
    -----
    Every activity is in one group. Idle time between two activities of one module, range, iteration or GPU is
    the group's own; the rest is ``(idle)``, so that groups sum to the run exactly.
    """
    bad = [k for k in keys if k not in KEYS]
    if bad or not keys:
        raise BadInput(f"--by {','.join(bad)!r} is not known", f"known: {', '.join(KEYS)}")
    if depth is not None and (depth < 1 or "module" not in keys):
        raise BadInput("--depth is a number of levels of --by module", "e.g. --by module --depth 2")
    opened = run if isinstance(run, Run) else Run.open(run)
    energies = run_energies(opened, gpu=gpu, power=power, tz=tz, sensor_file=sensor_file)
    kernels = opened.kernels
    label, names = _groups(opened, kernels, keys, depth)
    own_idle = any(k in _OWN_IDLE for k in keys)
    blocks = [
        _device_rows(
            opened,
            energies,
            kernels,
            label,
            names,
            int(d),
            own_idle,
            keys == ("gpu",) or list(keys) == ["gpu"],
        )
        for d in kernels["device"].unique().sort().to_list()
    ]
    frame = _summed(pl.concat(blocks, how="vertical_relaxed"), work or {})
    notes = list(energies.notes)
    if energies.measured is not None:
        notes += energies.measured.notes
    return EnergyBy(load_schema("energy_by").conform(frame), tuple(keys), dict(work or {}), tuple(notes))


def _groups(
    run: Run, kernels: pl.DataFrame, keys: Sequence[str], depth: int | None
) -> tuple[Ints, list[str]]:
    """Return the group of each activity and the groups' names, several keys joined by a slash."""
    columns = [
        module_names(run, kernels, depth) if key == "module" else _names(run, kernels, key) for key in keys
    ]
    joined = pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator=" / ")).to_series()
    distinct = joined.unique(maintain_order=True)
    place = joined.replace_strict(distinct, pl.Series(range(len(distinct)), dtype=pl.Int64))
    return place.to_numpy(), distinct.to_list()


def _names(run: Run, kernels: pl.DataFrame, key: str) -> pl.Series:
    if key == "gpu":
        return kernels.select(pl.format("GPU {}", "device").alias(key)).to_series()
    if key in ("signature", "family"):
        rows = run.signatures.sort("signature")
        family = families_of(rows)
        text = (
            family if key == "family" else rows.select(pl.format("{} #{}", "name", "signature")).to_series()
        )
        named = rows.select("signature").with_columns(text.fill_null(NONE).alias("text"))
        joined = kernels.select("signature").join(named, on="signature", how="left", maintain_order="left")
        return joined["text"].alias(key)
    if key == "operator":
        table = run.table("operators", ["operator", "name"]).rename({"name": "text"})
        joined = kernels.select("operator").join(table, on="operator", how="left", maintain_order="left")
        return joined["text"].fill_null(NONE).alias(key)
    if key == "range":
        placed = paths(run.table("ranges"), "range")
        joined = kernels.select("range").join(
            placed.select("range", "name"), on="range", how="left", maintain_order="left"
        )
        return joined["name"].fill_null(NONE).alias(key)
    launches = kernels.select("launch_ns", "signature")
    number, names = named_steps(run.table("ranges"), launches)
    if number is None:
        number, names = named_steps(run.table("operators"), launches)
    if number is None:
        raise BadInput.in_file(
            run.path, "holds no named steps", "mark them: record_function, NVTX or roctx ranges"
        )
    return pl.Series(key, [*names, NONE]).gather(np.where(number < 0, len(names), number))


def _device_rows(
    run: Run,
    energies: RunEnergies,
    kernels: pl.DataFrame,
    label: Ints,
    names: list[str],
    device: int,
    own_idle: bool,
    all_idle: bool,
) -> pl.DataFrame:
    start_all = kernels["start_ns"].to_numpy()
    end_all = start_all + kernels["duration_ns"].to_numpy()
    rows = np.flatnonzero(kernels["device"].to_numpy() == device)
    start, end = start_all[rows], end_all[rows]
    _, parts_s = busy_parts(start, end, activity_kinds(run, kernels)[rows])
    here, group = np.unique(label[rows], return_inverse=True)
    g = len(here)
    idle = idle_times(start, end, rows, (int(start_all.min()), int(end_all.max())))
    length_s = (idle.end_ns - idle.start_ns) * 1e-9
    held_s = np.where(idle.after >= 0, np.minimum(length_s, GAP_HOLD_S), 0.0)
    before, after = label[np.maximum(idle.before, 0)], label[np.maximum(idle.after, 0)]
    own = (idle.before >= 0) & (idle.after >= 0) & (before == after) & own_idle
    owner = np.where(own, np.searchsorted(here, before), g)
    if all_idle:
        owner = np.zeros(len(owner), np.int64)
    gap_s = np.bincount(owner, held_s, minlength=g + 1)
    idle_s = np.bincount(owner, length_s - held_s, minlength=g + 1)
    shared_s = parts_s.sum(axis=0)
    n = len(rows)
    places = np.concatenate([group, np.full(n, g + 1)])
    share = sparse.csr_matrix((np.ones(2 * n), (places, np.tile(np.arange(n), 2))), shape=(g + 2, n))
    sets = SetTimes(rows, share, shared_s, np.append(gap_s, gap_s.sum()), np.append(idle_s, idle_s.sum()))
    measured = energies.measured_of(device, sets)
    if measured is not None and not np.isfinite(measured.energy_j[-1]):
        measured = None
    predicted = None if energies.predicted is None else energies.predicted.of(sets)
    launches = np.append(np.bincount(group, minlength=g), [0, len(rows)])
    busy_ms = np.append(np.bincount(group, shared_s, minlength=g), [0.0, shared_s.sum()]) * 1e3
    columns: dict[str, Any] = {
        "name": [*(names[i] for i in here), IDLE_ROW, "run"],
        "device": device,
        "launches": launches,
        "time_ms": busy_ms,
        "idle_ms": (sets.gap_s + sets.idle_s) * 1e3,
        "source": None if (measured or predicted) is None else "measured" if measured else "predicted",
        "identified": None if measured is None else measured.identified.astype(bool),
    }
    for stem, energy in (("", measured or predicted), ("predicted_", predicted)):
        columns |= _ends(stem, energy, len(launches))
    frame = pl.DataFrame(columns, schema_overrides={"source": pl.String, "identified": pl.Boolean})
    return frame.filter((pl.col("launches") > 0) | (pl.col("idle_ms") > 0) | (pl.col("name") == "run"))


def _ends(stem: str, energy: SetEnergy | None, count: int) -> dict[str, Floats]:
    nothing = np.full(count, np.nan)
    values = (nothing,) * 3 if energy is None else (energy.energy_j, energy.low_j, energy.high_j)
    return {f"{stem}energy{end}_j": v for end, v in zip(("", "_low", "_high"), values, strict=True)}


def _summed(rows: pl.DataFrame, work: Mapping[str, float]) -> pl.DataFrame:
    """Add up the groups of one name over GPUs, whose errors are independent; the run comes last."""
    floats = [c for c, t in rows.schema.items() if t == pl.Float64]
    rows = rows.with_columns(pl.col(floats).fill_nan(None))

    def end(stem: str, side: str) -> pl.Expr:
        middle, edge = pl.col(f"{stem}energy_j"), pl.col(f"{stem}energy_{side}_j")
        apart = ((middle - edge) ** 2).sum().sqrt()
        total = middle.sum()
        return (total - apart if side == "low" else total + apart).alias(f"{stem}energy_{side}_j")

    whole = pl.col("name") == "run"
    summed = rows.group_by("name", maintain_order=True).agg(
        pl.col("launches", "time_ms", "idle_ms").sum(),
        *(pl.col(f"{s}energy_j").sum() for s in ("", "predicted_")),
        *(end(s, side) for s in ("", "predicted_") for side in ("low", "high")),
        *(pl.col(f"{s}energy_j").has_nulls().alias(f"{s}open") for s in ("", "predicted_")),
        pl.col("source").drop_nulls().unique().sort().str.join(", ").alias("source"),
        pl.col("identified").all(),
    )
    for stem in ("", "predicted_"):
        ends = [f"{stem}energy{e}_j" for e in ("", "_low", "_high")]
        summed = summed.with_columns(pl.when(~pl.col(f"{stem}open")).then(pl.col(c)).alias(c) for c in ends)
    joules = pl.col("energy_j")
    span_ms = pl.col("time_ms") + pl.col("idle_ms")
    units = [(joules / amount).alias(f"j_per_{unit}") for unit, amount in work.items()]
    summed = summed.with_columns(
        (joules / joules.filter(whole).first()).alias("share"),
        pl.when(span_ms > 0).then(1e3 * joules / span_ms).alias("power_w"),
        *units[:1],
    )
    if work:
        unit = next(iter(work))
        summed = summed.rename({f"j_per_{unit}": "energy_per_unit_j"}).with_columns(
            pl.lit(unit).alias("unit")
        )
    return summed.sort(whole, joules, descending=[False, True], nulls_last=True, maintain_order=True)
