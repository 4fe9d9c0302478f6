"""Cost of the recorded clock over the one of least energy, and why it was that clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.power_files import power_calibration_of
from tracetool.replay.diagnosis.causes import CAP, FAST_CLOCK, LOW_CLOCK, THERMAL
from tracetool.replay.diagnosis.references import saved_share
from tracetool.replay.operating_points import least
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.replay.sweep import default_clocks, with_reference
from tracetool.tables.recorded_clock import recorded_clock
from tracetool.tables.run import Run

#: Every so many of a sweep's clocks are tried, then those around the best.
_EVERY: Final = 3
#: A GPU this warm slows itself. [C] NVIDIA's slowdown thresholds begin here (nvidia-smi -q -d TEMPERATURE).
HOT_C: Final = 83.0
#: Mean power in work from this share of the limit up is held by it. [1] A prior.
_AT_LIMIT: Final = 0.9
#: A limit below this share of the GPU's own was lowered. [1]
_LOWERED: Final = 0.97


@dataclass(frozen=True)
class ClockChoice:
    """The recorded clock against the one of least energy.

    Parameters
    ----------
    recorded_mhz, best_mhz : float
        The two. [MHz]
    stated : bool
        Whether the run's log states the first.
    name : str
        The cause that the difference goes to.
    why : str
        What shows it.
    shares : array, shape (s,)
        Share of each signature's energy that the best clock saves, 0 where it saves none.
    energy_j : (float, float)
        Predicted at the recorded clock and at the best. [J]
    """

    recorded_mhz: float
    best_mhz: float
    stated: bool
    name: str
    why: str
    shares: Floats
    energy_j: tuple[float, float]


def clock_choice(run: Run, recorded: PredictedRun, gpu: str | None) -> ClockChoice:
    """Replay a run over clocks and return the one of least energy against its own.

    Parameters
    ----------
    run : Run
        The run.
    recorded : PredictedRun
        Its prediction as recorded.
    gpu : str, optional
        The GPU, where the trace does not name it.
    """
    spec = load_gpu(recorded.gpu)
    at_mhz = float(recorded.totals[0]["clock_mhz"])
    supported = default_clocks(spec)
    swept = [_swept(run, gpu, spec, with_reference(supported[::_EVERY], at_mhz))]
    # the least among a sweep's clocks lies between the neighbors of the least of those tried, and the fastest
    # that costs no more lies below the next that was
    for chosen in (_cheapest, _best):
        near = int(np.argmin(np.abs(np.array(supported) - chosen(swept)[0])))
        tried = {t["clock_mhz"] for one in swept for t in one.totals}
        around = supported[max(near - _EVERY + 1, 0) : near + _EVERY]
        if between := [mhz for mhz in around if mhz not in tried]:
            swept.append(_swept(run, gpu, spec, between))
    best_mhz, best_j = _best(swept)
    at_mhz, here_j = min(
        ((t["clock_mhz"], t["energy_j"]) for t in swept[0].totals), key=lambda t: abs(t[0] - at_mhz)
    )
    now, then = (_each_mj(swept, mhz) for mhz in (at_mhz, best_mhz))
    shares = saved_share(then, now)  # what the best clock makes dearer is no waste at this one
    name, why = _reason(run, spec, at_mhz, best_mhz)
    return ClockChoice(
        at_mhz,
        best_mhz,
        recorded_clock(run) is not None,
        name,
        why,
        shares,
        (here_j, best_j),
    )


def _swept(run: Run, gpu: str | None, spec: Gpu, clocks_mhz: Sequence[float]) -> PredictedRun:
    """Return a run replayed at clocks under the GPU's own limit: its recorded clock is now a request."""
    return predict_run(run, gpu, clocks_mhz, power_cap_w=float(spec.power_limit_w), brief=True)


def _cheapest(swept: Sequence[PredictedRun]) -> tuple[float, float]:
    """Return the clock of the least energy of all, and that energy. [MHz, J]"""
    best = min((t for one in swept for t in one.totals), key=lambda t: float(t["energy_j"]))
    return float(best["clock_mhz"]), float(best["energy_j"])


def _best(swept: Sequence[PredictedRun]) -> tuple[float, float]:
    """Return the fastest clock whose energy no sensor separates from the least, and its energy. [MHz, J]"""
    totals = [t for one in swept for t in one.totals]
    energy_j, time = (np.array([t[key] for t in totals], np.float64) for key in ("energy_j", "makespan_ms"))
    best = totals[least(energy_j, time)]
    return float(best["clock_mhz"]), float(best["energy_j"])


def _each_mj(swept: Sequence[PredictedRun], clock_mhz: float) -> Floats:
    """Return the energy of each signature at a clock. Shape (s,). [mJ]"""
    each = pl.concat([one.signatures.select("signature", "clock_mhz", "energy_mj") for one in swept])
    return each.filter(pl.col("clock_mhz") == clock_mhz).sort("signature")["energy_mj"].to_numpy()


def _reason(run: Run, gpu: Gpu, at_mhz: float, best_mhz: float) -> tuple[str, str]:
    """Return which cause a clock away from the best is, and what shows it."""
    if at_mhz >= best_mhz:
        return FAST_CLOCK, ""
    kernels = run.table("kernels", ("start_ns", "duration_ns"))
    ends = (kernels["start_ns"] + kernels["duration_ns"]).max()
    log = run.telemetry.filter(pl.col("time_ns").is_between(kernels["start_ns"].min(), ends))
    hot = log["temperature_c"].drop_nulls()
    if len(hot) and float(hot.median()) >= HOT_C:  # type: ignore[arg-type]
        return THERMAL, f"{float(hot.median()):.0f} °C in the median"  # type: ignore[arg-type]
    limits, drawn = log["power_limit_w"].drop_nulls(), log["power_w"].drop_nulls()
    limit = float(limits.median()) if len(limits) else float(gpu.power_limit_w)  # type: ignore[arg-type]
    cap_w = power_calibration_of(gpu).cap_share * limit
    most = float(drawn.quantile(0.95) or 0.0) if len(drawn) else 0.0
    if limit < _LOWERED * gpu.power_limit_w or most >= _AT_LIMIT * cap_w:
        return CAP, f"limit {limit:.0f} W, the GPU's own {gpu.power_limit_w:.0f} W"
    shown = f", {most:.0f} W drawn in the 95th percentile" if len(drawn) else ", power not logged"
    return LOW_CLOCK, f"limit {limit:.0f} W{shown}"
