"""Gaps that end long after the host had launched: host-bound up to there, unexplained from there on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetool as tt
from tests.replay.timelines import GAP, LATENCY, Step, played, steps
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.gap_causes import Gap
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import Replayed, replay
from tracetool.replay.timeline_variants import with_instant_host

USUAL = Step(0, 40_000.0, 5_000.0)
MILLI = 1e6
#: What a call takes is the host's, beside the usual latency from its begin. [ns]
CALL = USUAL.call_ns + 1.0


def _replayed(made: list[Step], *, instant: bool = False) -> Replayed:
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    graph = with_instant_host(graph) if instant else graph
    rates = Rates(*(np.ones(len(work)) for _ in range(5)))
    return replay(graph, work, work.duration_ns, rates, np.zeros(len(work), np.bool_), each=True)


def test_a_gap_is_the_hosts_until_it_has_launched() -> None:
    """200 us of host time, the call and its latency, then 3 ms for no reason that is recorded."""
    made = _replayed([*[USUAL] * 5, Step(0, 200_000.0, 5_000.0, late_ns=3 * MILLI), *[USUAL] * 5])
    before = _replayed([*[USUAL] * 5, Step(0, 200_000.0, 5_000.0), *[USUAL] * 5])
    # what was launched while the late kernel had not begun follows it at once
    assert made.gap_ns[Gap.UNKNOWN] == pytest.approx(3 * MILLI, abs=CALL)
    assert made.gap_count[[Gap.HOST, Gap.UNKNOWN]].tolist() == [5, 1]
    first = before.gap_ns[Gap.HOST] - 5 * (before.start_ns[-1] - before.end_ns[-2])
    assert made.gap_ns[Gap.HOST] == pytest.approx(first, abs=CALL)
    assert made.idle_ns == pytest.approx(made.gap_ns[[Gap.HOST, Gap.UNKNOWN, Gap.DEPENDENCY]].sum())


def test_a_gap_behind_a_wait_is_a_synchronization_until_the_host_has_launched() -> None:
    pairs = [Step(0, 5_000.0, 90_000.0), Step(-1, 2_000.0, 0.0)]
    late = replace(pairs[0], late_ns=MILLI)
    made, plain = _replayed([*pairs * 5, late]), _replayed([*pairs * 5, pairs[0]])
    assert made.gap_ns[Gap.SYNC] == pytest.approx(plain.gap_ns[Gap.SYNC], abs=CALL)
    assert made.gap_ns[Gap.UNKNOWN] == pytest.approx(MILLI, abs=CALL)


@pytest.mark.parametrize("late_ns", [0.0, 2_000.0, 9_000.0])
def test_the_usual_latency_stays_the_hosts(late_ns: float) -> None:
    made = _replayed([*[USUAL] * 5, replace(USUAL, late_ns=late_ns), *[USUAL] * 5])
    assert made.gap_ns[Gap.HOST] == pytest.approx(made.idle_ns)


def test_a_launch_call_that_lasts_is_the_hosts_and_a_host_without_time_has_none() -> None:
    """A call of 300 ms, as one that loads code takes, and one after which the kernel is 20 ms late."""
    loads, late = Step(0, 40_000.0, 5_000.0, call_ns=300 * MILLI), replace(USUAL, late_ns=20 * MILLI)
    made = [*[USUAL] * 5, loads, *[USUAL] * 5, late]
    recorded, instant = _replayed(made), _replayed(made, instant=True)
    assert recorded.gap_ns[Gap.UNKNOWN] == pytest.approx(20 * MILLI, abs=CALL)
    assert recorded.gap_ns[Gap.HOST] == pytest.approx(recorded.idle_ns - 20 * MILLI, abs=CALL)
    assert instant.gap_ns[Gap.UNKNOWN] == pytest.approx(20 * MILLI, abs=0.1 * MILLI)  # kernels run meanwhile
    saved_ns = recorded.makespan_ns - instant.makespan_ns
    assert saved_ns == pytest.approx(recorded.gap_ns[Gap.HOST], abs=12 * (LATENCY + GAP))


late_steps = st.lists(
    st.tuples(
        steps, st.lists(st.sampled_from([0.0, 0.0, 5_000.0, 30_000.0, 2 * MILLI]), min_size=40, max_size=40)
    )
).map(
    lambda pairs: [replace(s, late_ns=ns) for made, late in pairs for s, ns in zip(made, late, strict=False)]
)


@given(late_steps.filter(bool), st.floats(0.2, 4.0))
@settings(max_examples=60, deadline=None)
def test_gaps_add_up_however_late_launches_are(made: list[Step], slower: float) -> None:
    work, calls = played(made)
    graph, _ = dependency_graph(work, calls)
    rates = Rates(*(np.ones(len(work)) for _ in range(5)))
    none = np.zeros(len(work), np.bool_)
    again = replay(graph, work, work.duration_ns * slower, rates, none, each=True)
    assert again.busy_ns + again.idle_ns == pytest.approx(again.makespan_ns, rel=1e-9)
    assert (again.gap_ns >= 0).all()
    assert again.gap_ns[Gap.UNKNOWN] <= sum(s.late_ns for s in made if s.stream >= 0) + 1.0


@pytest.fixture(scope="module")
def late_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return 20 kernels of 1 ms, 2 ms apart; the host waits before and after one that is 80 ms late."""
    folder = tmp_path_factory.mktemp("late")
    events: list[dict[str, object]] = []
    called = ready = 0.0
    for i in range(20):
        if i in (10, 11):
            events.append(
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 7, "tid": 7,
                 "ts": called + 10.0, "dur": ready + 2.0 - called - 10.0, "args": {"correlation": 90 + i}}
            )  # fmt: skip
        called = ready + 5.0 if i in (10, 11) else called + 2_000.0
        start = max(called + 8.0 + (80_000.0 if i == 10 else 0.0), ready)
        ready = start + 1_000.0
        arguments = {"correlation": i + 1}
        events += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": called,
             "dur": 5.0, "args": arguments},
            {"ph": "X", "cat": "kernel", "name": "void relu(float*)", "pid": 0, "tid": 7, "ts": start,
             "dur": 1_000.0, "args": {"device": 0, "stream": 7, "grid": [1024, 1, 1], "block": [256, 1, 1],
                                      **arguments}},
        ]  # fmt: skip
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}
    (folder / "trace.json").write_text(json.dumps({"deviceProperties": [gpu], "traceEvents": events}))
    return str(tt.ingest([folder / "trace.json"], out=folder / "run.tracetool").path)


def test_the_stake_of_a_cause_is_what_the_run_saves_without_it(late_run: str) -> None:
    diagnosis = tt.diagnose(late_run)
    joules = dict(diagnosis.causes.select("cause", "energy_j").iter_rows())
    times = dict(diagnosis.causes.select("cause", "time_ms").iter_rows())
    assert times["unexplained idle"] == pytest.approx(80.0, abs=0.01)
    *parts, whole = joules.values()
    assert sum(parts) == pytest.approx(whole, rel=1e-9)
    for one in diagnosis.findings:
        if one.cause in ("unexplained idle", "host-bound"):
            assert one.proof is not None
            assert one.proof.saving_j == pytest.approx(joules[one.cause], rel=0.03)
    assert {"unexplained idle", "host-bound"} <= {one.cause for one in diagnosis.findings}


def test_every_command_cuts_the_gap_alike(late_run: str) -> None:
    summary = tt.summary(late_run).frame
    grouped = tt.energy_by(late_run, "gap").frame
    predicted = tt.predict(late_run).totals.row(0, named=True)
    factors = tt.diagnose(late_run, by="gap").factors
    assert factors is not None
    for part in ("idle: host-bound", "unexplained idle"):
        parts = summary.filter(summary["part"] == part)
        reason = {"idle: host-bound": "host", "unexplained idle": "unknown"}[part]
        assert parts["time_ms"][0] == pytest.approx(predicted["gaps_ms"][reason], abs=1e-3)
        group = grouped.filter(grouped["name"] == part)
        assert group["energy_j"][0] == pytest.approx(parts["energy_j"][0])
        rows = factors.frame.filter(factors.frame["name"] == part)
        assert rows["energy_j"][0] == pytest.approx(parts["energy_j"][0])
    signatures = tt.diagnose(late_run, by="kernel").factors
    assert signatures is not None
    assert signatures.frame["unexplained_idle_j"][-1] == pytest.approx(
        factors.frame["unexplained_idle_j"][-1]
    )
