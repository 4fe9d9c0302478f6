"""Counters rocprof-sys polls: GPUs' become telemetry exactly, the others are named with their counts."""

# ruff: noqa: E501 - tables and statements are written as the tools write them

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tests.sources.counter_makers import (
    POLL_NS,
    POLLED,
    POLLS,
    TRACK_NAMES,
    _counter_track,
    rocpd_with_counters,
    shuffle,
    systems_pftrace,
)
from tests.sources.makers import BOOT_NS, LAUNCHES, _field, rocpd, rocprofv3_csv, rocprofv3_json, rpd
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.sources.rocm.track_events import read_events
from tracetool.tables.run import Run


def _polled_by_sql(path: Path) -> dict[int, list[tuple[int, float, float, float]]]:
    """Return time, power, temperature and load by agent, by SQL alone."""
    polled = {}
    with closing(sqlite3.connect(path)) as db, db:
        for end in ("0a_1", "0b_2"):
            value = "max(CASE WHEN P.name = '{}' THEN E.value END)"
            columns = ", ".join(value.format(n) for n in ("device_power", "device_temp", "device_busy_gfx"))
            rows = db.execute(
                f"SELECT A.absolute_index, S.timestamp, {columns} FROM rocpd_pmc_event_{end} E"
                f" JOIN rocpd_info_pmc_{end} P ON P.id = E.pmc_id"
                f" JOIN rocpd_info_agent_{end} A ON A.id = P.agent_id"
                f" JOIN (SELECT DISTINCT event_id, timestamp FROM rocpd_sample_{end}) S ON S.event_id = E.event_id"
                " GROUP BY 1, 2 ORDER BY 2"
            ).fetchall()
            polled[rows[0][0]] = [row[1:] for row in rows]
    return polled


def test_polled_power_of_a_database_is_telemetry_of_the_agents_gpu(tmp_path: Path) -> None:
    path = rocpd_with_counters(tmp_path)
    truth = _polled_by_sql(path)
    run = Run.open(ingest([path], out=tmp_path / "out"))
    for device, agent in run.devices.select("device", "profiler_device").iter_rows():
        read = run.telemetry.filter(pl.col("device") == device)
        assert read["time_ns"].to_list() == [r[0] for r in truth[agent]]
        assert read["power_w"].to_list() == [r[1] for r in truth[agent]]
        assert read["temperature_c"].to_list() == [r[2] for r in truth[agent]]
        assert (100 * read["utilization"]).to_list() == pytest.approx([r[3] for r in truth[agent]])
    assert run.telemetry.height == 2 * POLLS
    assert set(run.telemetry["field"]) == {"device_power"}


def test_counters_that_are_not_read_are_named_with_their_counts(tmp_path: Path) -> None:
    warnings = Run.open(ingest([rocpd_with_counters(tmp_path)], out=tmp_path / "out")).info["warnings"]
    note = next(w for w in warnings if "not read" in w)
    for name, count in (("device_busy_umc", 2 * POLLS), ("device_memory_usage", 2 * POLLS), ("SQ_WAVES", 2)):
        assert name in note
        assert f"({count} samples)" in note
    plain = Run.open(ingest([rocpd(tmp_path)], out=tmp_path / "plain")).info["warnings"]
    assert not any("not read" in w for w in plain)


@pytest.mark.parametrize("name", ["rocpd_counter_0a_1", "rocpd_pmc_sample_0a_1", "rocpd_power_sensor_0a_1"])
def test_a_table_of_counters_nobody_knows_is_named_with_its_count(name: str, tmp_path: Path) -> None:
    path = rocpd_with_counters(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, timestamp INTEGER, value REAL)")
        db.executemany(f"INSERT INTO {name} VALUES (?, ?, 1.0)", [(i, i) for i in range(19)])
    db.close()
    warnings = Run.open(ingest([path], out=tmp_path / "out")).info["warnings"]
    assert any(f"{name} is not read: 19 samples" in w for w in warnings)
    assert sum("is not read: " in w for w in warnings) == 1


def test_samples_whose_times_are_kept_apart_are_joined(tmp_path: Path) -> None:
    path = rocpd_with_counters(tmp_path)
    apart = tmp_path / "apart.db"
    apart.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(apart)) as db, db:
        for end in ("0a_1", "0b_2"):
            db.executescript(
                f"""
                CREATE TABLE rocpd_timestamp_{end} (id INTEGER PRIMARY KEY, guid TEXT, value BIGINT);
                INSERT INTO rocpd_timestamp_{end} SELECT id + 70, guid, timestamp FROM rocpd_sample_{end};
                CREATE TABLE samples_{end} AS SELECT id, guid, track_id, id + 70 AS timestamp_id, event_id
                  FROM rocpd_sample_{end};
                DROP TABLE rocpd_sample_{end};
                ALTER TABLE samples_{end} RENAME TO rocpd_sample_{end};
                """
            )
    db.close()
    columns = ["device", "time_ns", "power_w", "temperature_c", "utilization"]
    one, two = (Run.open(ingest([p], out=tmp_path / p.stem)).telemetry for p in (path, apart))
    assert one.select(columns).equals(two.select(columns))


def test_polled_samples_in_any_order_give_the_same_telemetry(tmp_path: Path) -> None:
    path = rocpd_with_counters(tmp_path)
    first = Run.open(ingest([path], out=tmp_path / "first")).telemetry
    shuffle(path, 3)
    assert Run.open(ingest([path], out=tmp_path / "again")).telemetry.equals(first)


@pytest.mark.parametrize("names", TRACK_NAMES, ids=[n[0] for n in TRACK_NAMES])
def test_counter_tracks_are_telemetry_at_their_times(names: tuple[str, str], tmp_path: Path) -> None:
    path = systems_pftrace(tmp_path, names)
    assert detect(path)[0] == "pftrace"
    run = Run.open(ingest([path], out=tmp_path / "out"))
    for gpu in range(2):
        read = run.telemetry.filter(pl.col("device") == gpu)
        assert read["time_ns"].to_list() == [BOOT_NS + POLL_NS * i for i in range(POLLS)]
        assert read["power_w"].to_list() == [POLLED["device_power"][1](gpu, i) for i in range(POLLS)]
    note = next(w for w in run.info["warnings"] if "not read" in w)
    for gpu in range(2):
        assert f"{names[1].format(gpu)} [%] ({POLLS} samples)" in note
    assert run.info["sources"][0]["profiler"] == "rocprof-sys"


def test_kernels_of_rocprof_sys_have_their_gpu_grid_and_block(tmp_path: Path) -> None:
    run = Run.open(ingest([systems_pftrace(tmp_path)], out=tmp_path / "out"))
    for gpu in range(2):
        kernels = run.kernels.filter(pl.col("device") == gpu)
        assert kernels["start_ns"].to_list() == [BOOT_NS + s for _, s, *_ in LAUNCHES]
        assert kernels["duration_ns"].to_list() == [e - s for _, s, e, *_ in LAUNCHES]
        assert kernels["grid_x"].to_list() == [128, 8, 128]
        assert kernels["block_x"].to_list() == [256, 512, 256]


def test_a_trace_of_counters_alone_is_a_log(tmp_path: Path) -> None:
    run = Run.open(ingest([systems_pftrace(tmp_path, kernels=False)], out=tmp_path / "out"))
    assert run.kernels.is_empty()
    assert run.telemetry["power_w"].count() == 2 * POLLS


def test_values_that_count_from_the_one_before_are_summed() -> None:
    packets = [_field(10, 5) + _field(13, 1), _counter_track(7, "energy", "uJ", step=4, adds=1)]
    packets += [_field(8, t) + _field(10, 5) + _field(11, _field(9, 4) + _field(11, 7) + _field(30, v))
                for t, v in ((10, 5), (20, 6), (30, 7))]  # fmt: skip
    counts = read_events(b"".join(_field(1, p) for p in packets)).counts
    assert counts.select("time_ns", "value").rows() == [(10, 20.0), (20, 44.0), (30, 72.0)]


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_cut_trace_with_counters_is_refused_in_one_line(share: float, tmp_path: Path) -> None:
    path = systems_pftrace(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(BadInput, match="cut or damaged Perfetto trace") as error:
        ingest([path], out=tmp_path / "out")
    assert "\n" not in error.value.line()
    assert not (tmp_path / "out").exists()


def test_a_database_whose_samples_are_a_view_is_refused(tmp_path: Path) -> None:
    path = rocpd_with_counters(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE rocpd_sample_0a_1 RENAME TO kept")
        db.execute("CREATE VIEW rocpd_sample_0a_1 AS SELECT * FROM kept")
    db.close()
    with pytest.raises(BadInput, match="rocpd_sample_0a_1 is a view") as error:
        ingest([path], out=tmp_path / "out")
    assert "\n" not in error.value.line()


def test_counters_of_rocprofv3_are_named_with_their_count(tmp_path: Path) -> None:
    path = rocprofv3_csv(tmp_path)
    (tmp_path / "77_counter_collection.csv").write_text(
        '"Correlation_Id","Dispatch_Id","Agent_Id","Kernel_Name","Counter_Name","Counter_Value",'
        '"Start_Timestamp","End_Timestamp"\n' + 5 * '1,1,"Agent 4","k","SQ_WAVES",64,1,2\n'
    )
    warnings = Run.open(ingest([path], out=tmp_path / "csv")).info["warnings"]
    assert any("77_counter_collection.csv lies beside it: its 5 counters" in w for w in warnings)
    document = json.loads(rocprofv3_json(tmp_path).read_text())
    document["rocprofiler-sdk-tool"][0]["callback_records"] = {"counter_collection": [{"records": []}] * 7}
    (tmp_path / "7_results.json").write_text(json.dumps(document))
    warnings = Run.open(ingest([tmp_path / "7_results.json"], out=tmp_path / "json")).info["warnings"]
    assert any("counter_collection is not read: 7 counters" in w for w in warnings)


def test_monitors_of_rpd_that_are_no_clock_are_named(tmp_path: Path) -> None:
    path = rpd(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO rocpd_monitor VALUES (9, 'gpu', 0, 'power', 1, 2, '200')")
    db.close()
    warnings = Run.open(ingest([path], out=tmp_path / "out")).info["warnings"]
    assert any("rocpd_monitor: power of gpu is not read: 1 reading" in w for w in warnings)
    plain = Run.open(ingest([rpd(tmp_path)], out=tmp_path / "plain")).info["warnings"]
    assert not any("rocpd_monitor" in w for w in plain)


def test_render_stages_beside_slices_are_named(tmp_path: Path) -> None:
    path = systems_pftrace(tmp_path)
    assert not read_events(path.read_bytes()).stages
    path.write_bytes(path.read_bytes() + 2 * _field(1, _field(8, 2) + _field(53, _field(1, 1))))
    run = Run.open(ingest([path], out=tmp_path / "out"))
    assert any("2 GPU render stages left out" in w for w in run.info["warnings"])
