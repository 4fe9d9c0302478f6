"""One clock for all sources: zones told and found, daylight saving, fits where nothing is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.sources.logs import NVIDIA_SMI
from tests.sources.makers import EPOCH_NS, kineto, nsys_sqlite, rocprof_csv
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.telemetry.localtime import local_to_utc, parse_stamps, wall_clock_ns
from tracetool.tables.run import Run

HOUR_NS = 3600 * 10**9


def _log(folder: Path, lines: list[str]) -> Path:
    path = folder / "power.csv"
    path.write_text("timestamp, power.draw [W]\n" + "\n".join(lines) + "\n")
    return path


def test_a_trace_of_the_host_tells_the_zone_of_its_log(tmp_path: Path) -> None:
    log = _log(tmp_path, ["2025/07/11 08:32:53.000, 100.0 W", "2025/07/11 08:32:53.100, 101.0 W"])
    run = Run.open(ingest([nsys_sqlite(tmp_path)], [log], out=tmp_path / "out"))
    power = run.telemetry.drop_nulls("power_w")
    assert power["time_ns"][0] == EPOCH_NS
    entry = run.info["clock"]["alignment"][1]
    assert entry["zone"] == "+02:00"
    assert "run.sqlite" in entry["basis"]
    assert entry["placed"]


def test_a_line_before_the_header_is_counted_as_one(tmp_path: Path) -> None:
    log = _log(tmp_path, ["2025/07/11 08:32:53.000, 100.0 W", "2025/07/11 08:32:53.100, 101.0 W"])
    log.write_text("nvidia-smi of a node\n" + log.read_text())
    run = Run.open(ingest([nsys_sqlite(tmp_path)], [log], out=tmp_path / "out"))
    assert any("left out 1 line before the header" in w for w in run.info["warnings"])


def test_a_stamp_no_clock_shows_is_none() -> None:
    texts = ["25:59:59.5", "23:60:00", "23:59:61", "23:59:60", "23:59:59.5"]
    found = parse_stamps(pl.Series([f"2025/04/24 {text}" for text in texts]))
    next_day = 1_745_539_200 * 10**9
    assert found.to_list() == [None, None, None, next_day, next_day - 500_000_000]


def test_an_instant_keeps_the_fraction_that_is_written() -> None:
    assert wall_clock_ns("2025-Apr-24 23:59:59.879001") == 1_745_539_200 * 10**9 - 120_999_000
    assert wall_clock_ns("1969-Dec-31 23:59:59.25") == -750_000_000


def test_a_local_log_without_a_zone_is_refused_with_the_mend(tmp_path: Path) -> None:
    log = _log(tmp_path, ["2025/07/11 08:32:53.000, 100.0 W"])
    with pytest.raises(BadInput, match="is in local time") as error:
        ingest([kineto(tmp_path)], [log], out=tmp_path / "out")
    assert "--tz" in error.value.fix
    assert not (tmp_path / "out").exists()


def test_kineto_times_are_exact_where_doubles_are_not(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,'
        ' "ts": 1709748230123456.789, "dur": 2.001, "args": {"device": 0}}], "schemaVersion": 1}'
    )
    kernels = Run.open(ingest([path], out=tmp_path / "out")).kernels
    assert kernels["start_ns"][0] == 1_709_748_230_123_456_789
    assert kernels["duration_ns"][0] == 2001


def test_the_hour_that_comes_twice_is_told_by_the_step_back() -> None:
    """Berlin, 26 October 2025: 02:59:59 summer time is followed by 02:00:00 winter time."""
    wall = [(2 * 3600 + 3599) * 10**9, 2 * HOUR_NS, (2 * 3600 + 1) * 10**9]
    day = np.datetime64("2025-10-26", "ns").astype(np.int64)
    utc = local_to_utc(np.array(wall, dtype=np.int64) + day, "Europe/Berlin") - day
    assert utc.tolist() == [3599 * 10**9, HOUR_NS, HOUR_NS + 10**9]


def _kernels_from(folder: Path, utc: str, seconds: float) -> Path:
    """Write a PyTorch trace of two kernels, the second ``seconds`` after the first."""
    start = int(np.datetime64(utc, "us").astype(np.int64))
    rows = ", ".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {start + at}, "dur": 1000,'
        ' "args": {"device": 0, "stream": 7}}'
        for at in (0, int(seconds * 1e6))
    )
    path = folder / "trace.json"
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{rows}]}}')
    return path


@pytest.mark.parametrize(
    ("walls", "utc"),
    [
        pytest.param(
            ["2025/10/26 02:59:59.500", "2025/10/26 02:00:00.500"], "2025-10-26T00:59:59", id="autumn"
        ),
        pytest.param(
            ["2025/03/30 01:59:59.500", "2025/03/30 03:00:00.500"], "2025-03-30T00:59:59", id="spring"
        ),
    ],
)
def test_a_log_across_a_change_of_the_clocks_runs_on_and_says_so(
    walls: list[str], utc: str, tmp_path: Path
) -> None:
    log = _log(tmp_path, [f"{wall}, 100.{i} W" for i, wall in enumerate(walls)])
    trace = _kernels_from(tmp_path, utc, 2.0)
    run = Run.open(ingest([trace], [log], tz="Europe/Berlin", out=tmp_path / "out"))
    times = run.telemetry["time_ns"]
    assert np.diff(times.to_numpy()).tolist() == [10**9]
    assert times[0] == int(np.datetime64(utc, "ns").astype(np.int64)) + 500_000_000
    assert run.info["clock"]["alignment"][1]["clock_changes"] == 1
    assert any("Europe/Berlin change within the log" in w for w in run.info["warnings"])
    assert not any("out of order" in w for w in run.info["warnings"])


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        pytest.param(3.0, 11.0, "the log starts 3.0 s after the first kernel", id="late"),
        pytest.param(-1.0, 6.0, "the log ends 4.0 s before the last one", id="early"),
        pytest.param(3.0, 6.0, "starts 3.0 s after the first kernel and ends 4.0 s before", id="both"),
        pytest.param(100.0, 110.0, "no reading falls into the time of the trace", id="elsewhere"),
        pytest.param(-1.0, 11.0, "", id="whole"),
    ],
)
def test_a_log_that_misses_some_of_the_work_is_named(
    first: float, last: float, said: str, tmp_path: Path
) -> None:
    trace = _kernels_from(tmp_path, "2025-07-11T06:00:00", 10.0)
    begin = np.datetime64("2025-07-11T06:00:00", "ms")
    stamps = [begin + np.timedelta64(int(t * 1000), "ms") for t in np.arange(first, last + 0.01, 0.25)]
    lines = [f"{str(s).replace('-', '/').replace('T', ' ')}, {100 + i % 7} W" for i, s in enumerate(stamps)]
    run = Run.open(ingest([trace], [_log(tmp_path, lines)], tz="UTC", out=tmp_path / "out"))
    found = [w for w in run.info["warnings"] if w.startswith("power.csv: ")]
    assert (said in " ".join(found)) if said else not found


def test_gaps_of_a_log_are_counted(tmp_path: Path) -> None:
    trace = _kernels_from(tmp_path, "2025-07-11T06:00:00", 10.0)
    lines = [
        f"2025/07/11 06:00:{t // 10:02d}.{t % 10}00, {100 + t % 7} W" for t in [*range(40), *range(80, 120)]
    ]
    run = Run.open(ingest([trace], [_log(tmp_path, lines)], tz="UTC", out=tmp_path / "out"))
    assert any("1 gap, the longest 4.1 s" in w for w in run.info["warnings"])


def test_repeated_and_swapped_readings_are_kept_in_order_and_reported(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        [
            "2025/07/11 08:32:53.200, 102.0 W",
            "2025/07/11 08:32:53.100, 101.0 W",
            "2025/07/11 08:32:53.100, 101.0 W",
            "2025/07/11 08:32:53.3",
        ],
    )
    run = Run.open(ingest([nsys_sqlite(tmp_path)], [log], out=tmp_path / "out"))
    power = run.telemetry.drop_nulls("power_w")
    assert power["time_ns"].is_sorted()
    assert power["power_w"].to_list() == [101.0, 102.0]
    said = " ".join(run.info["warnings"])
    assert "1 duplicate reading of the same time dropped" in said
    assert "1 row could not be used" in said
    assert "out of order" in said


def test_a_clock_nothing_tells_is_fitted_to_the_power(tmp_path: Path) -> None:
    """Bursts of a boot-clock trace under a log that saw them: found to a few milliseconds, drift and all."""
    random = np.random.default_rng(4)
    bursts = np.cumsum(random.uniform(0.4, 1.6, 12))
    lengths = random.uniform(0.15, 0.35, 12)
    head = "Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,DispatchNs,BeginNs,EndNs"
    boot, offset = 5_000_000_000_000, 1_752_000_000_000_000_000
    rows = [
        f"{i},k,2,0,7,7,256,256,0,0,8,8,{boot},{boot + int(b * 1e9)},{boot + int((b + d) * 1e9)}"
        for i, (b, d) in enumerate(zip(bursts, lengths, strict=True))
    ]
    trace = tmp_path / "results.csv"
    trace.write_text("\n".join([head, *rows]) + "\n")
    times = np.arange(-1.0, bursts[-1] + 2.0, 0.05)
    busy = sum(((times >= b) & (times < b + d)).astype(float) for b, d in zip(bursts, lengths, strict=True))
    watts = 60 + 200 * busy + random.normal(0, 1.5, len(times))
    log = tmp_path / "power.csv"
    stamps = [(offset + boot + int(t * 1e9)) / 1e9 for t in times]
    log.write_text(
        "time,power_w\n" + "\n".join(f"{s:.6f},{w:.2f}" for s, w in zip(stamps, watts, strict=True))
    )
    run = Run.open(ingest([trace], [log], out=tmp_path / "out", gpu="mi300x"))
    entry = run.info["clock"]["alignment"][0]
    assert run.info["clock"]["domain"] == "utc"
    assert entry["placed"]
    assert entry["correlation"] > 0.8
    assert abs(entry["offset_ns"] - offset) < 15e6
    assert 0 < entry["error_ns"] < 20e6
    assert entry["low_ns"] < entry["offset_ns"] < entry["high_ns"]
    assert set(entry["error_parts_ns"]) == {"likelihood", "sampling", "stamps"}


def test_a_log_of_another_run_is_not_forced_to_fit(tmp_path: Path) -> None:
    log = tmp_path / "power.csv"
    watts = np.random.default_rng(1).normal(100, 1, 120)
    log.write_text("time,power_w\n" + "\n".join(f"{1_752_000_000 + i / 10},{w}" for i, w in enumerate(watts)))
    out = ingest([rocprof_csv(tmp_path)], [log], out=tmp_path / "out").path
    info = json.loads((out / "run.json").read_text())
    assert not info["clock"]["alignment"][0]["placed"]
    assert any("not tied" in w for w in info["warnings"])


def test_a_log_of_two_gpus_meets_the_trace_by_uuid(tmp_path: Path) -> None:
    log = tmp_path / "smi.csv"
    log.write_text(NVIDIA_SMI + NVIDIA_SMI.split("\n", 1)[1].replace(", 0, GPU-aaaa", ", 1, GPU-bbbb"))
    run = Run.open(ingest([nsys_sqlite(tmp_path)], [log], out=tmp_path / "out"))
    assert run.devices.height == 2
    ours = run.kernels["device"].unique().to_list()
    assert run.devices.filter(pl.col("device").is_in(ours))["uuid"].to_list() == ["GPU-aaaa"]
    assert set(run.telemetry["device"]) == {0, 1}
