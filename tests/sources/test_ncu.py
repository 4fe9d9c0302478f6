"""Counters of Nsight Compute: both pages read exactly, joined by name and launch, shown beside the model's."""

# ruff: noqa: E501 - pages are written as the profiler writes them

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.sources.logs import LOGS
from tests.sources.makers import TRACES, Sample, nsys_sqlite, nsys_tables, write_tables
from tests.sources.ncu_pages import FLOPS, INSTRUCTIONS, METRICS, NAMES, PAGES, raw_page
from tracetool.api.classify import classify
from tracetool.api.diff import diff
from tracetool.api.ingest import ingest
from tracetool.api.roofline import roofline
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.sources.nsight.ncu_metrics import unit_of, work_of
from tracetool.tables.run import Run


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_exactly_and_joined_by_name_and_launch(
    page: Callable[[Path], Path], tmp_path: Path
) -> None:
    run = Run.open(ingest([nsys_sqlite(tmp_path), page(tmp_path)], out=tmp_path / "out"))
    work = run.table("measured_work")
    assert work["flops"].to_list() == pytest.approx(list(FLOPS), rel=1e-14)
    for column, metric, scale in (
        ("dram_read_bytes", 0, 1e6), ("dram_write_bytes", 1, 1e3), ("duration_ns", 2, 1e3), ("clock_mhz", 3, 1e3),
    ):  # fmt: skip
        truth = [v * scale for v in METRICS[metric][2]]
        assert work[column].to_list() == pytest.approx(truth, rel=1e-14), column
    assert work["dram_bytes"].to_list() == pytest.approx([1.756e6, 0.504e6, 1.378e6], rel=1e-14)
    kernels = run.kernels.filter(pl.col("kind") == "kernel").sort("start_ns")
    assert work["start_ns"].to_list() == kernels["start_ns"].to_list()
    assert work["signature"].to_list() == kernels["signature"].to_list()
    assert work["counted_flops"].unique().to_list() == ["fp16 fp32 tensor"]


def test_the_raw_page_agrees_with_the_csv_module(tmp_path: Path) -> None:
    path = raw_page(tmp_path)
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    table = list(csv.DictReader(lines))
    run = Run.open(ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "out"))
    read = [float(row["dram__bytes_read.sum"].replace(",", "")) for row in table if row["ID"]]
    assert [v / 1e6 for v in run.table("measured_work")["dram_read_bytes"]] == pytest.approx(read)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_told_by_its_content_and_nothing_else_is_one(
    page: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = page(tmp_path)
    assert detect(path.rename(tmp_path / "strange.name"))[0] == "ncu_csv"


@pytest.mark.parametrize("sample", TRACES, ids=lambda s: s.format)
def test_no_trace_is_taken_for_a_page(sample: Sample, tmp_path: Path) -> None:
    assert detect(sample.make(tmp_path))[0] != "ncu_csv"


def test_no_log_is_taken_for_a_page(tmp_path: Path) -> None:
    for log in LOGS:
        path = tmp_path / log.name
        path.write_text(log.text)
        assert detect(path)[0] != "ncu_csv", log.name


def test_launches_that_the_run_does_not_have_are_named(tmp_path: Path) -> None:
    path = raw_page(tmp_path)
    path.write_text(path.read_text().replace('"reduce_kernel"', '"other_kernel"'))
    run = Run.open(ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "out"))
    work = run.table("measured_work")
    assert work.filter(pl.col("signature").is_null())["name"].to_list() == ["other_kernel"]
    assert any("1 launch of 3 that were counted" in w and "other_kernel" in w for w in run.info["warnings"])


def test_another_grid_is_another_launch(tmp_path: Path) -> None:
    path = raw_page(tmp_path)
    path.write_text(path.read_text().replace('"(8, 1, 1)"', '"(9, 1, 1)"'))
    work = Run.open(ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "out")).table("measured_work")
    assert work["signature"].null_count() == 1


def test_a_bare_name_joins_where_one_kernel_has_it(tmp_path: Path) -> None:
    path = raw_page(tmp_path)
    path.write_text(path.read_text().replace(NAMES[0], "gemm"))
    run = Run.open(ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "one"))
    assert run.table("measured_work")["signature"].null_count() == 0
    tables = nsys_tables()
    strings, kernels = tables["StringIds"][1], tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    strings.append([70, "void gemm<double, 128>(double*)"])
    kernels.append([*kernels[2][:7], 70, 70, *kernels[2][9:]])
    two = write_tables(tmp_path / "two.sqlite", tables)
    work = Run.open(ingest([two, path], out=tmp_path / "two")).table("measured_work")
    assert work.filter(pl.col("name") == "gemm")["signature"].null_count() == 2


def test_counters_stand_beside_the_models(tmp_path: Path) -> None:
    """The first product is of 128 x 64 by 64 x 256: 4,194,304 operations by its shapes."""
    run = ingest([nsys_sqlite(tmp_path), raw_page(tmp_path)], out=tmp_path / "out")
    error = 100.0 * (4_194_304 / FLOPS[0] - 1.0)
    product = roofline(run).operators.filter(pl.col("m").is_not_null())
    assert product["flops_error_pct"].to_list() == pytest.approx([error])
    assert product["measured_tflops"][0] == pytest.approx(FLOPS[0] / 250_003e-9 / 1e12)
    table = diff(run).table
    of_signature = table.filter((pl.col("level") == "signature") & pl.col("flops_error_pct").is_not_null())
    assert of_signature["flops"].to_list() == pytest.approx([FLOPS[0]])
    assert of_signature["flops_predicted"].to_list() == pytest.approx([4_194_304.0])
    assert of_signature["flops_error_pct"].to_list() == pytest.approx([error])
    assert any("operations counted from shapes" in note for note in roofline(run).notes)
    diff(run).save(tmp_path / "diff.md")
    page = (tmp_path / "diff.md").read_text()
    assert "operations counted from shapes" in page
    assert "FLOP err" in page
    launches = classify(run.path).kernels.sort("start_ns")
    assert launches["measured_flops"].to_list() == pytest.approx(list(FLOPS))


def test_a_run_without_counters_has_no_such_columns_in_classify(tmp_path: Path) -> None:
    run = ingest([nsys_sqlite(tmp_path)], out=tmp_path / "out")
    assert "measured_flops" not in classify(run.path).kernels.columns
    assert roofline(run).operators["flops_error_pct"].null_count() == roofline(run).operators.height


def test_tensor_cores_that_nothing_counted_leave_the_operations_open() -> None:
    """Of wgmma the counters of operations say nothing, while instructions of the pipe were executed."""
    rows = [("a", "sm__inst_executed_pipe_tensor_op_gmma.sum", "inst", "64"), ("a", INSTRUCTIONS.format("ffma"), "inst", "10"),
            ("b", "sm__inst_executed_pipe_tensor_op_gmma.sum", "inst", "0"), ("b", INSTRUCTIONS.format("ffma"), "inst", "10")]  # fmt: skip
    work = work_of(pl.DataFrame(rows, schema=["launch_key", "metric", "unit", "value"], orient="row"))
    assert work.sort("launch_key")["flops"].to_list() == [None, 20.0]


def test_counts_given_for_a_cycle_are_times_the_cycles() -> None:
    rows = [("a", "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed", "inst/cycle", "2"),
            ("a", "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2", "", "6"),
            ("a", "smsp__cycles_elapsed.avg.per_second", "Ghz", "1.5"), ("a", "gpu__time_duration.sum", "us", "10"),
            ("a", "dram__bytes.sum.per_second", "Gbyte/s", "2")]  # fmt: skip
    work = work_of(pl.DataFrame(rows, schema=["launch_key", "metric", "unit", "value"], orient="row"))
    assert work["flops"][0] == pytest.approx(8 * 15_000)
    assert work["dram_bytes"][0] == pytest.approx(20_000)


@pytest.mark.parametrize(("unit", "meaning"), [
    ("ms", ("s", 1e-3)), ("msecond", ("s", 1e-3)), ("ns", ("s", 1e-9)), ("B", ("b", 1.0)), ("GB", ("b", 1e9)),
    ("Ghz", ("hz", 1e9)), ("%", ("%", 1.0)), ("inst/cycle", ("inst/cycle", 1.0)), ("Tbyte/second", ("b/s", 1e12)),
])  # fmt: skip
def test_units_are_what_they_say(unit: str, meaning: tuple[str, float]) -> None:
    assert unit_of(unit) == (meaning[0], pytest.approx(meaning[1]))


def test_counters_without_a_trace_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no timeline") as error:
        ingest([raw_page(tmp_path)], out=tmp_path / "out")
    assert "\n" not in error.value.line()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("damage", "fault"), [
    (lambda text: text[: text.index('"0","42"')], "holds no launch"),
    (lambda text: text.replace("__", "--"), "no time, bytes or operations"),
    (lambda text: text.replace('"Kernel Name"', '"Kernel"'), "no known trace or telemetry format"),
])  # fmt: skip
def test_a_damaged_page_is_refused_in_one_line(
    damage: Callable[[str], str], fault: str, tmp_path: Path
) -> None:
    path = raw_page(tmp_path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(BadInput, match=fault) as error:
        ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "out")
    assert "\n" not in error.value.line()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("share", [0.45, 0.6, 0.8, 0.95])
def test_every_prefix_gives_a_run_or_one_line(share: float, tmp_path: Path) -> None:
    path = raw_page(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    try:
        run = Run.open(ingest([nsys_sqlite(tmp_path), path], out=tmp_path / "out"))
    except BadInput as error:
        assert "\n" not in error.line()
    else:
        assert json.dumps(run.table("measured_work").to_dicts())
