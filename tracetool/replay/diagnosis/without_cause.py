"""A run without a cause: kernels that waste less, idle times closed, ranks that arrive together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis import causes
from tracetool.replay.diagnosis.altered_kernels import Altered
from tracetool.replay.diagnosis.causes import NAMES, PLACE
from tracetool.replay.diagnosis.changes import WhatIf
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.edits import Idle, even_ranks, with_idle_closed
from tracetool.replay.gap_causes import Gap
from tracetool.replay.prepared_replay import RunReplay

#: Causes that are clocks, those whose kernels take less time at the power of idle SMs, and idle times.
CLOCKS: Final = (causes.FAST_CLOCK, causes.CAP, causes.THERMAL, causes.LOW_CLOCK)
_WAITING: Final = (causes.TAIL, causes.SLOW)
_IDLE: Final = (causes.DEPENDENCY, causes.IDLE, causes.UNEXPLAINED)
#: Causes that are no kernel's: the timeline is edited.
OF_THE_TIMELINE: Final = (*_IDLE, causes.RANKS)


@dataclass(frozen=True)
class Closed:
    """Idle time that an altered run does not have.

    Parameters
    ----------
    time_s, energy_j : float
        Of the recorded run. [s], [J]
    given_back : bool
        GPUs cost nothing before their first activity and after their last.
    pauses_s : float
        Silences that no replay holds, and this run has. [s]
    """

    time_s: float = 0.0
    energy_j: float = 0.0
    given_back: bool = False
    pauses_s: float = 0.0

    def idle_s(self, gap_ns: Floats) -> float:
        """Return the idle time of a replay by its gaps, shape (reasons,). [s]"""
        away_ns = float(gap_ns[Gap.TAIL]) if self.given_back else 0.0
        return (float(gap_ns.sum()) - away_ns) * 1e-9 + self.pauses_s


def by_option(booked: Ledger, question: WhatIf) -> WhatIf:
    """Return a question with the causes to take out stated as the options that do so, where one does.

    Raises
    ------
    BadInput
        If a cause is not known, or the run has nothing of it.
    """
    present = booked.totals["cause"].to_list()[:-1]
    for name in question.without:
        if name not in NAMES[1:]:
            raise BadInput(f"--without {name!r} is no cause", f"known: {', '.join(NAMES[1:])}")
        if name not in present:
            had = ", ".join(one for one in present if one != causes.USEFUL)
            raise BadInput.in_file(booked.energies.run.path, f"has nothing of {name!r}", f"its causes: {had}")
    options: dict[str, WhatIf] = {
        causes.EXPOSED: WhatIf(overlap=True),
        causes.HOST: WhatIf(instant_host=True),
        causes.SYNC: WhatIf(no_waits=True),
    }
    for name in CLOCKS:
        gpu_w = float(load_gpu(booked.recorded.gpu).power_limit_w)
        limit_w = gpu_w if name == causes.CAP else None
        options[name] = WhatIf(clock_mhz=booked.clock.best_mhz, power_cap_w=limit_w)
    remaining = tuple(dict.fromkeys(name for name in question.without if name not in options))
    named = [options[name] for name in question.without if name in options]
    return replace(
        question,
        without=remaining,
        overlap=question.overlap or any(one.overlap for one in named),
        instant_host=question.instant_host or any(one.instant_host for one in named),
        no_waits=question.no_waits or any(one.no_waits for one in named),
        clock_mhz=next(
            (mhz for one in (question, *named) if (mhz := one.clock_mhz) is not None),
            None,
        ),
        power_cap_w=next((w for one in (question, *named) if (w := one.power_cap_w) is not None), None),
    )


def without_waste(booked: Ledger, before: Altered, name: str) -> Altered:
    """Return kernels without the time and energy that a cause costs them.

    Notes
    -----
    Joules of idle SMs are more of the time than of the energy: that time is the joules over the idle power.
    """
    whole_ms, whole_j = booked.of_signatures("time_ms"), booked.of_signatures("energy_j")
    part_ms, part_j = booked.of_signatures("time_ms", name), booked.of_signatures("energy_j", name)
    if name in _WAITING:
        part_ms = np.minimum(1e3 * part_j / booked.idle_w, whole_ms)
    time, energy = (
        np.divide(cause_share, total, out=np.zeros_like(total), where=total > 0)
        for cause_share, total in ((part_ms, whole_ms), (part_j, whole_j))
    )
    return replace(before, time=before.time * (1.0 - time), energy=before.energy * (1.0 - energy))


def edited(booked: Ledger, replays: RunReplay, names: tuple[str, ...]) -> RunReplay:
    """Return a replay without the idle times and waits for ranks that these causes explain."""
    recorded = booked.recorded.replays
    assert recorded is not None
    idle = _idle_of(booked, tuple(PLACE[name] for name in names if name in _IDLE))
    pace = replays.pace
    if causes.RANKS in names:
        even = even_ranks(recorded.work, recorded.met, _idle_of(booked, tuple(PLACE.values())))
        idle = idle.with_later(even.idle)
        pace = even.pace
    graph = with_idle_closed(replays.graph, recorded.graph, recorded.work, idle)
    return replace(replays, graph=graph, pace=pace)


def closed(booked: Ledger, names: tuple[str, ...]) -> Closed:
    """Return the idle time that a run without some causes does not have."""
    assert booked.recorded.replays is not None
    rows = booked.rows.filter(pl.col("cause").is_in([name for name in names if name in _IDLE]))
    pauses_s = booked.recorded.replays.pauses.total_ns * 1e-9
    away = causes.IDLE in names
    time_s = float(rows["time_ms"].sum()) * 1e-3
    return Closed(time_s, float(rows["energy_j"].sum()), away, 0.0 if away else pauses_s)


def _idle_of(booked: Ledger, places: tuple[int, ...]) -> Idle:
    """Return the idle times between activities that have some causes, on the replay's clock."""
    assert booked.recorded.replays is not None
    work = booked.recorded.replays.work
    ends, begins = [np.zeros(0, np.int64)], [np.zeros(0)]
    for side in booked.cut.sides:
        idle = side.parts.idle
        at = np.flatnonzero(np.isin(side.idle_cause, places) & (idle.before >= 0) & (idle.after >= 0))
        at = at[
            np.r_[True, idle.whole_index[at][1:] != idle.whole_index[at][:-1]][: len(at)]
        ]  # the first part of each
        ends.append(idle.before[at])
        begins.append(work.end_ns[idle.after[at]] + (idle.start_ns - idle.opens_ns)[at])
    return Idle(np.concatenate(ends), np.concatenate(begins))
