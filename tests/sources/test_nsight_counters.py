"""Counters in Nsight exports: power and metrics read exactly, others named, rows in any order."""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tests.sources.counter_makers import (
    GPUS,
    METRICS,
    READINGS,
    counter_tables,
    metric_tables,
    shuffle,
    tied_tables,
    with_counters,
)
from tests.sources.makers import EPOCH_NS, nsys_tables, write_tables
from tracetool.api.attribute import attribute
from tracetool.api.check_power import check_power
from tracetool.api.ingest import ingest
from tracetool.api.roofline import roofline
from tracetool.api.summary import summary
from tracetool.core.errors import BadInput
from tracetool.measure.sampled_activity import activity_by_signature
from tracetool.tables.run import Run


def _power_by_sql(path: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Read power and temperature with SQL and arithmetic alone, by the id in the scope's path."""
    by_gpu: dict[str, list[tuple[int, float, float]]] = {}
    with closing(sqlite3.connect(path)) as db, db:
        groups = db.execute(
            "SELECT G.domainId, G.counterGroupId, S.path FROM NVTX_COUNTER_GROUPS G JOIN NVTX_SCOPES S"
            " ON S.domainId = G.domainId AND S.scopeId = G.scopeId WHERE S.path LIKE 'GPUs/%'"
        ).fetchall()
        for domain, group, scope in groups:
            rows = db.execute(
                'SELECT timestamp, "Power [mW]", "Temperature [C]" FROM'
                f" NVTX_COUNTER_SAMPLES_{domain}_{group} ORDER BY timestamp"
            )
            uuid = scope.split("/")[1].split(" ")[0]
            by_gpu[uuid] = [(EPOCH_NS + t, mw / 1000.0, float(c)) for t, mw, c in rows]
    return by_gpu


def test_power_of_the_nvml_plugin_is_read_to_the_milliwatt_on_its_gpu(tmp_path: Path) -> None:
    path = with_counters(tmp_path)
    truth = _power_by_sql(path)
    run = Run.open(ingest([path], out=tmp_path / "out"))
    power = run.telemetry.drop_nulls("power_w")
    for device, uuid in run.devices.select("device", "uuid").iter_rows():
        read = power.filter(pl.col("device") == device)
        for i, column in enumerate(("time_ns", "power_w", "temperature_c")):
            assert read[column].to_list() == pytest.approx([row[i] for row in truth[uuid]], rel=1e-14, abs=0)
        assert read["time_ns"].to_list() == [row[0] for row in truth[uuid]]
    assert power.height == sum(map(len, truth.values())) == 2 * READINGS
    assert set(power["field"]) == {"power.draw"}
    assert set(power["scope"]) == {"gpu"}


def test_the_averaged_field_of_an_h100_is_read_as_a_second(tmp_path: Path) -> None:
    run = ingest([with_counters(tmp_path)], out=tmp_path / "out")
    findings = check_power(run).findings.filter(pl.col("check") == "sensor")
    assert findings.height == 2
    assert findings["reason"].str.contains(r"1(\.1)? s|1,?[01]00 ms").all(), findings["reason"].to_list()
    total = attribute(run).energy["energy_j"].sum()
    assert total > 0.0


@pytest.mark.parametrize("unit", [" [mW]", "", " (W)", " [milliwatts]"])
def test_units_are_taken_as_stated_else_as_the_plugin_documents(unit: str, tmp_path: Path) -> None:
    run = Run.open(ingest([with_counters(tmp_path, unit=unit)], out=tmp_path / "out"))
    power = run.telemetry["power_w"].drop_nulls()
    if unit == " (W)":  # 350,000 W is no GPU's: refused row by row, not read as something else
        assert power.is_empty()
        assert "impossible reading: power_w" in run.table("rejected")["reason"].to_list()[0]
    else:
        assert power.max() == pytest.approx(480.0, rel=1e-4)


def test_watts_without_a_unit_are_not_taken_for_milliwatts(tmp_path: Path) -> None:
    tables = counter_tables(unit="")
    for gpu in range(2):
        columns, rows = tables[f"NVTX_COUNTER_SAMPLES_3_{100 + gpu}"]
        tables[f"NVTX_COUNTER_SAMPLES_3_{100 + gpu}"] = columns, [[t, mw // 1000, c] for t, mw, c in rows]  # type: ignore[operator]
    run = Run.open(ingest([write_tables(tmp_path / "run.sqlite", tables)], out=tmp_path / "out"))
    assert run.telemetry["power_w"].max() == pytest.approx(480.0, abs=1.0)
    assert any("taken for watts" in w for w in run.info["warnings"])


def test_groups_without_a_scope_are_the_gpus_in_order_where_there_are_as_many(tmp_path: Path) -> None:
    named = Run.open(ingest([with_counters(tmp_path)], out=tmp_path / "named"))
    bare = Run.open(ingest([with_counters(tmp_path, scopes=False)], out=tmp_path / "bare"))
    columns = ["time_ns", "device", "power_w", "temperature_c"]
    assert bare.telemetry.select(columns).equals(named.telemetry.select(columns))


def test_power_whose_gpu_is_not_known_is_named_and_counted(tmp_path: Path) -> None:
    tables = counter_tables(scopes=False)
    del tables["NVTX_COUNTER_SAMPLES_3_101"]
    run = Run.open(ingest([write_tables(tmp_path / "run.sqlite", tables)], out=tmp_path / "out"))
    assert run.telemetry["power_w"].drop_nulls().is_empty()
    notes = [w for w in run.info["warnings"] if "NVTX_COUNTER_SAMPLES_3_100" in w]
    assert len(notes) == 1
    assert f"{READINGS} samples" in notes[0]


def test_counters_of_other_things_are_named_with_their_count(tmp_path: Path) -> None:
    warnings = Run.open(ingest([with_counters(tmp_path)], out=tmp_path / "out")).info["warnings"]
    disk = next(w for w in warnings if "NVTX_COUNTER_SAMPLES_0_7" in w)
    assert "25 samples" in disk
    assert "Mounts/scratch" in disk
    assert any("NET_NIC_METRIC" in w and "12 samples" in w for w in warnings)
    assert any("GPU_METRICS has 900 samples" in w and "GR Active" in w for w in warnings)
    assert not any("NVTX_COUNTER_SAMPLES_3" in w for w in warnings)


@pytest.mark.parametrize("name", [
    "NVTX_COUNTER_SAMPLES_9_9", "DPU_METRICS", "NET_IB_SWITCH_METRIC_EVENT", "RAPL_COUNTERS",
    "BMC_POWER_SAMPLES",
    "SOC_METRICS_0", "CHASSIS_SENSORS", "RACK_TELEMETRY", "PERF_EVENT_SOC",
])  # fmt: skip
def test_a_table_of_counters_nobody_knows_is_named_with_its_count(name: str, tmp_path: Path) -> None:
    tables = nsys_tables() | {name: (["timestamp INTEGER", "value INTEGER"], [[i, i] for i in range(17)])}
    warnings = Run.open(ingest([write_tables(tmp_path / "run.sqlite", tables)], out=tmp_path / "out")).info[
        "warnings"
    ]
    assert any(name in w and "is not read: 17 samples" in w for w in warnings), warnings


def test_tables_that_describe_are_no_counters(tmp_path: Path) -> None:
    names = ("TARGET_INFO_GPU_METRICS", "ENUM_GPU_COUNTERS", "META_DATA_SENSORS", "SAMPLING_CALLCHAINS")
    tables = nsys_tables() | {name: (["id INTEGER"], [[1]]) for name in names}
    warnings = Run.open(ingest([write_tables(tmp_path / "run.sqlite", tables)], out=tmp_path / "out")).info[
        "warnings"
    ]
    assert not any(name in w for w in warnings for name in names)


def test_metrics_that_are_held_as_events_too_are_not_named_twice(tmp_path: Path) -> None:
    tables = counter_tables()
    kind = tables["GPU_METRICS"][1][0][1]
    columns = ["rawTimestamp INTEGER", "timestamp INTEGER", "typeId INTEGER", "data TEXT"]
    tables["GENERIC_EVENTS"] = columns, [[i, i, kind, "{}"] for i in range(50)]
    path = write_tables(tmp_path / "run.sqlite", tables)
    warnings = Run.open(ingest([path], out=tmp_path / "out")).info["warnings"]
    assert not any("GENERIC_EVENTS" in w for w in warnings)
    tables["GENERIC_EVENTS"][1].extend([i, i, 7, "{}"] for i in range(3))
    path = write_tables(tmp_path / "more.sqlite", tables)
    warnings = Run.open(ingest([path], out=tmp_path / "more")).info["warnings"]
    assert any("GENERIC_EVENTS is not read: 3 samples" in w for w in warnings)


def test_a_power_limit_or_another_part_is_no_power_of_the_gpu(tmp_path: Path) -> None:
    tables = counter_tables()
    for table, (columns, rows) in list(tables.items()):
        renamed = [c.replace("Power [mW]", "Power Limit [mW]") for c in columns]
        tables[table] = (
            renamed,
            [["Power Limit [mW]" if cell == "Power [mW]" else cell for cell in row] for row in rows],
        )
    run = Run.open(ingest([write_tables(tmp_path / "run.sqlite", tables)], out=tmp_path / "out"))
    assert run.telemetry["power_w"].drop_nulls().is_empty()
    assert run.telemetry["temperature_c"].drop_nulls().len() == 2 * READINGS
    assert any("Power Limit" in w for w in run.info["warnings"])


def test_hardware_metrics_are_clocks_and_shares_exactly(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "run.sqlite", nsys_tables() | metric_tables())
    truth: dict[int, dict[str, int]] = defaultdict(dict)
    with closing(sqlite3.connect(path)) as db, db:
        for time, number, value in db.execute("SELECT timestamp, metricId, value FROM GPU_METRICS"):
            truth[EPOCH_NS + time][METRICS[number]] = value
    sampled = Run.open(ingest([path], out=tmp_path / "out")).telemetry
    assert sampled.height == len(truth) == 50
    for row in sampled.iter_rows(named=True):
        at = truth[row["time_ns"]]
        assert row["clock_mhz"] == (at["GPC Clock Frequency"] % 2**32) / 1e6
        dram = at["DRAM Read Throughput"] + at["DRAM Write Throughput"]
        percents = {
            "utilization": at["SM Active"], "act_sm": at["SM Active"], "act_tensor": at["Tensor Active"],
            "act_dram": min(dram, 100),
        }  # fmt: skip
        assert {c: 100 * row[c] for c in percents} == pytest.approx(percents, rel=1e-13, abs=1e-13)


def test_activity_is_stated_by_summary_and_check_power(tmp_path: Path) -> None:
    run = ingest([with_counters(tmp_path)], out=tmp_path / "out")
    sampled = run.telemetry.drop_nulls("act_sm")
    share = 100 * float(sampled["act_sm"].mean())  # type: ignore[arg-type]
    stated = f"SMs active {share:.1f} %"
    assert any(stated in note and "50 samples" in note for note in summary(run).notes)
    found = check_power(run).findings.filter(pl.col("check") == "activity")
    assert found["device"].to_list() == [0]
    assert stated in found["reason"][0]
    assert found["value"][0] == pytest.approx(share)


def test_activity_of_a_kernel_is_that_of_samples_well_inside_it(tmp_path: Path) -> None:
    """Samples every 100 us; one long kernel runs alone, two others overlap for a millisecond."""
    tables = nsys_tables() | metric_tables(samples=120)
    kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    launches = (
        (2_000_000, 4_000_000, 13, 64),
        (6_000_000, 8_000_000, 13, 32),
        (7_000_000, 9_000_000, 14, 96),
    )
    for start, end, stream, block in launches:
        row = list(kernels[1])
        row[0], row[1], row[4], row[5], row[13] = start, end, stream, 500 + block, block
        kernels.append(row)
    path = write_tables(tmp_path / "run.sqlite", tables)
    run = Run.open(ingest([path], out=tmp_path / "out"))
    means = activity_by_signature(run.kernels, run.telemetry)
    rows = run.telemetry.with_columns(at=pl.col("time_ns") - EPOCH_NS)
    blocks = dict(run.signatures.select("signature", "block_x").iter_rows())
    alone = {64: (2_000_000, 4_000_000), 32: (6_000_000, 7_000_000), 96: (8_000_000, 9_000_000)}
    compared = set()
    for signature, samples, share, *_ in means.iter_rows():
        if (block := blocks[signature]) not in alone:
            continue
        start, end = alone[block]
        inside = rows.filter(pl.col("at").is_between(start + 100_000, end - 100_000))
        assert samples == inside.height > 0
        assert share == pytest.approx(inside["act_sm"].mean())
        compared.add(block)
    assert compared == set(alone)
    assert roofline(run.path).operators["act_sm"].count() > 0


def _tables_of(run: Run, folder: Path) -> dict[str, pl.DataFrame]:
    return {p.name: pl.read_parquet(p) for p in sorted(folder.glob("*.parquet"))}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_in_any_order_give_the_same_run(seed: int, tmp_path: Path) -> None:
    path = write_tables(tmp_path / "run.sqlite", tied_tables())
    first = Run.open(ingest([path], out=tmp_path / "first"))
    shuffle(path, seed)
    again = Run.open(ingest([path], out=tmp_path / "again"))
    one, two = (_tables_of(r, tmp_path / f) for r, f in ((first, "first"), (again, "again")))
    assert one.keys() == two.keys()
    for name, frame in one.items():
        assert frame.equals(two[name]), name
    assert first.info["warnings"] == again.info["warnings"]


def test_files_with_rows_in_any_order_give_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "run_pqtdir"
    folder.mkdir()
    rng = random.Random(5)
    runs = []
    for attempt in ("first", "again"):
        for name, (columns, rows) in tied_tables().items():
            plain = [c.split(" INTEGER")[0].split(" TEXT")[0].strip('"') for c in columns]
            if attempt == "again":
                rng.shuffle(rows)
            frame = pl.DataFrame(rows, schema=plain, orient="row", infer_schema_length=None)
            frame.write_parquet(folder / f"{name}.parquet")
        runs.append(_tables_of(Run.open(ingest([folder], out=tmp_path / attempt)), tmp_path / attempt))
    assert runs[0]["telemetry.parquet"]["power_w"].count() == 2 * READINGS
    for name, frame in runs[0].items():
        assert frame.equals(runs[1][name]), name


@pytest.mark.data
@pytest.mark.parametrize("name", ["nsys-ai__tests_fixtures_healthy_1pct", "SIGMA__report2"])
def test_a_real_export_in_any_order_gives_the_same_run(name: str, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes((data / "traces" / "nsys" / f"{name}.sqlite").read_bytes())
    first = Run.open(ingest([path], out=tmp_path / "first"))
    shuffle(path, 11)
    again = Run.open(ingest([path], out=tmp_path / "again"))
    one, two = (_tables_of(r, tmp_path / f) for r, f in ((first, "first"), (again, "again")))
    for table, frame in one.items():
        assert frame.equals(two[table]), table


def test_samples_behind_a_view_are_refused(tmp_path: Path) -> None:
    path = with_counters(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE NVTX_COUNTER_SAMPLES_3_100 RENAME TO kept")
        db.execute("CREATE VIEW NVTX_COUNTER_SAMPLES_3_100 AS SELECT * FROM kept")
    with pytest.raises(BadInput, match="NVTX_COUNTER_SAMPLES_3_100 is a view") as error:
        ingest([path], out=tmp_path / "out")
    assert "\n" not in error.value.line()
    assert not (tmp_path / "out").exists()


def test_a_cut_export_with_counters_is_refused(tmp_path: Path) -> None:
    path = with_counters(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(BadInput) as error:
        ingest([path], out=tmp_path / "out")
    assert "\n" not in error.value.line()
    assert not (tmp_path / "out").exists()


def test_the_ids_of_both_gpus_are_the_samples(tmp_path: Path) -> None:
    """A guard of the file above: it must hold both, or the tests of places test nothing."""
    assert set(_power_by_sql(with_counters(tmp_path))) == {uuid for uuid, _ in GPUS}
