"""Edges that the trace states, and edges inferred from timing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from tracetool.replay.activities import KERNEL_COLUMNS, read_activities
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.gap_causes import Gap
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Replayed, replay
from tracetool.tables.schema import load_schema

MICRO = 1_000


@dataclass
class Story:
    """A recording told line by line, in microseconds."""

    kernels: list[dict[str, object]] = field(default_factory=list)
    calls: list[dict[str, object]] = field(default_factory=list)

    def call(self, name: str, kind: str, start: float, end: float, thread: int = 1) -> int:
        """Record a host call and return its correlation."""
        self.calls.append(
            {
                "start_ns": int(start * MICRO),
                "duration_ns": int((end - start) * MICRO),
                "process": 7,
                "thread": thread,
                "name": name,
                "kind": kind,
                "correlation": len(self.calls),
            }
        )
        return len(self.calls) - 1

    def kernel(
        self, start: float, end: float, correlation: int | None, stream: int = 1, **more: object
    ) -> None:
        """Record an activity."""
        launch = None if correlation is None else self.calls[correlation]["start_ns"]
        row = {
            "start_ns": int(start * MICRO),
            "duration_ns": int((end - start) * MICRO),
            "device": 0,
            "stream": stream,
            "process": 7,
            "kind": "kernel",
            "name": "k",
            "correlation": correlation,
            "launch_ns": launch,
            "signature": 0,
        }
        self.kernels.append(row | more)

    def replayed(self, slower: float = 1.0) -> tuple[Replayed, dict[str, int]]:
        """Replay with all kernels ``slower`` and return the timeline and the edges by kind."""
        kernels = load_schema("kernels").conform(pl.DataFrame(self.kernels, infer_schema_length=None))
        schema = load_schema("host_calls")
        calls = schema.conform(pl.DataFrame(self.calls)) if self.calls else schema.empty()
        work, host = read_activities(kernels.select(KERNEL_COLUMNS), calls)
        graph, _ = dependency_graph(work, host)
        rates = Rates(*(np.ones(1) for _ in range(5)))
        made = replay(graph, work, work.duration_ns * slower, rates, np.zeros(len(work), np.bool_))
        return made, dict(graph.counts)


def test_a_copy_that_returns_after_its_end_holds_the_host() -> None:
    story = Story()
    story.kernel(10, 100, story.call("cudaLaunchKernel", "launch", 0, 4))
    story.kernel(105, 110, story.call("cudaMemcpyAsync", "memcpy", 6, 115), kind="memcpy")
    story.kernel(125, 130, story.call("cudaLaunchKernel", "launch", 118, 121))
    made, edges = story.replayed(2.0)
    assert edges["sync"] == 1
    assert made.start_ns[2] > 200 * MICRO, "the launch waits for the copy, the copy for the kernel"


def test_an_asynchronous_copy_does_not() -> None:
    story = Story()
    story.kernel(10, 100, story.call("cudaLaunchKernel", "launch", 0, 4))
    story.kernel(105, 300, story.call("cudaMemcpyAsync", "memcpy", 6, 9), stream=2, kind="memcpy")
    story.kernel(125, 130, story.call("cudaLaunchKernel", "launch", 118, 121))
    _, edges = story.replayed()
    assert edges["sync"] == 0


def test_queries_and_device_side_waits_hold_no_host() -> None:
    story = Story()
    story.kernel(10, 100, story.call("cudaLaunchKernel", "launch", 0, 4))
    story.call("cudaEventQuery", "sync", 50, 52)
    story.call("cudaStreamWaitEvent", "sync", 53, 55)
    story.kernel(101, 130, story.call("cudaLaunchKernel", "launch", 60, 64))
    _, edges = story.replayed()
    assert edges["sync"] == 0


def test_a_long_call_that_returns_with_the_device_waited_for_it() -> None:
    story = Story()
    story.kernel(10, 200, story.call("cudaLaunchKernel", "launch", 0, 4))
    story.call("cudaFree", "other", 20, 205)
    story.kernel(215, 220, story.call("cudaLaunchKernel", "launch", 208, 211))
    made, edges = story.replayed(2.0)
    assert edges["sync"] == 1
    assert made.start_ns[1] > 390 * MICRO


def test_another_queue_explains_a_wait_that_nothing_else_does() -> None:
    story = Story()
    story.kernel(10, 100, story.call("cudaLaunchKernel", "launch", 0, 4), stream=1)
    story.kernel(102, 150, story.call("cudaLaunchKernel", "launch", 6, 10), stream=2)
    made, edges = story.replayed(2.0)
    assert edges["cross"] == 1
    assert made.start_ns[1] - made.start_ns[0] >= 180 * MICRO


def test_a_thread_that_pauses_takes_its_turn_after_the_other() -> None:
    story = Story()
    story.kernel(10, 20, story.call("cudaLaunchKernel", "launch", 0, 4, thread=1))
    story.kernel(30, 400, story.call("cudaLaunchKernel", "launch", 22, 26, thread=2))
    story.call("cudaStreamSynchronize", "sync", 30, 403, thread=2)
    story.kernel(420, 430, story.call("cudaLaunchKernel", "launch", 410, 414, thread=1))
    made, edges = story.replayed(2.0)
    assert edges["thread"] == 2, "the second thread begins after the first, which goes on after it"
    assert made.start_ns[2] > 750 * MICRO


def test_without_calls_gaps_stay_and_their_reason_is_unknown() -> None:
    story = Story()
    story.kernel(0, 10, None)
    story.kernel(50, 60, None)
    made, _ = story.replayed(2.0)
    assert made.makespan_ns == pytest.approx(80 * MICRO)
    assert made.gap_ns[Gap.UNKNOWN] == pytest.approx(40 * MICRO)


def test_one_graph_launch_starts_many() -> None:
    story = Story()
    launch = story.call("cudaGraphLaunch", "graph_launch", 0, 8)
    for i in range(5):
        story.kernel(12 + 11 * i, 22 + 11 * i, launch, graph_node=i)
    made, edges = story.replayed(3.0)
    assert edges["launch"] == 5
    assert made.makespan_ns == pytest.approx((5 * 30 + 4) * MICRO, rel=1e-6)


def test_a_clock_skewed_launch_still_comes_first() -> None:
    story = Story()
    story.kernel(10, 20, story.call("cudaLaunchKernel", "launch", 11, 14))
    _, edges = story.replayed()
    assert edges["left_out"] == 0
    assert edges["launch"] == 1
