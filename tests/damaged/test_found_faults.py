"""Faults that changed files brought to light, each by its name."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.damaged.small_run import small_run
from tests.record.test_power_log import write as write_recorded_log
from tests.sources.logs import LOGS
from tests.sources.makers import (
    kernel_parquet,
    kernel_table,
    kineto_document,
    kineto_events,
    nsys_folder,
    nsys_tables,
    rocpd,
    rocprof_json,
    rocprofv3_csv,
    rocprofv3_json,
    write_tables,
)
from tracetool.api.ingest import ingest
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import classify_names
from tracetool.measure.power_check.conditions import reason_bits
from tracetool.measure.power_log import telemetry_devices
from tracetool.measure.sensors import read_sensor_file
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table
from tracetool.sources.pytorch import events as pytorch_events
from tracetool.sources.telemetry.logs import read_log
from tracetool.tables.activity_table import read_windows
from tracetool.tables.run import RUN_FILE, UNLISTED_SCHEMA, Run, write_run
from tracetool.tables.table_list import listed_table
from tracetool.tables.windows import activities_of, is_large


def _kernels(run: Run) -> int:
    return run.kernels.filter(pl.col("kind") == "kernel").height


def _export_with(tmp_path: Path, table: str, changed: pl.Expr) -> Run:
    folder = nsys_folder(tmp_path)
    file = next(folder.glob(f"{table}.*"))
    arrow = file.suffix == ".arrow"
    frame = pl.read_ipc(file.read_bytes()) if arrow else pl.read_parquet(file)
    frame = frame.with_columns(changed)
    frame.write_ipc(file) if arrow else frame.write_parquet(file)
    return Run.open(ingest([folder], out=tmp_path / "run"))


KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize("change", ["list", "struct", "words", "clock times", "codes"])
def test_an_export_folder_whose_times_are_no_numbers_loses_no_row_in_silence(
    tmp_path: Path, change: str
) -> None:
    start = pl.col("start")
    ways = {
        "list": pl.concat_list(start),
        "struct": pl.struct(start.alias("x")),
        "words": pl.lit("soon"),
        "clock times": start.cast(pl.Datetime("us")),
        "codes": pl.lit("soon").cast(pl.Categorical()),
    }
    run = _export_with(tmp_path, KERNEL, ways[change].alias("start"))
    assert _kernels(run) == 0
    assert run.table("rejected").height == 3


def test_an_export_folder_that_holds_names_for_numbers_is_read(tmp_path: Path) -> None:
    run = _export_with(tmp_path, KERNEL, pl.lit("gemm").alias("demangledName"))
    assert run.signatures.filter(pl.col("kind") == "kernel")["name"].unique().to_list() == ["gemm"]


def test_an_export_folder_whose_start_is_in_words_has_no_anchor(tmp_path: Path) -> None:
    run = _export_with(tmp_path, "TARGET_INFO_SESSION_START_TIME", pl.lit("soon").alias("utcEpochNs"))
    assert _kernels(run) == 3
    assert run.info["clock"]["domain"] == "session"


@pytest.mark.parametrize("value", [2**40, -1, 0, 2**62])
def test_a_gpu_of_more_multiprocessors_than_can_be_is_said(tmp_path: Path, value: int) -> None:
    tables = nsys_tables()
    _, rows = tables["TARGET_INFO_GPU"]
    rows[0][4] = rows[0][6] = value
    run = Run.open(ingest([write_tables(tmp_path / "t.sqlite", tables)], out=tmp_path / "run"))
    assert run.devices["sm_count"].to_list() == [None]
    assert any("sm_count" in w and "left out" in w for w in run.info["warnings"])
    document = kineto_document(kineto_events())
    for gpu in document["deviceProperties"]:  # type: ignore[attr-defined]
        gpu["numSms"] = value or 2**33
    (tmp_path / "t.json").write_text(json.dumps(document))
    run = Run.open(ingest([tmp_path / "t.json"], out=tmp_path / "run2"))
    assert run.devices["sm_count"].to_list() == [None]


@pytest.mark.parametrize("before", [b"\n", b"\r\n", b"  \n\n", b"\xef\xbb\xbf\n"])
def test_a_kernel_table_that_begins_with_an_empty_line_is_refused(tmp_path: Path, before: bytes) -> None:
    path = kernel_table(tmp_path)
    path.write_bytes(before + path.read_bytes())
    with pytest.raises(BadInput, match="begins with an empty line"):
        ingest([path], out=tmp_path / "run")


def test_a_gpu_of_more_units_than_an_integer_holds_is_said(tmp_path: Path) -> None:
    path = rocprofv3_json(tmp_path)
    stated = path.read_text()
    assert '"cu_count": 304' in stated
    path.write_text(stated.replace('"cu_count": 304', f'"cu_count": {10**25}'))
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert run.devices["sm_count"].to_list() == [None]
    assert any("sm_count" in w and "left out" in w for w in run.info["warnings"])


def test_a_kernel_named_by_a_number_no_integer_holds_is_kept(tmp_path: Path) -> None:
    events = kineto_events()
    named = next(e for e in events if e.get("cat") == "kernel")
    named["name"] = 10**60
    (tmp_path / "t.json").write_text(json.dumps(kineto_document(events)))
    run = Run.open(ingest([tmp_path / "t.json"], out=tmp_path / "run"))
    assert str(10**60) in run.signatures["name"].to_list()
    assert _kernels(run) == sum(e.get("cat") == "kernel" for e in events)


def test_a_dispatch_of_a_symbol_nobody_knows_is_kept(tmp_path: Path) -> None:
    """The file's own view joins inwardly: two of five dispatches went missing without a word."""
    path = rocpd(tmp_path)
    db = sqlite3.connect(path)
    db.execute("UPDATE rocpd_kernel_dispatch_0b_2 SET kernel_id = 999 WHERE id < 3")
    db.commit()
    db.close()
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert _kernels(run) + run.table("rejected").height == 5


def test_a_header_that_can_be_read_in_two_ways_costs_cells_not_the_file(tmp_path: Path) -> None:
    path = rocprofv3_csv(tmp_path)
    agents = tmp_path / "77_agent_info.csv"
    agents.write_text(agents.read_text().replace('"Gfx_Target_Version"', '""Gfx_Target_Version"\nmore"'))
    calls = tmp_path / "77_hip_api_trace.csv"
    calls.write_text(calls.read_text().replace('"End_Timestamp"', '"End_Timestamp""', 1))
    assert _kernels(Run.open(ingest([path], out=tmp_path / "run"))) == 3


def test_a_table_beside_a_trace_that_is_left_out_is_said(tmp_path: Path) -> None:
    path = rocprofv3_csv(tmp_path)
    copies = tmp_path / "77_memory_copy_trace.csv"
    copies.write_text("\n" + copies.read_text())
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert any("77_memory_copy_trace.csv" in w and "left out" in w for w in run.info["warnings"])


def test_a_dispatch_that_nothing_tells_apart_from_a_call_is_counted(tmp_path: Path) -> None:
    path = rocprof_json(tmp_path)
    document = json.loads(path.read_text())
    document["traceEvents"][2]["args"] = "NULL"  # the name of the GPU's process
    document["traceEvents"][3]["args"]["KernelName"] = "\ud800"
    path.write_bytes(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert _kernels(run) == 2
    assert run.table("rejected").height == 1


def test_a_kernel_table_with_lists_for_ends_loses_no_row_in_silence(tmp_path: Path) -> None:
    path = kernel_parquet(tmp_path)
    pl.read_parquet(path).with_columns(pl.concat_list("end_ns")).write_parquet(path)
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert _kernels(run) + run.table("rejected").height == 3


@pytest.mark.parametrize(
    ("old", "new"), [(",100001,", ',"100001,'), (",1,", ",2147483648,"), (",1,", ",-1,")]
)
def test_a_damaged_line_of_a_recorded_log_costs_that_line_alone(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "power.log"
    write_recorded_log(path, 4)
    lines = path.read_text().split("\n")
    at = next(i for i, line in enumerate(lines) if not line.startswith("#") and old in line)
    lines[at] = lines[at].replace(old, new, 1)
    path.write_text("\n".join(lines))
    run = Run.open(ingest([], [path], tz="+00:00", out=tmp_path / "run"))
    assert run.telemetry["time_ns"].len() >= 7


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("whole"))


def _rewritten(whole: Path, out: Path, name: str, frame: pl.DataFrame) -> Path:
    run = Run.open(whole)
    tables = {n: run.table(n) for n in run.info["tables"]}
    info = {k: v for k, v in run.info.items() if k not in ("schema", "tool_version", "tables")}
    return write_run(out, {**tables, name: frame}, info)


def test_a_run_that_says_it_has_a_million_million_kernels_is_as_large_as_its_table(
    whole: Path, tmp_path: Path
) -> None:
    """Cut into as many windows as run.json says, it kept predict busy for hours."""
    edited = shutil.copytree(whole, tmp_path / "run")
    info = json.loads((edited / RUN_FILE).read_text())
    info["tables"]["kernels"]["rows"] = 2**40
    (edited / RUN_FILE).write_text(json.dumps(info))
    run = Run.open(edited)
    assert activities_of(run) == Run.open(whole).kernels.height
    assert not is_large(run)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("telemetry", "clock_mhz"),
        ("signatures", "input_list_dims"),
        ("devices", "device"),
        ("kernels", "name"),
    ],
)
def test_columns_of_structures_are_refused(
    whole: Path, tmp_path: Path, table: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cast changes the numbers inside of a structure, which then met arithmetic."""
    edited = _with_table(whole, tmp_path, table, pl.struct(column).alias(column))
    assert command(["attribute", str(edited), "-o", str(tmp_path / "out.csv")]) == 2
    assert f"column {column} holds Struct" in capsys.readouterr().err


def test_a_duration_of_a_century_is_refused(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = pl.int_range(pl.len()) == 0
    edited = _with_table(
        whole,
        tmp_path,
        "signatures",
        pl.when(first).then(2**62).otherwise("duration_ns").alias("duration_ns"),
    )
    assert command(["report", str(edited), "-o", str(tmp_path / "out.html")]) == 2
    assert "holds a duration of 4611686018427387904 ns" in capsys.readouterr().err


@pytest.mark.parametrize(("column", "value"), [("power_w", -1e300), ("clock_mhz", float("inf"))])
def test_readings_that_nobody_measures_are_refused(
    whole: Path, tmp_path: Path, column: str, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    first = pl.int_range(pl.len()) == 0
    one = pl.when(first).then(value).otherwise(column).alias(column)
    edited = _with_table(whole, tmp_path, "telemetry", one)
    assert command(["profile", str(edited)]) == 2
    assert f"holds a {column} of" in capsys.readouterr().err


#: A column that no table has.
OTHER = pl.lit(0).alias("x y")


def test_a_column_that_a_table_lacks_is_as_long_as_the_table(whole: Path, tmp_path: Path) -> None:
    """Asked for alone, an absent column had no rows, or one."""
    edited = _with_table(whole, tmp_path, "kernels", OTHER, drop="range")
    run = Run.open(edited)
    assert run.table("kernels", ["range"])["range"].to_list() == [None] * run.kernels.height
    assert run.kernels.height > 1
    assert command(["predict", str(edited), "--by", "range"]) == 0


def test_readings_of_no_device_are_those_of_one(
    whole: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = _with_table(whole, tmp_path, "telemetry", OTHER, drop="device")
    assert telemetry_devices(Run.open(edited).telemetry) == [None]
    assert command(["baseline", "add", str(tmp_path / "store"), str(edited)]) in {0, 2}
    assert [str(one.message) for one in recwarn] == []
    assert "internal fault" not in capsys.readouterr().err


def test_readings_of_a_device_and_of_none_are_told_apart(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = pl.int_range(pl.len()) == 0
    one = pl.when(first).then(None).otherwise("device").alias("device")
    edited = _with_table(whole, tmp_path, "telemetry", one)
    assert telemetry_devices(Run.open(edited).telemetry) == [0, None]
    assert command(["attribute", str(edited), "-o", str(tmp_path / "out.csv")]) in {0, 2}
    assert "internal fault" not in capsys.readouterr().err


def test_half_a_surrogate_in_a_runs_document_is_replaced(whole: Path, tmp_path: Path) -> None:
    """A path of bytes that are no text is kept so; no page can hold it."""
    edited = shutil.copytree(whole, tmp_path / "run")
    info = json.loads((edited / RUN_FILE).read_text())
    info["sources"][0]["path"] = "k\udfff \N{GREEK SMALL LETTER MU} \U0001f600"
    (edited / RUN_FILE).write_text(json.dumps(info))
    kept = Run.open(edited).info["sources"][0]["path"]
    assert kept == "k\ufffd \N{GREEK SMALL LETTER MU} \U0001f600"
    assert command(["report", str(edited), "-o", str(tmp_path / "out.html")]) == 0


def test_a_component_that_draws_nothing_has_no_profile(
    whole: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = _with_table(whole, tmp_path, "telemetry", pl.lit(0.0).alias("memory_power_w"))
    assert command(["profile", str(edited)]) in {0, 2}
    assert [str(one.message) for one in recwarn] == []
    assert "internal fault" not in capsys.readouterr().err


def test_reasons_of_more_than_64_bits_are_none() -> None:
    assert reason_bits("1" + 25 * "0") == reason_bits("-4") == reason_bits(str(1 << 64)) == 0
    assert reason_bits(hex((1 << 63) | 4)) == 4


def test_a_duration_without_end_is_refused(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited = _with_table(whole, tmp_path, "signatures", pl.lit(float("inf")).alias("duration_median_ns"))
    assert command(["predict", str(edited)]) == 2
    assert "holds a duration_median_ns without end" in capsys.readouterr().err


def _with_table(whole: Path, tmp_path: Path, table: str, column: pl.Expr, *, drop: str = "") -> Path:
    """Return a copy of a run with one column of a table changed, or left out, listed as if written so."""
    edited = shutil.copytree(whole, tmp_path / "run")
    file = edited / f"{table}.parquet"
    pl.read_parquet(file).with_columns(column).drop(drop or []).write_parquet(file)
    info = json.loads((edited / RUN_FILE).read_text())
    tag, rows = (info["tables"][table][key] for key in ("schema", "rows"))
    info["tables"][table] = listed_table(file, tag, rows)
    (edited / RUN_FILE).write_text(json.dumps(info))
    return edited


@pytest.mark.parametrize(
    ("table", "by"), [("ranges", "range"), ("operators", "operator"), ("signatures", "signature")]
)
def test_rows_that_share_a_number_are_refused(
    whole: Path, tmp_path: Path, table: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Run.open(whole).table(table)
    edited = _rewritten(whole, tmp_path / "run", table, pl.concat([rows, rows]))
    assert command(["predict", str(edited), "--by", by]) == 2
    assert f"{table}.parquet: broken table: two rows have one {by}" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["signature", "device", "operator", "range"])
def test_kernels_that_refer_to_rows_that_are_not_there_are_refused(
    whole: Path, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Run.open(whole).kernels
    edited = _rewritten(whole, tmp_path / "run", "kernels", rows.with_columns(pl.lit(7000).alias(column)))
    for name in ("classify", "predict"):
        assert command([name, str(edited)]) == 2
        assert f"holds a {column} that" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "value"), [("sources", 7), ("warnings", [1]), ("clock", []), ("tables", "x")]
)
def test_a_run_file_whose_parts_are_of_another_type_is_refused(
    whole: Path, tmp_path: Path, part: str, value: object
) -> None:
    info = json.loads((whole / RUN_FILE).read_text())
    (tmp_path / RUN_FILE).write_text(json.dumps({**info, part: value}))
    with pytest.raises(BadInput, match=part):
        Run.open(tmp_path)


def _log_of(format_name: str, file_name: str) -> str:
    return next(log.text for log in LOGS if (log.format, log.name) == (format_name, file_name))


def test_numbers_that_no_float_holds_cost_their_reading(tmp_path: Path) -> None:
    aiperf = tmp_path / "gpu_telemetry_export.jsonl"
    aiperf.write_text(_log_of("aiperf_gpus", aiperf.name).replace(": 110.0", ": " + "9" * 400))
    run = Run.open(ingest([aiperf], out=tmp_path / "run"))
    assert sorted(run.telemetry["power_w"].drop_nulls()) == [100.0, 100.0, 120.0, 120.0]
    redfish = tmp_path / "redfish.txt"
    redfish.write_text(_log_of("node_meter", "redfish.txt").replace("110", "9" * 400))
    assert 110.0 not in read_log(redfish).telemetry["power_w"].to_list()


@pytest.mark.parametrize("before", ["utf-16", "blank line"])
def test_windows_of_zeus_in_another_encoding_are_read_or_refused(tmp_path: Path, before: str) -> None:
    path = tmp_path / "zeus.csv"
    text = _log_of("zeus_windows", "zeus.csv")
    path.write_bytes(text.encode("utf-16") if before == "utf-16" else b"\n" + text.encode())
    if before == "utf-16":
        assert read_log(path).telemetry["energy_j"].max() == 200.0
    else:
        with pytest.raises(BadInput, match="does not begin with its columns"):
            read_log(path)


@pytest.mark.parametrize(
    ("format_name", "file_name", "time"),
    [
        ("pmt", "pmt.log", "1767589201.250"),
        ("powersensor3", "power.log", " 0.25 "),
        ("prometheus", "range.json", "1767589202.25"),
    ],
)
def test_times_that_no_clock_shows_cost_their_reading(
    tmp_path: Path, format_name: str, file_name: str, time: str
) -> None:
    path, text = tmp_path / file_name, _log_of(format_name, file_name)
    assert time in text
    path.write_text(text)
    whole = read_log(path).telemetry.height
    path.write_text(
        text.replace(
            time,
            "9" * 400
            if format_name == "prometheus"
            else f" {2**63 - 1} "
            if time[0] == " "
            else str(2**63 - 1),
        )
    )
    assert 0 < read_log(path).telemetry.height < whole


@pytest.mark.filterwarnings("error")
def test_an_operator_of_next_to_no_size_is_refused_without_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("op,dtype,elements\nelementwise,fp32,1e-320\nelementwise,fp32,1e6\n")
    assert command(["predict", str(table), "--gpu", "h100-sxm", "--clock", "1200", "-q"]) == 2
    assert "row 1, column elements" in capsys.readouterr().err


@pytest.mark.filterwarnings("error")
def test_a_mean_of_next_to_no_size_is_predicted_without_a_warning() -> None:
    """A forecast's own rows hold means."""
    frame = pl.DataFrame({"op": ["elementwise"] * 2, "dtype": ["fp32"] * 2, "elements": [1e-320, 1e6]})
    rows = read_table(frame, of_means=True).rows
    predicted = predict_rows(rows, load_gpu("h100-sxm"), np.array([1200.0]))
    assert np.isfinite(predicted.energy_j).all()


@pytest.mark.parametrize("digits", [10, 19, 40, 5000])
def test_a_kernel_name_with_a_long_number_states_no_size_of_it(digits: int) -> None:
    """No column of integers holds it from 19 digits on, and no Python reads it from 4301 on."""
    long, plain = f"ampere_sgemm_{'1' * digits}x64_tn", "ampere_sgemm_128x64_tn"
    table = classify_names([long, f"void at::native::f<{'1' * digits}, 4>(int)", plain])
    assert table["family"].null_count() == 0
    assert table["tile_m"].to_list() == [None, None, 128]


def test_a_quote_that_never_ends_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text('op,elements\nnorm,2\nmore",\nnorm,"')
    assert command(["predict", str(table), "--gpu", "h100-sxm", "--clock", "1200", "-q"]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_a_note_names_a_column_of_two_lines_in_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    table.write_text('op,dtype,elements,kind,"reads\n-inf"\nelementwise,bf16,1e6,"a\nb",2\n')
    assert command(["predict", str(table), "--gpu", "h100-sxm", "--clock", "1200"]) == 0
    said = capsys.readouterr().out
    assert "columns without effect: reads\\n-inf" in said
    assert "two FLOPs an element: a\\nb (" in " ".join(said.split())


@pytest.mark.parametrize("wrong", ["1000000000000000", "2147483648", "4611686018427387904"])
def test_a_reading_with_a_wrong_time_takes_no_memory_for_the_time_between(
    tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Power was modeled in blocks of a sensor's update from the first reading to the last: gigabytes."""
    log = "timestamp,power_w\n" + "".join(f"{1700000000 + i / 10},{100 + i}\n" for i in range(12))
    assert "1700000000.4," in log
    (tmp_path / "log.csv").write_text(log.replace("1700000000.4,", f"{wrong},"))
    (tmp_path / "activity.csv").write_text(
        "name,start_us,end_us\na,1700000000000000,1700000000300000\nb,1700000000300000,1700000000900000\n"
    )
    tracemalloc.start()
    code = command(
        ["attribute", f"{tmp_path}/activity.csv", "--power", f"{tmp_path}/log.csv", "--tz", "+00:00", "-q"]
    )
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert code in {0, 2, 3}
    assert len(capsys.readouterr().err.splitlines()) <= 1
    assert peak_bytes < 2**28


@pytest.mark.parametrize("power", ["1e-320", "1e-160", "1e-9", "0"])
def test_a_log_of_next_to_no_power_is_refused(
    tmp_path: Path, power: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "timestamp,power_w\n" + "".join(f"{1700000000 + i / 10},{power}\n" for i in range(12))
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "activity.csv").write_text("name,start_us,end_us\na,1700000000000000,1700000000900000\n")
    words = ["attribute", f"{tmp_path}/activity.csv", "--power", f"{tmp_path}/log.csv", "--tz", "+00:00"]
    assert command([*words, "-q"]) == 2
    assert f"never rises above {float(power):g} W" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["update_ms = 1e-320", "update_ms = 0", "window_ms = 1e-9", "gain = 1e-320", "gain_sd = 1e-300"]
)
def test_a_sensor_file_with_next_to_nothing_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "sensor.toml"
    path.write_text(f"[sensor]\n{line}\n")
    with pytest.raises(BadInput, match="less than of any sensor"):
        read_sensor_file(path)
    path.write_text("[sensor]\ngain = 0.98\nwindow_ms = 0\nupdate_ms = 0.05\n")
    assert read_sensor_file(path) == {"gain": 0.98, "window_s": 0.0, "update_s": pytest.approx(5e-5)}


@pytest.mark.parametrize("header", ["start_us, end_us,end_us ", " start_us,end_us,x, x,x "])
def test_columns_that_differ_in_blanks_alone_are_no_fault(tmp_path: Path, header: str) -> None:
    path = tmp_path / "windows.csv"
    cells = ",".join(["1700000000100000", "1700000000500000", "1", "2", "3"][: header.count(",") + 1])
    path.write_text(f"{header}\n{cells}\n")
    assert read_windows(path).height == 1


def test_a_line_of_rocm_smi_that_ends_before_its_device_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "rocm.csv"
    text = _log_of("rocm_smi", "rocm.csv")
    log.write_text(text)
    whole = read_log(log).telemetry.height
    log.write_text(text + "Average Graphics Package Power (W),sclk clock speed:,device\n25,(1700Mhz)\n")
    assert read_log(log).telemetry.height == whole


@pytest.mark.parametrize("window", ["", "5"])
@pytest.mark.parametrize("words", ["roofline", "attribute", "summary", "diff", "predict"])
def test_a_table_cut_short_in_a_run_without_a_list_is_one_line(
    whole: Path,
    tmp_path: Path,
    words: str,
    window: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its rows are counted before it is read; whole tables of listed runs are read in windows too."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    info = json.loads((run / RUN_FILE).read_text("utf-8"))
    (run / RUN_FILE).write_text(json.dumps(info | {"schema": UNLISTED_SCHEMA}), "utf-8")
    kernels = run / "kernels.parquet"
    kernels.write_bytes(kernels.read_bytes()[:-200])
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")
    if window:
        monkeypatch.setenv("TRACETOOL_WINDOW", window)
    assert command([words, str(run)]) == 2
    said = capfd.readouterr().err
    assert "kernels.parquet: broken table" in said
    assert len(said.splitlines()) == 1


def test_a_baseline_at_which_a_library_panics_is_one_line(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store")
    assert command(["baseline", "add", store, str(whole), "--commit", "a", "--branch", "main", "-q"]) == 0

    read = pl.read_parquet

    def panic(file: object, **options: object) -> pl.DataFrame:
        if isinstance(file, Path):  # tables of the run
            return read(file, **options)  # type: ignore[arg-type]
        os.write(2, b"thread 'rayon-0' (7) panicked at crates/plain.rs:1:2:\nassertion failed: a >= 4\n")
        raise pl.exceptions.PanicException

    monkeypatch.setattr("tracetool.compare.baseline_store.pl.read_parquet", panic)
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")
    capfd.readouterr()
    assert command(["diff", str(whole), "--baseline", store]) == 2
    said = capfd.readouterr().err
    assert "broken baseline: it is damaged" in said
    assert len(said.splitlines()) == 1


def test_a_long_document_that_breaks_early_is_not_tried_at_every_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try looked at all bytes read: a profile of 60 MB took minutes until it was refused."""
    events = ",".join(json.dumps(e) for e in kineto_events() * 4_000)
    text = json.dumps(kineto_document([])).replace('"traceEvents": []', f'"traceEvents": [{events}]')
    at = text.index('"dur"', text.index("traceEvents") + 2_000)
    path = tmp_path / "broken.json"
    path.write_text(text[:at] + "#" + text[at:])
    repairs: list[int] = []
    repaired = pytorch_events._repaired
    monkeypatch.setattr(pytorch_events, "_repaired", lambda raw: (repairs.append(len(raw)), repaired(raw))[1])
    with pytest.raises(BadInput, match=r"JSON is malformed: .* near byte"):
        ingest([path], out=tmp_path / "run")
    assert sum(repairs) < 4 * len(text)
