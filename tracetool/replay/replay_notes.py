"""Notes on a replay: its dependencies, what was left out, how collectives matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tracetool.core.number_text import counted
from tracetool.replay.prepared_replay import RunReplay
from tracetool.tables.serialized import serialized_notes

#: Less kernel time than this is not worth a sentence. [ms]
_WORTH_SAYING_MS: Final = 1e-3


def replay_notes(replays: RunReplay, totals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on each thing that was inferred, left out or slowed down.

    Parameters
    ----------
    replays : RunReplay
        The replay.
    totals : sequence of mappings
        Its totals, one per clock.
    """
    graph = replays.graph
    launched = counted(len(replays.work), "activity", "activities")
    size = f"{launched} over {counted(len(graph.kind), 'dependency', 'dependencies')}"
    notes = [f"replayed {size}, {graph.inferred} of them inferred from timing"]
    if replays.pauses.count:
        length = f"{replays.pauses.total_ns * 1e-9:.0f} s in all"
        notes.append(
            f"left out unexplained idle ({replays.pauses.count}, {length}) that the trace does not explain: "
            "its kernels seem to come from different moments, not from one timeline"
        )
    if graph.counts["launch"] == 0:
        notes.append("the trace holds no launch calls: gaps are kept as recorded")
    notes += serialized_notes(replays.run)
    notes += _collective_notes(replays)
    if not replays.in_replay.all():
        left_out = counted(int((~replays.in_replay).sum()), "activity", "activities")
        notes.append(f"left out {left_out} of dropped ranges")
    if replays.governed is not None:
        notes.append(_cap_note(replays))
    slowed_ms = max(total["slowed_together_ms"] for total in totals)
    if slowed_ms > _WORTH_SAYING_MS:
        notes.append(
            f"kernels that run at once are slowed by {slowed_ms:.3g} ms in all to stay within "
            f"{replays.cap.limit_w:.4g} W together"
        )
    return notes


def _cap_note(replays: RunReplay) -> str:
    """Return the note on the time over which the cap binds, and on bursts above it."""
    assert replays.governed is not None
    governor = replays.governed.governor
    middle, low, high = (s * 1e3 for s in (governor.time_constant_s, governor.low_s, governor.high_s))
    return (
        f"the cap of {replays.cap.limit_w:.4g} W is on the mean power over {middle:.3g} ms ({low:.3g} to "
        f"{high:.3g}, {governor.basis}): shorter bursts keep their clock and exceed it"
    )


def _collective_notes(replays: RunReplay) -> list[str]:
    """Return notes on collectives that wait for others in the replay, and on those that keep their waits."""
    collectives, met = int(replays.collective.sum()), replays.met
    if not collectives:
        return []
    alone = collectives - len(met.member)
    if not len(met.member):
        several = len(np.unique(replays.work.device[replays.collective])) > 1
        why = "none overlaps one of another device" if several else "only one rank is in the run"
        return [f"times of {collectives} collectives include their waits for other ranks: {why}"]
    ends = replays.work.end_ns[met.member]
    first, last = np.full((2, len(met.arrival_ns)), np.nan)
    np.fmin.at(first, met.meeting, ends)
    np.fmax.at(last, met.meeting, ends)
    note = (
        f"{len(met.member)} collectives matched in {len(met.arrival_ns)} groups (by name, size and overlap), "
        f"their ends within {float(np.median(last - first)) * 1e-3:.3g} us in the median"
    )
    return [note + (f"; times of {alone} without a match include their waits" if alone else "")]
