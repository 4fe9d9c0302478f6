"""Files no one here wrote, and several sources in one run."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import NIGHTLY
from tests.damaged.counts import COUNTS
from tests.sources.makers import kineto_document, kineto_events, nsys_sqlite, nsys_tables, write_tables
from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.sources.source_description import default_out
from tracetool.sources.telemetry.logs import read_log
from tracetool.tables.run import Run


def test_two_ranks_of_one_job_become_one_run_with_both_devices(tmp_path: Path) -> None:
    files = []
    for rank in (0, 1):
        document = kineto_document(
            kineto_events(device=rank, pid=100 + rank), distributedInfo={"rank": rank, "world_size": 2}
        )
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(document))
    run = Run.open(ingest(files, out=tmp_path / "run"))
    assert run.devices["profiler_device"].to_list() == [0, 1]
    kernels = run.kernels.filter(pl.col("kind") == "kernel")
    assert kernels["device"].value_counts().sort("device")["count"].to_list() == [3, 3]
    operators = run.table("operators")
    assert operators.height == 6
    joined = kernels.join(operators, on="operator", suffix="_op")
    assert (joined["process"] == joined["process_op"]).all()  # ids collide between the ranks, links do not
    assert [s["details"]["rank"] for s in run.info["sources"]] == [0, 1]


def test_two_processes_that_both_call_their_gpu_0_keep_two_gpus(tmp_path: Path) -> None:
    first, second = nsys_tables(pid=7), nsys_tables(pid=8, tid=8)
    tables = {
        n: (c, [*r, *(second[n][1] if n.startswith(("CUPTI", "NVTX")) else [])])
        for n, (c, r) in first.items()
    }
    columns, gpus = tables["TARGET_INFO_GPU"]
    tables["TARGET_INFO_GPU"] = (columns, [*gpus, [1, *gpus[0][1:3], "GPU-bbbb", *gpus[0][4:-1], 1]])
    tables["TARGET_INFO_CUDA_DEVICE"] = (
        ["gpuId INTEGER", "cudaId INTEGER", "pid INTEGER"],
        [[0, 0, 7], [1, 0, 8]],
    )
    run = Run.open(ingest([write_tables(tmp_path / "two.sqlite", tables)], out=tmp_path / "run"))
    assert run.devices["uuid"].to_list() == ["GPU-aaaa", "GPU-bbbb"]
    assert run.kernels["device"].value_counts().sort("device")["count"].to_list() == [4, 4]
    waits = (
        run.kernels.filter(pl.col("kind") == "kernel")
        .select(pl.col("start_ns") - pl.col("launch_ns"))
        .to_series()
    )
    assert set(waits) == {9000}  # the same correlations in both processes


def test_graphs_recorded_whole_are_opaque_and_said(tmp_path: Path) -> None:
    tables = nsys_tables()
    columns = ["start INTEGER", '"end" INTEGER', "deviceId INTEGER", "contextId INTEGER", "streamId INTEGER",
               "correlationId INTEGER", "globalPid INTEGER", "graphId INTEGER", "graphExecId INTEGER"]  # fmt: skip
    tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = (
        columns,
        [[2_000_000, 2_500_000, 0, 1, 13, 300, 7 << 24, 5, 6]],
    )
    run = Run.open(ingest([write_tables(tmp_path / "g.sqlite", tables)], out=tmp_path / "run"))
    assert run.kernels.filter(pl.col("kind") == "graph")["name"].to_list() == ["CUDA graph 5"]
    said = next(w for w in run.info["warnings"] if "--cuda-graph-trace=node" in w)
    assert "1 CUDA graph launch is recorded whole: the kernels" in said


def test_metrics_inside_a_trace_become_clocks_of_its_gpu(tmp_path: Path) -> None:
    run = Run.open(ingest([nsys_sqlite(tmp_path)], out=tmp_path / "run"))
    assert run.telemetry["clock_mhz"].to_list() == [1410.0, 2410.0]  # the second wrapped to below zero
    assert run.telemetry["utilization"].drop_nulls().to_list() == [0.8]


def test_operators_of_emit_nvtx_carry_their_shapes(tmp_path: Path) -> None:
    operators = Run.open(ingest([nsys_sqlite(tmp_path)], out=tmp_path / "run")).table("operators")
    assert operators["name"].to_list() == ["aten::mm", "aten::mm"]
    assert operators["input_dims"].to_list() == [[[128, 64], [64, 256]], None]
    assert operators["sequence"].to_list() == [5, None]


def test_a_run_goes_beside_its_trace_by_default() -> None:
    assert default_out(Path("x/run.nsys-rep")) == Path("x/run.tracetool")
    assert default_out(Path("x/1.pt.trace.json.gz")) == Path("x/1.tracetool")


def _truth(path: Path) -> tuple[int, dict[str, int]]:
    raw = path.read_bytes()
    document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    events = document["traceEvents"] if isinstance(document, dict) else document
    kernels = [
        e
        for e in events
        if isinstance(e, dict) and e.get("ph") == "X" and str(e.get("cat", "")).lower() == "kernel"
    ]
    total: dict[str, int] = {}
    for e in kernels:
        total[e["name"]] = total.get(e["name"], 0) + round(e.get("dur", 0) * 1000)
    return len(kernels), total


@pytest.mark.data
def test_every_profiler_file_gives_each_kernels_time_to_the_nanosecond(data: Path, tmp_path: Path) -> None:
    most = 1_000_000 if NIGHTLY else 200_000  # bytes; larger ones stand in the other tests of real traces
    for path in sorted(p for p in (data / "traces" / "kineto").iterdir() if p.stat().st_size < most):
        count, total = _truth(path)
        run = Run.open(ingest([path], out=tmp_path / "run"))
        kernels = run.kernels.filter(pl.col("kind") == "kernel")
        assert kernels.height == count, path.name
        summed = dict(kernels.group_by("name").agg(pl.col("duration_ns").sum()).iter_rows())
        assert summed == total, path.name


@pytest.mark.data
def test_every_other_trace_is_read_as_sql_counts_or_explained(data: Path, tmp_path: Path) -> None:
    read: Counter[str] = Counter()
    for path in sorted((data / "traces").glob("[nr]*/*")):
        try:
            run = Run.open(ingest([path], out=tmp_path / "run"))
        except TracetoolError as error:
            assert error.exit_code in (2, 3), path.name
            assert path.name in error.line()
            assert error.fix, f"{path.name} is refused without a fix: {error.line()}"
            continue
        assert (run.kernels["duration_ns"] >= 0).all()
        form = run.info["sources"][0]["format"]
        read[form] += 1
        if form in ("nsys_sqlite", "rocpd", "rpd", "rocprof_db") and path.suffix != ".gz":
            rejected = sum(source["rejected"] for source in run.info["sources"])
            recorded = run.kernels.filter(pl.col("kind") != "graph").height
            assert recorded + rejected == COUNTS[form](path), path.name
    assert read.total() >= 50
    assert read["nsys_sqlite"] >= 10
    assert read["rocprof_db"] >= 10


@pytest.mark.data
def test_every_log_gives_the_watts_that_the_csv_module_reads(data: Path) -> None:
    logs = 0
    for path in sorted((data / "telemetry").glob("*.csv")):
        with path.open(newline="", encoding="utf-8", errors="replace") as lines:
            rows = list(csv.reader(lines))
        columns = [i for i, name in enumerate(rows[0]) if name.strip().startswith("power.draw")]
        cells = [row[i].replace("W", "").strip() for row in rows[1:] for i in columns if len(row) > i]
        watts = [float(cell) for cell in cells if re.fullmatch(r"\d+(?:\.\d+)?", cell)]
        if not watts:
            continue
        read = read_log(path).telemetry["power_w"].drop_nulls()
        assert len(read) == len(watts), path.name
        assert float(read.sum()) == pytest.approx(sum(watts), rel=1e-12), path.name
        logs += 1
    assert logs >= 8


@pytest.mark.data
def test_a_report_and_its_log_meet_without_being_told_the_zone(data: Path, tmp_path: Path) -> None:
    traces, logs = (
        sorted((data / "traces" / "nsys").glob("Flame*ex.sqlite")),
        sorted((data / "telemetry").glob("Flame*ex-smi.csv")),
    )
    run = Run.open(ingest(traces, logs, out=tmp_path / "run"))
    assert run.kernels.height > 2000
    first, last = run.kernels["start_ns"].min(), run.kernels["start_ns"].max()
    power = run.telemetry.drop_nulls("power_w")
    before, after = (
        power.filter(pl.col("time_ns") < first)["power_w"],
        power.filter(pl.col("time_ns") > last)["power_w"],
    )
    assert len(before) > 10
    assert len(after) > 10
    during = power.filter(pl.col("time_ns").is_between(first, last + 300_000_000))["power_w"]
    assert float(during.max()) > 2 * float(before.min())  # type: ignore[arg-type]
    assert run.info["clock"]["alignment"][1]["zone"] == "-04:00"
