"""Sweep: energy against time over clocks and power caps, the best of them, and the best per family."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.replay.assumptions import NOTHING_ASSUMED, Assumptions
from tracetool.replay.operating_points import Clocks, front, least
from tracetool.replay.optimum_prior import UsualOptimum
from tracetool.replay.predict import PredictedRun, PredictedTable, predict
from tracetool.replay.recording_conditions import recorded_gpu, usual_clock
from tracetool.replay.sweep_families import family_choices
from tracetool.replay.unnamed_gpu import no_gpu
from tracetool.tables.run_folder import is_run_path

#: Clocks asked by default: this many steps from this share of the highest clock up.
_CLOCKS: Final = 41
_LOWEST: Final = 0.35
#: Errors of two clocks of one run are mostly the same coefficients': share of the variance in common.
COMMON: Final = 0.9

#: What is made least: energy times this power of the time.
GOALS: Final = {"energy": 0, "energy x time": 1, "energy x time²": 2}


@dataclass(frozen=True)
class Swept:
    """Operating points of a run or table, and the best of them."""

    points: pl.DataFrame  # one row per clock and cap: time, energy, products, front
    best: pl.DataFrame  # one row per goal
    families: pl.DataFrame  # one row per family: its own best clock
    gpu: str
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    def clocks(self) -> Clocks:
        """Return the run at each clock; points under caps are left out."""
        free = self.points.filter(pl.col("power_cap_w").is_null()).sort("clock_mhz")
        return Clocks(*(free[c].to_numpy() for c in _PICTURE))


_PICTURE: Final = ("clock_mhz", "makespan_ms", "energy_j", "energy_low_j", "energy_high_j")


def sweep(
    source: str | os.PathLike[str] | pl.DataFrame,
    gpu: str | None = None,
    clocks_mhz: Sequence[float] | None = None,
    caps_w: Sequence[float] = (),
    *,
    mem_clock_mhz: float | None = None,
    launch: str | None = None,
    anchor: str | None = None,
    slowdown: float = 0.05,
    against_mhz: float | None = None,
    assumed: Assumptions = NOTHING_ASSUMED,
) -> Swept:
    """Predict a run or table over clocks and power caps and choose among them.

    Parameters
    ----------
    source : path
        A run, or an operator or kernel table.
    gpu : str, optional
        The GPU; a run states its own.
    clocks_mhz : sequence of float, optional
        Clocks; by default 41 of the GPU's from 35 % of its highest up. [MHz]
    caps_w : sequence of float
        Power caps to try beside, each at the highest clock asked. [W]
    mem_clock_mhz, launch, anchor
        As in :func:`tracetool.replay.predict.predict`.
    slowdown : float
        How much longer than at the reference is allowed for the goal ``within``: 0.05 is 5 %. [1]
    against_mhz : float, optional
        The reference: the clock, without a further cap, that gains are stated against; by default the
        one a run was recorded at, else the one ``predict`` uses by default. It is swept too. [MHz]
    assumed : Assumptions
        Calibrations of the user's own, and temperatures.

    Raises
    ------
    BadInput
        If the source, a clock or a cap cannot be used.
    """
    gpu_spec, usual = _target(source, gpu)
    reference = usual if against_mhz is None else against_mhz
    clocks = with_reference(clocks_mhz or default_clocks(gpu_spec), reference)
    options: dict[str, Any] = {"mem_clock_mhz": mem_clock_mhz, "launch": launch, "anchor": anchor}
    options["assumed"] = assumed
    free = predict(source, gpu, clocks, **options)
    capped = []
    for cap in caps_w:
        if not cap > 0:
            raise BadInput(f"a power cap of {cap:g} W is not above zero")
        capped.append((cap, predict(source, gpu, [max(clocks)], power_cap_w=cap, **options)))
    return choose(free, reference, slowdown, capped)


def choose(
    free: PredictedTable | PredictedRun,
    reference_mhz: float,
    slowdown: float = 0.05,
    capped: Sequence[tuple[float, PredictedTable | PredictedRun]] = (),
) -> Swept:
    """Choose among the clocks of a prediction, ``reference_mhz`` among them, and predictions under caps."""
    points = pl.concat([_points(free, None), *(_points(prediction, cap) for cap, prediction in capped)])
    on_front = front(points["makespan_ms"].to_numpy(), points["energy_j"].to_numpy())
    points = points.with_columns(pl.Series("pareto", on_front))
    away = points.select(
        pl.when(pl.col("power_cap_w").is_null()).then((pl.col("clock_mhz") - reference_mhz).abs())
    )
    reference = int(away.to_series().arg_min() or 0)
    common = free.usual_optimum if isinstance(free, PredictedTable) else None
    drawn = () if common is None else (common.note(),)
    notes = (*free.notes, *drawn, f"savings are against {reference_mhz:g} MHz without a further cap")
    advice = {k: free.info[k] for k in ("second_clock",) if k in free.info}
    if common is not None:
        advice["usual_optimum"] = asdict(common)
    return Swept(
        points,
        best_points(points, reference, slowdown, common),
        family_choices(free, reference_mhz, slowdown, COMMON),
        free.gpu,
        notes,
        {
            "reference_mhz": float(reference_mhz),
            "slowdown": slowdown,
            "anchor": free.info.get("anchor", "none"),
            "coverage": free.info.get("coverage", {}),
            **advice,
        },
    )


def with_reference(clocks_mhz: Sequence[float], reference_mhz: float) -> list[float]:
    """Return the clocks with the reference among them. [MHz]"""
    swept_mhz = [float(c) for c in clocks_mhz]
    return swept_mhz if reference_mhz in swept_mhz else sorted([*swept_mhz, float(reference_mhz)])


def default_clocks(gpu: Gpu) -> list[float]:
    """Return clocks spread over what the GPU supports, the highest included. [MHz]"""
    supported = gpu.supported_clocks_mhz()
    usable = supported[supported >= _LOWEST * gpu.clock_max_mhz]
    at = np.unique(np.linspace(0, len(usable) - 1, min(_CLOCKS, len(usable))).round().astype(int))
    return [float(c) for c in usable[at]]


def _target(source: str | os.PathLike[str] | pl.DataFrame, gpu: str | None) -> tuple[Gpu, float]:
    """Return the GPU to predict and the clock ``predict`` would take for it. [MHz]"""
    target = load_gpu(gpu) if gpu else None
    if isinstance(source, pl.DataFrame):
        source = "table"
    elif is_run_path(source):
        from tracetool.tables.run import Run

        run = Run.open(source)
        recorded_on = recorded_gpu(run) or target
        if recorded_on is not None:
            return target or recorded_on, usual_clock(run, recorded_on, target or recorded_on)
        raise no_gpu(run)
    if target is None:
        raise BadInput.in_file(source, "does not say which GPU", "name it: --gpu h100-sxm")
    return target, float(target.clock_boost_mhz)


def _points(prediction: PredictedTable | PredictedRun, cap: float | None) -> pl.DataFrame:
    key_columns = ("clock_mhz", "makespan_ms", "kernel_time_ms", "energy_j", "energy_low_j", "energy_high_j")
    more = ("mean_power_w", "peak_power_w", "throttled_share", "kernel_energy_j", "copy_time_ms",
            "copy_energy_j", "gap_ms", "gap_energy_j")  # fmt: skip
    frame = pl.DataFrame({c: [float(t[c]) for t in prediction.totals] for c in (*key_columns, *more)})
    return frame.with_columns(
        pl.lit(cap, pl.Float64).alias("power_cap_w"),
        (pl.col("energy_j") * pl.col("makespan_ms") * 1e-3).alias("edp_js"),
        (pl.col("energy_j") * (pl.col("makespan_ms") * 1e-3) ** 2).alias("ed2p_js2"),
    )


def best_points(
    points: pl.DataFrame, reference: int, slowdown: float, common: UsualOptimum | None = None
) -> pl.DataFrame:
    r"""Return the best point of every goal with its gain over the reference and the gain's interval.

    ``common`` is the prior on the clock for goals of energy alone.

    Notes
    -----
    The 90 % interval of a gain takes 90 % of the variance of two energies of one run as common (the
    same coefficients err at both clocks): :math:`s^2 = s_1^2 + s_0^2 - 2 \cdot 0.9\, s_1 s_0` of the
    relative half-widths.
    """
    energy, time = points["energy_j"].to_numpy(), points["makespan_ms"].to_numpy()
    drawn = energy if common is None else common.cost(energy, _equal_clock(points))
    rows = [
        _choice(points, reference, least((energy if power else drawn) * time**power, time), f"least {name}")
        for name, power in GOALS.items()
    ]
    allowed = time <= time[reference] * (1.0 + slowdown + 1e-9)
    within = least(np.where(allowed, drawn, np.inf), time)
    rows.append(_choice(points, reference, within, f"at most {100 * slowdown:g} % slower"))
    return pl.DataFrame(rows)


def _equal_clock(points: pl.DataFrame) -> Floats:
    """Return each point's clock; under a cap, the one that takes as long without. [MHz]"""
    free = points["power_cap_w"].is_null().to_numpy()
    clock, time = points["clock_mhz"].to_numpy(), points["makespan_ms"].to_numpy()
    order = np.argsort(time[free])
    return np.where(free, clock, np.interp(time, time[free][order], clock[free][order]))


def _choice(points: pl.DataFrame, reference: int, at: int, goal: str) -> dict[str, Any]:
    row, base = points.row(at, named=True), points.row(reference, named=True)
    gain, low, high = gain_interval(row, base)
    return {
        "goal": goal,
        "clock_mhz": row["clock_mhz"],
        "power_cap_w": row["power_cap_w"],
        "makespan_ms": row["makespan_ms"],
        "energy_j": row["energy_j"],
        "mean_power_w": row["mean_power_w"],
        "energy_saved": gain,
        "energy_saved_low": low,
        "energy_saved_high": high,
        "slowdown": row["makespan_ms"] / base["makespan_ms"] - 1.0 if base["makespan_ms"] > 0 else 0.0,
    }


def gain_interval(row: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the share of energy saved against ``base`` and its 90 % interval."""
    if base["energy_j"] <= 0:
        return 0.0, 0.0, 0.0
    if row is base or row == base:
        return 0.0, 0.0, 0.0
    ratio = row["energy_j"] / base["energy_j"]

    def wide(record: Mapping[str, Any]) -> float:
        spread = float(record["energy_high_j"] - record["energy_low_j"]) / 2.0
        return spread / record["energy_j"] if record["energy_j"] > 0 else 0.0

    one, two = wide(row), wide(base)
    half = ratio * float(np.sqrt(max(one**2 + two**2 - 2.0 * COMMON * one * two, 0.0)))
    return 1.0 - ratio, 1.0 - ratio - half, 1.0 - ratio + half
