"""Traces of several ranks become one run on one clock, with GPUs, logs and processes of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.measure.rank_jobs import RankJob, read_job, written_job
from tracetool.measure.rank_clocks import ClockStep, _fit, _move_logs, _sentences

CLOCKS = (0, 0, 3_700_000, 3_700_000)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> RankJob:
    """Return four ranks on two hosts whose clocks differ and drift; two profilers started late."""
    folder = tmp_path_factory.mktemp("hosts")
    return read_job(
        folder, ranks=4, steps=24, slow=2, gpus_per_host=2, clock_ns=CLOCKS, drift=(0, 0, 4e-5, 4e-5),
        missed=(0, 1, 0, 6),
    )  # fmt: skip


def _ends(run: tt.Run) -> pl.DataFrame:
    """Return the end of each collective on each GPU, counted from the last one."""
    return (
        run.kernels.filter(pl.col("process_group").is_not_null())
        .with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        .with_columns(n=pl.col("end_ns").rank("ordinal", descending=True).over("device"))
        .pivot("device", index="n", values="end_ns")
        .drop_nulls()
    )


def test_collectives_of_hosts_whose_clocks_differ_and_drift_end_together(hosts: RankJob) -> None:
    ends = _ends(hosts.run)
    assert ends.height == 42
    spread = ends.select(pl.max_horizontal("0", "1", "2", "3") - pl.min_horizontal("0", "1", "2", "3"))
    assert int(spread.to_series().max()) < 20_000  # type: ignore[arg-type]


def test_the_run_says_how_far_the_clocks_were_apart_and_how_well_they_agree(hosts: RankJob) -> None:
    entries = hosts.run.info["clock"]["alignment"]
    met = [entry.get("collectives") for entry in entries[:4]]
    assert met[0] is None
    assert [m["moved"] for m in met[1:]] == [False, True, True]
    for m in met[1:]:
        assert m["with"] == "rank0.json.gz"
        assert m["pairs"] >= 42
        assert m["spread_ns"] < 10_000
    for m in met[2:]:
        assert m["ahead_ns"] == pytest.approx(3_700_000, abs=150_000)  # it drifts to the middle of the run
        assert m["drift_ppm"] == pytest.approx(40.0, abs=3.0)
    assert any("4 ranks on the clock of rank0.json.gz" in w for w in hosts.run.info["warnings"])


def test_logs_go_with_the_host_that_stamped_them(hosts: RankJob) -> None:
    logs = {e["source"]: e for e in hosts.run.info["clock"]["alignment"][4:]}
    moved = logs["power1.csv"]["offset_ns"] - logs["power0.csv"]["offset_ns"]
    assert moved == pytest.approx(-3_700_000, abs=150_000)
    assert "moved with the traces" in logs["power1.csv"]["basis"]


def test_every_rank_has_its_gpu_its_readings_and_its_process(hosts: RankJob) -> None:
    run = hosts.run
    assert run.devices["rank"].to_list() == [0, 1, 2, 3]
    assert run.devices["profiler_device"].to_list() == [0, 1, 0, 1]
    assert sorted(run.telemetry["device"].unique().to_list()) == [0, 1, 2, 3]
    assert run.kernels.group_by("device").agg(pl.col("process").n_unique())["process"].to_list() == [1] * 4
    assert run.kernels["process"].n_unique() == 4
    calls = run.table("host_calls").filter(pl.col("correlation").is_not_null())
    assert not calls.select(pl.struct("process", "correlation").is_duplicated().any()).item()


def test_gpus_that_all_call_themselves_0_take_a_logs_gpus_in_order(tmp_path: Path) -> None:
    written_job(tmp_path, ranks=2, steps=4)
    one = tmp_path / "one"
    written_job(one, ranks=2, steps=4, gpus_per_host=1)
    traces = [one / f"rank{rank}.json.gz" for rank in range(2)]
    run = tt.ingest(traces, tmp_path / "power.csv", tz="-05:00", out=tmp_path / "run.tracetool")
    assert run.devices.height == 2
    assert sorted(run.telemetry["device"].unique().to_list()) == [0, 1]
    assert any("in their order" in w for w in run.info["warnings"])


def _events(ends: np.ndarray, numbers: list[int | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {"key": ["a"] * len(ends), "sequence": pl.Series(numbers, dtype=pl.Int64), "end_ns": ends}
    )


@pytest.mark.parametrize("ahead_ns", [0, 40_000, -3_000_000, 777_000_000_000, 10**17])
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("missed", [0, 7])
def test_any_offset_is_found_from_the_order_or_the_numbers(
    ahead_ns: int, numbered: bool, missed: int
) -> None:
    random = np.random.default_rng(5)
    ends = np.cumsum(random.integers(60_000_000, 64_000_000, 80)) + 10**18
    later = ends[missed:] + ahead_ns + random.integers(-2000, 2000, 80 - missed)
    numbers = list(range(80)) if numbered else [None] * 80
    step = _fit(_events(ends, numbers), _events(later, numbers[missed:]))
    assert step is not None
    assert step.offset_ns == pytest.approx(ahead_ns, abs=1_000)
    assert step.pairs == 80 - missed
    assert step.spread_ns < 3_000
    # known to 1155 ns of noise over the deviation of the times, or no drift at all
    assert 0.0 <= step.drift_sd < 10.0 * 1155e-9 / (later * 1e-9).std() / 80**0.5


def test_ends_that_do_not_agree_place_no_clock() -> None:
    random = np.random.default_rng(6)
    one, two = (np.cumsum(random.integers(1_000_000, 90_000_000, 60)) for _ in range(2))
    assert _fit(_events(one, [None] * 60), _events(two, [None] * 60)) is None
    assert _fit(_events(one[:2], [None] * 2), _events(one[:2], [None] * 2)) is None


@pytest.mark.parametrize("missed", [1, 3])
def test_a_trace_that_begins_after_the_work_is_no_drift_of_clocks(missed: int, tmp_path: Path) -> None:
    written_job(tmp_path, ranks=2, steps=50, slow=0, missed=(0, missed))
    run = tt.ingest(
        tmp_path / "rank1.json.gz", tmp_path / "power.csv", tz="-05:00", out=tmp_path / "run.tracetool"
    )
    assert set(tt.check_power(run.path).findings.filter(check="drift")["verdict"]) == {"good"}


def test_the_sentence_states_the_worst_of_all_ranks() -> None:
    steps = {1: ClockStep(-2_500.0, 0, 0.0, 0.0, 800.0, 40), 3: ClockStep(1_200.0, 0, 0.0, 0.0, 1_900.0, 12)}
    sources: Any = [SimpleNamespace(path=Path(f"rank{i}.json")) for i in range(4)]
    (sentence,) = _sentences(sources, [0, 1, 3], steps)
    assert sentence.startswith("3 ranks on the clock of rank0.json: clocks were up to 2.5 us apart, now ")
    assert sentence.endswith(" within 1.9 us (12 or more of each rank)")
    assert _sentences(sources, [0], {}) == []


@pytest.mark.parametrize(
    ("shifts", "by"),
    [((4_000, 4_400), 4_200), ((4_000, 204_001), 0), ((4_000, 204_000), 104_000), ((0, 0), 0)],
)
def test_a_log_moves_with_its_gpus_where_they_moved_alike(shifts: tuple[int, int], by: int) -> None:
    """The traces of GPUs 0 and 1 moved; the log of both moves by what lies between, or stays."""
    activities, none = pl.DataFrame({"start_ns": [1]}), pl.DataFrame({"start_ns": []})
    traces = [SimpleNamespace(activities=activities, telemetry=pl.DataFrame({"time_ns": []})) for _ in shifts]
    log = SimpleNamespace(
        activities=none, host_calls=none, operators=none, ranges=none, modules=none,
        telemetry=pl.DataFrame({"time_ns": [10, 20]}),
    )  # fmt: skip
    entries: list[dict[str, Any]] = [{"placed": True, "offset_ns": 7, "basis": "UTC"} for _ in range(3)]
    sources: Any = [SimpleNamespace(trace=trace) for trace in (*traces, log)]
    _move_logs(sources, entries, [{0: 0}, {0: 1}, {0: 0, 1: 1}], dict(enumerate(shifts)))
    assert log.telemetry["time_ns"].to_list() == [10 + by, 20 + by]
    assert entries[2]["offset_ns"] == 7 + by
    assert ("moved" in entries[2]["basis"]) == bool(by)
    assert [entry["offset_ns"] for entry in entries[:2]] == [7, 7]
