"""Whose power a log holds: agents of ROCm count CPUs too, cards of the driver's tools do not."""

from __future__ import annotations

import polars as pl
import pytest

from tracetool.sources.devices import place_devices
from tracetool.sources.format import Trace
from tracetool.sources.rocm.dispatches import BOOT, number_devices


def _traced(used: list[int], agents: list[int]) -> Trace:
    """Kernels on some of a host's agents, of which the GPUs are listed where the trace lists any."""
    trace = Trace("rocprofv3", BOOT)
    trace.activities, trace.devices = number_devices(
        pl.DataFrame({"profiler_device": used, "start_ns": used}), {n: {"name": "gfx942"} for n in agents}
    )
    return trace


def _logged(cards: int) -> Trace:
    log = Trace("rocm-smi", BOOT)
    every = list(range(cards))
    log.telemetry = pl.DataFrame({"device": every, "power_w": [100.0] * cards})
    log.devices = pl.DataFrame({"device": every, "profiler_device": every})
    return log


@pytest.mark.parametrize(
    ("used", "agents", "cards", "cards_of_gpus"),
    [
        ([4], [2, 3, 4, 5, 6, 7, 8, 9], 8, [2]),  # behind two CPUs the third GPU is agent 4
        ([2, 9], [2, 3, 4, 5, 6, 7, 8, 9], 8, [0, 7]),
        ([0, 1], [], 2, [0, 1]),  # counted from 0, so without CPUs
        ([4, 5], [], 2, [0, 1]),  # as many as the log has: in its order
        ([4], [], 1, [0]),
        ([4], [], 8, [None]),  # any of eight
    ],
)
def test_a_card_of_the_log_is_the_gpu_in_its_place_among_gpus(
    used: list[int], agents: list[int], cards: int, cards_of_gpus: list[int | None]
) -> None:
    _, (of_trace, of_log), _ = place_devices([_traced(used, agents), _logged(cards)])
    card_of = {run: card for card, run in of_log.items()}
    assert [card_of.get(of_trace[i]) for i in range(len(used))] == cards_of_gpus
