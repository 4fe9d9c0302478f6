"""What proves a finding: the run without its cause, by the what-if that anyone can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.asked import WhatIf
from tracetool.replay.diagnosis.effects import Saving
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.what_if import rescaled, what_if
from tracetool.replay.predict_run import predict_run
from tracetool.tables.run import Run

#: Causes that are clocks, those whose kernels take less time at the power of idle SMs, and all in kernels.
CLOCKS: Final = (causes.FAST_CLOCK, causes.CAP, causes.THERMAL, causes.LOW_CLOCK)
_WAITING: Final = (causes.TAIL, causes.SLOW)
_IN_KERNELS: Final = (
    *(causes.COPIES, causes.HOST_COPIES, causes.CHAIN, causes.PRECISION, causes.MISALIGNED),
    *(causes.BATCH, causes.PADDING, *_WAITING),
)


@dataclass(frozen=True)
class Proof(Saving):
    """The run without a cause, with the energy that saves.

    Parameters
    ----------
    how : str
        What was replayed; ``without that time`` where taking time off is all there is to it.
    makespan_ms, without_ms : float
        The run with and without. [ms]
    as_graphs_j : float, optional
        Of a host that is too slow: what launching as CUDA graphs saves by itself. [J]
    """

    how: str
    makespan_ms: float
    without_ms: float
    as_graphs_j: float | None = None


def proof_of(run: Run, booked: Ledger, row: dict[str, Any], gpu: str | None = None) -> Proof:
    """Return the run without a cause.

    Parameters
    ----------
    run, booked : Run, Ledger
        The run and its joules by cause.
    row : dict
        The cause, its joules and interval, its time: a row of ``booked.totals``.
    gpu : str, optional
        The GPU, where the trace does not name it.

    Notes
    -----
    Clocks, exposed communication and the host's time are what-ifs, and their intervals those of the what-if.
    Of the others the interval is that of the cause's joules, relative to them.
    """
    name, energy_j = row["cause"], row["energy_j"]
    if (asked := _asked(booked, name)) is not None:
        answer = what_if(run, booked, asked, gpu)
        one = answer.joint
        ends = one.saving_j, one.saving_low_j, one.saving_high_j
        graphs_j = _as_graphs_j(run, booked, gpu) if name == causes.HOST else None
        return Proof(*ends, f"replayed with {_name(asked)}", answer.makespan_ms, one.makespan_ms, graphs_j)
    if name in _IN_KERNELS:
        how = "replayed without"
        span, without, more_gap_s = _without_time(booked, name)
        saving = energy_j - booked.idle_w * more_gap_s
    else:
        how, span, saving = "without that time", booked.span_ms, energy_j
        without = span - row["time_ms"] / booked.rows["device"].n_unique()
    low, high = (saving * row[f"energy_{end}_j"] / energy_j for end in ("low", "high"))
    return Proof(saving, min(low, high), max(low, high), how, span, without)


def _asked(booked: Ledger, name: str) -> WhatIf | None:
    """Return the what-if that takes a cause away, None where no option does."""
    if name in CLOCKS:
        gpu_w = float(load_gpu(booked.recorded.gpu).power_limit_w)
        limit_w = gpu_w if name == causes.CAP else None
        return WhatIf(clock_mhz=booked.clock.best_mhz, power_cap_w=limit_w)
    return {
        causes.EXPOSED: WhatIf(overlap=True),
        causes.HOST: WhatIf(instant_host=True),
        causes.SYNC: WhatIf(no_waits=True),
    }.get(name)


def _name(asked: WhatIf) -> str:
    return ", ".join(name for _, name, _ in asked.each())


def _without_time(booked: Ledger, name: str) -> tuple[float, float, float]:
    """Replay the run without the time of a cause: makespans [ms], and idle time it has more [s]."""
    replays = booked.recorded.replays
    assert replays is not None
    rows = booked.rows.filter(pl.col("signature").is_not_null())
    taken = np.zeros(len(replays.rows))
    whole, part = taken.copy(), taken.copy()
    for total, frame in ((whole, rows), (part, rows.filter(pl.col("cause") == name))):
        np.add.at(total, frame["signature"].to_numpy(), frame["time_ms"].to_numpy())
    taken = np.divide(part, whole, out=taken, where=whole > 0)
    if name in _WAITING:  # its joules are those of idle SMs: more of the time than of the energy
        energy = np.zeros(len(taken))
        np.add.at(energy, rows["signature"].to_numpy(), rows["energy_j"].to_numpy())
        watts = np.divide(energy * 1e3, whole, out=np.zeros_like(whole), where=whole > 0)
        taken = np.minimum(taken * watts / booked.idle_w, 1.0)
    with_s, without_s = (_spans(booked, factor) for factor in (np.ones(len(taken)), 1.0 - taken))
    return with_s[0] * 1e3, without_s[0] * 1e3, without_s[1] - with_s[1]


def _spans(booked: Ledger, factor: Floats) -> tuple[float, float]:
    """Return makespan and idle time of the recorded timeline with durations times ``factor``. [s]"""
    assert booked.recorded.replays is not None
    # at the power they had: less time at the same joules would meet the power limit
    replayed = rescaled(booked.recorded.replays, factor, factor).at(0)
    return replayed.makespan_ns * 1e-9, replayed.idle_ns * 1e-9


def _as_graphs_j(run: Run, booked: Ledger, gpu: str | None) -> float:
    """Return what the run saves launched as graphs. [J]"""
    recorded, graphs = booked.recorded.totals[0], predict_run(run, gpu, launch="graph").totals[0]
    return booked.energy_j * float(1.0 - graphs["energy_j"] / recorded["energy_j"])
