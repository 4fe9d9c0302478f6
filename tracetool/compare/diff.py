"""Diff: predicted against measured in one run, or two sides of runs against each other, like with like.

Kernels that ran after other work on one side than on the other are named: their caches and clocks differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.changes import DiffRequest, compare_sides
from tracetool.compare.diff_run import accuracy_of, diff_run
from tracetool.compare.outcome import RunDiff
from tracetool.compare.pairing import pair_sides
from tracetool.compare.requested_runs import chosen_basis, expand
from tracetool.compare.run_options import RunOptions
from tracetool.compare.run_side import LoadedRun, load_run
from tracetool.compare.same_recording import recorded_traces
from tracetool.compare.sides import RunClasses, Side, make_side, same_clock
from tracetool.compare.spread import Spread, repeated, single_run_prior
from tracetool.compare.thresholds import Threshold
from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.measure.fingrav.history import context_labels
from tracetool.measure.fingrav.interleaving import CONTEXTS
from tracetool.replay.predict import predict_run
from tracetool.tables.run import Run

#: Part of a kernel's time that must have changed its context, and of a side's energy it must be.
_MOVED: Final = 0.5
_WORTH: Final = 0.01
_MOST: Final = 3
#: Part of a run's device time outside its steps that is said. [1] Prior.
_OUTSIDE: Final = 0.05


def context_shares(run: Run, power_w: pl.DataFrame) -> dict[str, Floats]:
    """Return for each kernel name the share of its time in each context of ``CONTEXTS``.

    Parameters
    ----------
    run : Run
        The run.
    power_w : DataFrame
        ``signature`` and ``power_w``: how heavy each kind of work is.
    """
    kernels = (
        run.kernels.select("signature", "device", "start_ns", "duration_ns")
        .with_columns(pl.col("signature").cast(pl.Int64))
        .join(power_w.unique("signature"), on="signature", how="inner")
        .join(run.signatures.select(pl.col("signature").cast(pl.Int64), "name"), on="signature", how="left")
        .sort("start_ns")
    )
    shares: dict[str, Floats] = {}
    for device_kernels in kernels.partition_by("device"):
        start = (device_kernels["start_ns"] - device_kernels["start_ns"][0]).to_numpy().astype(
            np.float64
        ) * 1e-9
        length = device_kernels["duration_ns"].to_numpy().astype(np.float64) * 1e-9
        contexts = context_labels(start, start + length, device_kernels["power_w"].to_numpy())
        context_times = pl.DataFrame(
            {"name": device_kernels["name"], "context": contexts.astype(str), "s": length}
        )
        for row in (
            context_times.group_by("name", "context", maintain_order=True)
            .agg(pl.col("s").sum())
            .iter_rows(named=True)
        ):
            seconds_by_context = shares.setdefault(row["name"], np.zeros(len(CONTEXTS)))
            seconds_by_context[CONTEXTS.index(row["context"])] += row["s"]
    return {name: spent / max(float(spent.sum()), 1e-300) for name, spent in shares.items()}


def context_changes(base: Sequence[LoadedRun], head: Sequence[LoadedRun]) -> list[str]:
    """Return a sentence per kernel that ran in another context on the head side; measured energies only."""
    if not base or not head or base[0].basis != "measured":
        return []
    base_profile, head_profile = _side(base[0]), _side(head[0])
    if base_profile is None or head_profile is None:
        return []
    moved = []
    for name in base_profile[0].keys() & head_profile[0].keys():
        worth = max(base_profile[1].get(name, 0.0), head_profile[1].get(name, 0.0))
        apart = 0.5 * float(np.abs(base_profile[0][name] - head_profile[0][name]).sum())
        if apart >= _MOVED and worth >= _WORTH:
            moved.append((worth, name))
    moved.sort(reverse=True)
    notes = [
        f"{name[:80]} ran {_most(base_profile[0][name])} in base, {_most(head_profile[0][name])} in head:"
        " power lingers from"
        " what ran before, so part of its change need not be its own (see tracetool profile)"
        for _, name in moved[:_MOST]
    ]
    if len(moved) > _MOST:
        notes.append(f"{counted(len(moved) - _MOST, 'more kernel')} ran in another context in head")
    return notes


def _side(loaded: LoadedRun) -> tuple[dict[str, Floats], dict[str, float]] | None:
    """Context shares and energy shares of a run's kernels by name."""
    if loaded.run is None or loaded.signatures is None:
        return None
    rows = loaded.classes.classes.select("name", "time_s", "energy_j").with_columns(
        loaded.signatures.cast(pl.Int64).alias("signature")
    )
    with_power = rows.filter((pl.col("time_s") > 0) & pl.col("energy_j").is_not_null())
    power = with_power.select("signature", (pl.col("energy_j") / pl.col("time_s")).alias("power_w"))
    total = max(float(with_power["energy_j"].sum()), 1e-300)
    worth = {
        str(n): float(e) / total
        for n, e in with_power.group_by("name", maintain_order=True).agg(pl.col("energy_j").sum()).iter_rows()
    }
    return context_shares(loaded.run, power), worth


def _most(shares: Floats) -> str:
    """Return the context a kernel spent most time in."""
    best = int(np.argmax(shares))
    return f"{CONTEXTS[best]} ({shares[best]:.0%} of its time)"


__all__ = ["accuracy_of", "diff_run", "diff_runs", "diff_sides", "load_sides"]

_NO_RATIOS: Final = {
    "side": pl.String, "class": pl.Int64, "clock_time_ratio": pl.Float64, "clock_power_ratio": pl.Float64,
    "work_s": pl.Float64,
}  # fmt: skip
_BASES: Final = {
    "measured": "energies measured",
    "anchored": "energies anchored on measured times",
    "predicted": "times and energies predicted, unanchored",
}


def diff_runs(
    base: Sequence[str | os.PathLike[str]],
    head: Sequence[str | os.PathLike[str]],
    *,
    options: RunOptions | None = None,
    ignore: Sequence[str] = (),
) -> RunDiff:
    """Compare two sides of one run or several each.

    Parameters
    ----------
    base, head : sequence of path
        Run folders, folders of runs, patterns, or operator tables (compared through the model).
    options : RunOptions, optional
        What energies to compare (measured where every run has a power log, by default), GPU and clocks.
    ignore : sequence of str
        Families and name patterns left out on both sides.

    Raises
    ------
    BadInput
        If a side is empty, or a run cannot be read.
    """
    options = options or RunOptions()
    base_runs, head_runs = load_sides(base, head, options)
    return diff_sides(base_runs, head_runs, ignore=ignore, by=options.by)


def load_sides(
    base: Sequence[str | os.PathLike[str]], head: Sequence[str | os.PathLike[str]], options: RunOptions
) -> tuple[list[LoadedRun], list[LoadedRun]]:
    """Return both sides' runs, their energies of one basis."""
    paths = [expand([Path(p) for p in side]) for side in (base, head)]
    for side, side_paths in zip(("base", "head"), paths, strict=True):
        if not side_paths:
            raise BadInput(f"the {side} side holds no run", "give tracetool diff BASE HEAD")
    opened: dict[Path, Run] = {}
    basis = chosen_basis([*paths[0], *paths[1]], options.basis, opened)
    loaded: dict[Path, LoadedRun] = {}
    for path in (*paths[0], *paths[1]):
        if path.resolve() not in loaded:
            loaded[path.resolve()] = load_run(path, basis, options, opened)
    return [loaded[p.resolve()] for p in paths[0]], [loaded[p.resolve()] for p in paths[1]]


def diff_sides(
    base: Sequence[LoadedRun],
    head: Sequence[LoadedRun],
    *,
    thresholds: Sequence[Threshold] = (),
    spreads: Mapping[str, Spread] | None = None,
    ignore: Sequence[str] = (),
    by: tuple[str, ...] = (),
) -> RunDiff:
    """Compare loaded runs.

    Parameters
    ----------
    base, head : sequence of LoadedRun
        Runs of each side.
    thresholds : sequence of Threshold
        Limits a regression must pass.
    spreads : mapping of str to Spread, optional
        Run-to-run spread by metric (``energy``) or scope and metric (``gemm:energy``), from a history.
    ignore : sequence of str
        Families and name patterns left out on both sides.
    by : tuple of str
        Keys of the groups to compare beside the kernels.

    Raises
    ------
    BadInput
        If a threshold covers nothing.
    """
    basis = base[0].basis
    per_step = all(r.classes.steps > 0 for r in (*base, *head))
    sides = [make_side([r.classes for r in runs], per_step=per_step, ignore=ignore) for runs in (base, head)]
    warnings = _same_recordings(base, head)
    if basis != "predicted" and not (warnings and len(base) == len(head) == 1):
        warnings += _unrepeated(base, head, spreads or {})
    if len({r.classes.steps for r in (*base, *head)}) > 1 and not per_step:
        warnings.append("not every run marks steps: whole runs are compared, whatever their length")
    if per_step:
        warnings += _outside_steps([r.classes for r in (*base, *head)])
    parts = pair_sides(sides[0], sides[1])
    ratios, clock_notes = _clock_ratios(base, head, sides, reshaped="reshaped" in parts["relation"])
    notes = [f"{len(base)} base and {counted(len(head), 'head run')}, per {sides[0].unit}", *clock_notes]
    run_notes = dict.fromkeys(n for r in (*base, *head) for n in r.notes)
    gpus = " and ".join(dict.fromkeys(r.classes.keys.get("GPU", "?") for r in (*base, *head)))
    setting = f"{gpus}, {_BASES[basis]}, per {sides[0].unit}"
    return compare_sides(
        sides[0],
        sides[1],
        DiffRequest(basis, tuple(thresholds), spreads or {}),
        parts=parts,
        clock_ratios=ratios,
        setting=setting,
        notes=(*notes, *context_changes(base, head), *run_notes),
        modeled_pct=_modeled_pct(base, head, per_step=per_step),
        warnings=tuple(warnings),
        by=by,
    )


def _same_recordings(base: Sequence[LoadedRun], head: Sequence[LoadedRun]) -> list[str]:
    """Return a sentence where a run of one side is one of the other, or a copy of it; none otherwise."""
    if base[0] is head[0]:
        return ["base and head are the same run: its figures have no run-to-run spread"]
    recorded = {traces: run.classes.label for run in base if (traces := recorded_traces(run.run))}
    pairs = [(recorded[t], run.classes.label) for run in head if (t := recorded_traces(run.run)) in recorded]
    if not pairs:
        return []
    return [f"{pairs[0][0]} and {pairs[0][1]} are the same recording: nothing was run twice"]


def _outside_steps(runs: Sequence[RunClasses]) -> list[str]:
    """Return a sentence where much of a run's work lies in no step, for figures per step count it too."""
    outside = {
        run.label: 1.0 - float(run.steps_taken.times["time_s"].sum()) / whole_s
        for run in runs
        if run.steps_taken is not None and (whole_s := float(run.classes["time_s"].sum())) > 0
    }
    label = max(outside, key=lambda name: outside[name], default="")
    if not label or outside[label] < _OUTSIDE:
        return []
    share = f"{100 * outside[label]:.0f} % of the device time of {label}"
    counted_too = "lies outside its steps and is counted (diff --by range keeps it apart)"
    return [f"per step: whole runs over their steps; {share} {counted_too}"]


def _unrepeated(
    base: Sequence[LoadedRun], head: Sequence[LoadedRun], spreads: Mapping[str, Spread]
) -> list[str]:
    """Return the basis of intervals where no side shows its own run-to-run spread."""
    if repeated(len(base), len(head)):
        return []
    assumed = ", ".join(
        f"{metric} {100 * spread.relative:g} % ({'stated' if metric in spreads else 'a prior'})"
        for metric in ("time", "energy")
        for spread in [spreads.get(metric, single_run_prior(metric, base[0].basis))]
    )
    advice = "three or more runs a side, or kept baselines, show their own"
    return [f"run-to-run spread assumed, without repeated runs: {assumed}; {advice}"]


def _modeled_pct(base: Sequence[LoadedRun], head: Sequence[LoadedRun], *, per_step: bool) -> float | None:
    """Return the change of energy the model sees from the same times, beside the measured one. [%]"""
    means = []
    for side in (base, head):
        joules = [r.modeled_j / (r.classes.steps if per_step else 1) for r in side if r.modeled_j is not None]
        if len(joules) < len(side):
            return None
        means.append(sum(joules) / len(joules))
    return 100.0 * (means[1] / means[0] - 1.0) if means[0] > 0 else None


def _clock_ratios(
    base: Sequence[LoadedRun], head: Sequence[LoadedRun], sides: Sequence[Side], *, reshaped: bool
) -> tuple[pl.DataFrame, list[str]]:
    """Return the effect of the change of clock alone on each class, by the model, and each class's work."""
    clocks = [s.clock_mhz for s in sides]
    recorded = all(r.clock_recorded for r in (*base, *head))
    differ = not same_clock(*clocks) and recorded
    ratios = []
    asks = (base, head) if reshaped else (base,) if differ else ()
    for name, runs, side in zip(("base", "head"), asks, sides, strict=False):
        first = runs[0]
        if first.run is None or first.signatures is None:
            continue
        clocks_mhz = [clocks[0], clocks[1]] if differ and name == "base" else [clocks[0]]
        ratios.append(_ratios(first, side, clocks_mhz, name))
    notes = [f"clock: {clocks[0]:g} MHz base, {clocks[1]:g} MHz head"] if differ else []
    if not recorded:
        notes.append("a clock was not recorded: no part of the change is put down to it")
    return (pl.concat(ratios) if ratios else pl.DataFrame(schema=_NO_RATIOS)), notes


def _ratios(loaded: LoadedRun, side: Side, clocks: Sequence[float], name: str) -> pl.DataFrame:
    assert loaded.run is not None
    assert loaded.signatures is not None
    gpu = loaded.classes.keys.get("GPU")
    # only shapes and clocks are compared, so the model speaks alone, not scaled to the recorded times
    rows = predict_run(loaded.run, gpu, list(clocks), anchor=False).signatures
    by = rows.sort("signature", "clock_mhz", maintain_order=True).group_by("signature", maintain_order=True)
    one = by.agg(
        pl.col("duration_us").sort_by((pl.col("clock_mhz") - clocks[0]).abs()).first().alias("t0"),
        pl.col("duration_us").sort_by((pl.col("clock_mhz") - clocks[-1]).abs()).first().alias("t1"),
        pl.col("power_w").sort_by((pl.col("clock_mhz") - clocks[0]).abs()).first().alias("p0"),
        pl.col("power_w").sort_by((pl.col("clock_mhz") - clocks[-1]).abs()).first().alias("p1"),
    )
    signature = pl.DataFrame({"signature": loaded.signatures.cast(pl.Int64)})
    placed = signature.with_columns(side.first_run_classes.alias("class"))
    return (
        placed.join(one.with_columns(pl.col("signature").cast(pl.Int64)), on="signature", how="inner")
        .group_by("class", maintain_order=True)
        .agg(
            (pl.col("t1").sum() / pl.col("t0").sum()).alias("clock_time_ratio"),
            (pl.col("p1").mean() / pl.col("p0").mean()).alias("clock_power_ratio"),
            (pl.col("t0").mean() / 1e6).alias("work_s"),
        )
        .select(pl.lit(name).alias("side"), "class", "clock_time_ratio", "clock_power_ratio", "work_s")
    )
