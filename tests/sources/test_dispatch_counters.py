"""Counters of rocprofv3: read exactly, joined by name, size and launch, passes apart, damage told."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

from tests.sources.dispatch_counters import BYTES, FLOPS, WORK, counter_table
from tests.sources.logs import LOGS
from tests.sources.makers import LAUNCHES, TRACES, Sample, rocprofv3_csv
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.tables.run import Run


def _by_csv(path: Path) -> dict[tuple[str, str], float]:
    """Return the sum of each dispatch and counter, read by the standard library."""
    sums: dict[tuple[str, str], float] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["Dispatch_Id"], row["Counter_Name"])
            sums[key] = sums.get(key, 0.0) + float(row["Counter_Value"])
    return sums


def test_counters_are_read_exactly_and_joined_to_their_launches(tmp_path: Path) -> None:
    path = counter_table(tmp_path, BYTES | WORK)
    run = Run.open(ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out"))
    work, truth = run.table("measured_work"), _by_csv(path)
    assert work["flops"].to_list() == list(FLOPS)
    for column, counter in (("dram_read_bytes", "FETCH_SIZE"), ("dram_write_bytes", "WRITE_SIZE")):
        assert work[column].to_list() == [1024 * truth[str(i + 1), counter] for i in range(3)]
    assert work["duration_ns"].to_list() == [2 * (e - s) for _, s, e, _, _ in LAUNCHES]
    kernels = run.kernels.filter(pl.col("kind") == "kernel").sort("start_ns")
    assert work["start_ns"].to_list() == kernels["start_ns"].to_list()
    assert work["signature"].to_list() == kernels["signature"].to_list()
    assert work["counted_flops"].unique().to_list() == ["fp32 tensor"]
    assert not any("of no kernel of the run" in w for w in run.info["warnings"])


def test_passes_of_one_program_count_the_same_launches(tmp_path: Path) -> None:
    first, second = tmp_path / "pmc_1", tmp_path / "pmc_2"
    first.mkdir()
    second.mkdir()
    files = [counter_table(first, BYTES), counter_table(second, WORK)]
    run = Run.open(ingest([rocprofv3_csv(tmp_path), *files], out=tmp_path / "out"))
    work = run.table("measured_work")
    assert work["launch"].to_list() == [0, 0, 1] * 2
    assert work["flops"].to_list() == [None] * 3 + list(FLOPS)
    assert work["dram_bytes"].count() == 3


def test_a_launch_of_another_size_is_another_launch(tmp_path: Path) -> None:
    path = counter_table(tmp_path, BYTES)
    path.write_text(path.read_text().replace(",4096,9,", ",8192,9,"))
    run = Run.open(ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out"))
    assert run.table("measured_work")["signature"].null_count() == 1
    assert any("1 launch of 3 that were counted" in w for w in run.info["warnings"])


def test_operations_stay_open_without_those_of_matrix_units(tmp_path: Path) -> None:
    path = counter_table(tmp_path, {"SQ_INSTS_VALU_FMA_F32": (1.0, 2.0, 3.0), "SQ_WAVES": (1.0, 1.0, 1.0)})
    run = Run.open(ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out"))
    assert run.table("measured_work")["flops"].count() == 0
    assert any("operations are left open" in w for w in run.info["warnings"])
    assert any("not read: SQ_WAVES" in w for w in run.info["warnings"])


def test_a_counter_that_reads_0_of_everything_is_left_out(tmp_path: Path) -> None:
    path = counter_table(tmp_path, {**BYTES, "FETCH_SIZE": (0.0, 0.0, 0.0)})
    run = Run.open(ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out"))
    assert run.table("measured_work")["dram_read_bytes"].count() == 0
    assert run.table("measured_work")["dram_write_bytes"].count() == 3
    assert any("FETCH_SIZE read 0 of every dispatch" in w for w in run.info["warnings"])


@pytest.mark.parametrize(("counters", "fault"), [
    ({"SQ_WAVES": (1.0, 2.0, 3.0)}, "counts no operations and no bytes"),
    ({"FETCH_SIZE": (0.0, 0.0, 0.0)}, "counts 0 bytes of every dispatch"),
    ({"FETCH_SIZE": (float("nan"),) * 3}, "holds no count of a dispatch"),
    ({}, "holds no count of a dispatch"),
])  # fmt: skip
def test_a_table_without_work_is_refused_in_one_line(
    counters: dict[str, tuple[float, ...]], fault: str, tmp_path: Path
) -> None:
    path = counter_table(tmp_path, counters)
    with pytest.raises(BadInput, match=fault) as refused:
        ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out")
    assert "\n" not in refused.value.line()
    assert path.name in refused.value.line()
    assert not (tmp_path / "out").exists()


def test_lines_that_are_torn_are_left_out_and_counted(tmp_path: Path) -> None:
    path = counter_table(tmp_path, BYTES)
    path.write_text(path.read_text() + "9,9,\n")
    run = Run.open(ingest([rocprofv3_csv(tmp_path), path], out=tmp_path / "out"))
    assert run.table("measured_work").height == 3
    assert any("1 line of the table count no dispatch" in w for w in run.info["warnings"])


def test_counters_are_told_by_content_and_nothing_else_is_taken_for_them(tmp_path: Path) -> None:
    path = counter_table(tmp_path, BYTES)
    assert detect(path.rename(tmp_path / "strange.name"))[0] == "rocprofv3_counters"
    for log in LOGS:
        path = tmp_path / log.name
        path.write_text(log.text)
        assert detect(path)[0] != "rocprofv3_counters", log.name


@pytest.mark.parametrize("sample", TRACES, ids=lambda s: s.format)
def test_no_trace_is_taken_for_counters(sample: Sample, tmp_path: Path) -> None:
    assert detect(sample.make(tmp_path))[0] != "rocprofv3_counters"
