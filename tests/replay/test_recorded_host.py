"""What a run tells of its host and its steps, from launches written down here."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.replay.host import host_costs
from tracetool.replay.iterations import named_steps
from tracetool.replay.recorded_host import recorded_host
from tracetool.tables.run import Run

US = 1000
#: Idle time after each step but the last. [us]
IDLE_US = (100, 400, 200, 300)


class Stub:
    """The tables of a run that are read."""

    path = Path("run")
    signatures = pl.DataFrame({"signature": [0, 1], "family": ["gemm", "elementwise"]})

    def __init__(self, kernels: pl.DataFrame, ranges: pl.DataFrame) -> None:
        self.tables = {"kernels": kernels, "ranges": ranges, "operators": ranges.clear()}

    def table(self, name: str, columns: object = None) -> pl.DataFrame:
        return self.tables[name]


def _stub(kernels: int = 20, apart_us: int = 10, named: bool = True) -> Run:
    """Five steps of kernels of 30 us on GPU 0, one of them beside a longer one; a copy on GPU 1."""
    rows, ranges, now = [], [], 0
    for step in range(5):
        begin = now
        rows += [(begin + 30 * n, 30, 0, begin + apart_us * n, n % 2, None) for n in range(kernels)]
        # it outlasts the one before and the one after it, and ends 5 us before the last
        rows.append((begin + 30 * (kernels - 3), 85, 0, begin + apart_us * kernels, 0, None))
        now = begin + 30 * kernels + (IDLE_US[step] if step < len(IDLE_US) else 0)
        ranges.append((f"ProfilerStep#{step}", begin, now - begin, 1))
    rows.append((0, 10**6, 1, 0, 0, None))
    names = ("start_ns", "duration_ns", "device", "launch_ns", "signature", "graph_node")
    table = pl.DataFrame(rows, dict.fromkeys(names, pl.Int64), orient="row")
    times = [pl.col("start_ns", "duration_ns", "launch_ns") * US]
    steps = pl.DataFrame(ranges, ["name", "start_ns", "duration_ns", "process"], orient="row")
    steps = steps.with_columns(pl.col("start_ns", "duration_ns") * US)
    return cast("Run", Stub(table.with_columns(times).sort("start_ns"), steps if named else steps.clear()))


def test_each_steps_idle_time_is_the_gap_before_the_next() -> None:
    host = recorded_host(_stub())
    assert host.idle_s == pytest.approx(250e-6)  # between 200 and 300 us
    assert host.low_s == pytest.approx(115e-6)  # 0.15 of the way from 100 to 200 us
    assert host.high_s == pytest.approx(385e-6)
    assert (host.steps, host.activities) == (4, 21)


def test_launches_far_apart_are_no_rate() -> None:
    """Launches 10 us from one another on average; those after a step waited and do not count."""
    costs = host_costs("eager")
    host = recorded_host(_stub(apart_us=10))
    usual = costs.issue_s(np.array(["gemm", "elementwise"], dtype=object))
    assert host.issue == pytest.approx(10e-6 / usual.mean(), rel=0.03)
    slow = recorded_host(_stub(apart_us=20))
    assert host.issue is not None
    assert slow.issue == pytest.approx(2.0 * host.issue, rel=0.03)


def test_kernels_of_a_graph_and_those_nobody_launched_are_no_launches() -> None:
    """A graph's kernels have its one launch, 1 us apart here; they would tell of a faster host."""
    run = cast("Stub", _stub())
    kernels = run.tables["kernels"]
    first = kernels.filter(device=0).head(80)
    replayed = first.with_columns(
        launch_ns=10**9 + US * pl.int_range(pl.len()), graph_node=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    unknown = first.with_columns(launch_ns=pl.lit(None, dtype=pl.Int64))
    told = recorded_host(cast("Run", run)).issue
    run.tables["kernels"] = pl.concat([kernels, replayed, unknown])
    assert told is not None
    assert recorded_host(cast("Run", run)).issue == pytest.approx(told, rel=1e-12)


def test_steps_of_unlike_sizes_are_counted_from_the_first_on() -> None:
    """Steps of 30, 20 and 10 kernels: half of them hold 20 or more."""
    rows, ranges, now = [], [], 0
    for step, count in enumerate((30, 20, 10)):
        ranges.append((f"ProfilerStep#{step}", now, count * 30 * US, 1))
        rows += [(now + 30 * US * n, 30 * US, 0, now + 30 * US * n, 0, None) for n in range(count)]
        now += count * 30 * US
    names = ("start_ns", "duration_ns", "device", "launch_ns", "signature", "graph_node")
    kernels = pl.DataFrame(rows, dict.fromkeys(names, pl.Int64), orient="row")
    steps = pl.DataFrame(ranges, ["name", "start_ns", "duration_ns", "process"], orient="row")
    host = recorded_host(cast("Run", Stub(kernels, steps)))
    assert (host.steps, host.activities) == (2, 20.0)
    assert host.idle_s == 0.0


def test_what_tells_nothing_is_refused() -> None:
    run = cast("Stub", _stub(kernels=3, named=False))
    run.tables["kernels"] = run.tables["kernels"].with_columns(signature=pl.int_range(pl.len()))
    with pytest.raises(BadInput, match="holds nothing of its host"):
        recorded_host(cast("Run", run))  # no kernel comes back, and launches are few


def test_steps_of_two_processes_hold_their_own_launches_only() -> None:
    steps = pl.DataFrame(
        {
            "name": ["step 0", "step 1", "step 0", "step 1"],
            "start_ns": [0, 100, 50, 150],
            "duration_ns": [100, 100, 100, 100],
            "process": [1, 1, 2, 2],
        }
    )
    launched = [(1, 40), (1, 120), (1, 199), (1, 210), (2, 40), (2, 120), (2, 199), (2, 210)]
    kernels = pl.DataFrame(launched, ["process", "launch_ns"], orient="row")
    number, names = named_steps(steps, kernels)
    assert number is not None
    assert number.tolist() == [0, 1, 1, -1, -1, 0, 1, 1]
    assert names == ["step 0", "step 1"]
