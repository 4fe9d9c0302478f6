"""Windows of srt-slurm's power package: joules of each benchmark over all GPUs, damage told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.sources.logs import START_S
from tracetool.api.attribute import attribute
from tracetool.core.errors import BadInput
from tracetool.tables.activity_table import read_activity, read_windows
from tracetool.tables.benchmark_windows import holds_windows

#: Seconds of the log, and of the two benchmarks in it.
LENGTH_S = 120
SPANS = ((20.0, 50.0), (70.0, 100.5))
#: Power while idle and at work of each GPU: two hosts, each with a GPU it calls 0. [W]
GPUS = {("cn01", "GPU-aaaa"): (100.0, 400.0), ("cn02", "GPU-bbbb"): (90.0, 600.0)}


def _window(
    concurrency: int, start: float, end: float | None, status: str = "completed"
) -> dict[str, object]:
    """Return a window with the fields its writer checks (srt-slurm's ``core/power/windows.py``)."""
    return {
        "schema_version": 1, "clock_source": "head_node_unix_clock", "status": status,
        "benchmark_type": "sa-bench", "concurrency": concurrency,
        "result_path": f"sa-bench_isl_1024_osl_1024/results_concurrency_{concurrency}.json",
        "benchmark_start_time_unix": START_S + start,
        "benchmark_end_time_unix": None if end is None else START_S + end,
        "duration": None if end is None else end - start, "reason": None if end else "interrupted",
    }  # fmt: skip


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of two benchmarks, one that was interrupted, and readings of two GPUs every 0.5 s."""
    folder = tmp_path / "power"
    (folder / "windows").mkdir(parents=True)
    lines = ["schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w"]
    for i in range(2 * LENGTH_S):
        at = i / 2
        busy = any(start <= at < end for start, end in SPANS)
        for (host, uuid), powers in GPUS.items():
            lines.append(f"1,{START_S + at:.6f},{i},{host},0,{uuid},{powers[busy]}")
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")
    (folder / "manifest.json").write_text(json.dumps({"schema_version": 1, "status": "complete"}))
    for i, (start, end) in enumerate(SPANS):
        (folder / "windows" / f"results_concurrency_{4 << i}.json").write_text(
            json.dumps(_window(4 << i, start, end), indent=2)
        )
    (folder / "windows" / "results_concurrency_16.json").write_text(
        json.dumps(_window(16, 110.0, None, "interrupted"), indent=2)
    )
    return folder


def test_windows_are_those_that_ended_in_order(package: Path) -> None:
    expected = [(round((START_S + a) * 1e6), round((START_S + b) * 1e6)) for a, b in SPANS]
    for path in (package, package / "windows"):
        assert read_windows(path).rows() == expected
        assert read_activity(path)["name"].to_list() == ["results_concurrency_4", "results_concurrency_8"]
    assert read_windows(package / "windows" / "results_concurrency_8.json").rows() == expected[1:]


def test_each_benchmark_has_the_joules_of_all_gpus(package: Path) -> None:
    result = attribute(package, power=[package], windows=package)
    assert result.windows is not None
    truth = [(end - start) * sum(busy for _, busy in GPUS.values()) for start, end in SPANS]
    assert result.windows["energy_j"].to_list() == pytest.approx(truth, rel=0.03)
    held = result.windows.with_columns(truth=pl.Series(truth))
    assert held.select(pl.col("truth").is_between("energy_low_j", "energy_high_j").all()).item()
    assert result.energy["device"].n_unique() == len(GPUS)
    by_benchmark = result.energy.filter(pl.col("class").str.starts_with("results_"))
    assert by_benchmark["energy_j"].sum() == pytest.approx(sum(truth), rel=0.01)


@pytest.mark.parametrize("damage", ["null", "[1, 2]", '{"benchmark_start_time_unix": "x"}', '{"bench', ""])
def test_a_package_without_a_whole_window_is_refused_in_one_line(damage: str, package: Path) -> None:
    for file in (package / "windows").iterdir():
        file.write_text(damage)
    with pytest.raises(BadInput, match="no window of a benchmark") as refused:
        read_windows(package)
    assert "\n" not in refused.value.line()
    assert str(package) in refused.value.line()


def test_times_that_are_none_make_no_window(package: Path) -> None:
    start, end = "benchmark_start_time_unix", "benchmark_end_time_unix"
    for file, change in zip(
        sorted((package / "windows").iterdir()), ({end: 0}, {start: True}, {end: 1e300}), strict=True
    ):
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BadInput):
        read_windows(package)


def test_json_that_is_no_window_is_none(package: Path) -> None:
    file = package / "windows" / "results_concurrency_4.json"
    assert holds_windows(file)
    file.write_text(json.dumps({"card0": {"Average Graphics Package Power (W)": "36.0"}}))
    assert not holds_windows(file) and holds_windows(package)
    with pytest.raises(
        BadInput, match="is JSON, and no window of a benchmark: it states no benchmark_start_time"
    ):
        read_activity(file)
