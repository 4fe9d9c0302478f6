"""Logs of several hosts, counters that wrap, units that are wrong, and files that hold nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.sources.logs import (
    AIPERF,
    CODECARBON,
    EXPOSITION,
    IPMI,
    LOGS,
    PERF_STAT,
    PMT,
    POWERCAP,
    POWERSENSOR3,
    SACCT,
    SLURM,
    SRT_SLURM,
    START_S,
    TURBOSTAT,
    WATTS,
    ZEUS_WINDOWS,
)
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.sources.telemetry.logs import read_log, read_telemetry

HEADS = {
    "codecarbon": CODECARBON, "srt_slurm": SRT_SLURM, "aiperf_gpus": AIPERF, "pmt": PMT,
    "powersensor3": POWERSENSOR3, "zeus_windows": ZEUS_WINDOWS, "slurm_energy": SLURM, "turbostat": TURBOSTAT,
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("fault", ["torn", "words"])
def test_a_log_without_a_whole_reading_is_refused_in_one_line(name: str, fault: str, tmp_path: Path) -> None:
    head, first = HEADS[name].split("\n")[:2]
    if name == "aiperf_gpus":
        head, first = "", head
    row = first[:15] if fault == "torn" else "".join("x" if c.isdigit() else c for c in first)
    path = tmp_path / "log.txt"
    path.write_text(f"{head}\n{row}\n" if head else f"{row}\n")
    with pytest.raises(BadInput) as refused:
        read_telemetry(path, "+00:00")
    assert "\n" not in refused.value.line()
    assert path.name in refused.value.line()


@pytest.mark.parametrize("text", [SRT_SLURM, AIPERF], ids=["srt_slurm", "aiperf"])
def test_gpus_of_two_hosts_with_one_index_stay_two(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    trace = read_log(path)
    assert trace.devices.sort("device").select("uuid", "profiler_device").rows() == [
        ("GPU-aaaa", 0),
        ("GPU-bbbb", 0),
    ]
    assert trace.telemetry["device"].value_counts().sort("device").rows() == [(0, 3), (1, 3)]


def test_a_package_of_srt_slurm_is_read_with_its_windows(tmp_path: Path) -> None:
    import hashlib

    folder = tmp_path / "power"
    (folder / "windows").mkdir(parents=True)
    (folder / "samples.csv").write_text(SRT_SLURM)
    manifest = {"schema_version": 1, "samples_sha256": hashlib.sha256(SRT_SLURM.encode()).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    window = {
        "schema_version": 1, "status": "completed", "benchmark_type": "sa-bench", "concurrency": 4,
        "benchmark_start_time_unix": START_S + 0.5, "benchmark_end_time_unix": START_S + 1.5, "duration": 1.0,
    }  # fmt: skip
    (folder / "windows" / "results_4.json").write_text(json.dumps(window))
    assert detect(folder)[0] == "srt_slurm"
    trace = read_log(folder)
    assert trace.details["windows"][0]["concurrency"] == 4
    by_hand = sum(WATTS) + sum(w + 400.0 for w in WATTS)
    assert trace.telemetry["power_w"].sum() == pytest.approx(by_hand)
    (folder / "samples.csv").write_text(SRT_SLURM.replace("110.0", "111.0"))
    with pytest.raises(BadInput, match="is not the file its manifest"):
        read_log(folder)
    (folder / "manifest.json").unlink()
    (folder / "samples.csv").write_text(SRT_SLURM + "\0" * 300)
    assert any(w.startswith("300 NUL bytes in it") for w in read_log(folder).warnings)
    (folder / "samples.csv").write_text(SRT_SLURM.replace("\n1,", "\n9,"))
    with pytest.raises(BadInput, match="schema_version 9"):
        read_log(folder / "samples.csv")


@pytest.mark.parametrize("factor", [1e3, 3.6e6, 1e6, 1e-3, 1 / 3.6e6, 1e-6])
def test_a_counter_in_another_unit_is_refused_with_both_figures(factor: float, tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{200.0},{200.0 * i / factor!r}" for i in range(10)]
    path.write_text("time,power_w,energy_j\n" + "\n".join(rows) + "\n")
    with pytest.raises(BadInput) as refused:
        read_telemetry(path)
    line = refused.value.line()
    assert "1,800" in line or "1800" in line
    assert "energy counter gained" in line
    with pytest.raises(BadInput):
        ingest([], [path], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_counter_that_starts_anew_hides_no_wrong_unit(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{200.0},{0.2 * (i % 6)!r}" for i in range(12)]
    path.write_text("time,power_w,energy_j\n" + "\n".join(rows) + "\n")
    with pytest.raises(BadInput, match=r"integrates to 2,?000 J and its energy counter gained 2.000 J"):
        read_telemetry(path)


def test_the_second_of_two_sensors_in_another_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    head = "timestamp, index, power.draw [W], power.draw.instant [W], total_energy_consumption [mJ]\n"
    path.write_text(
        head + "".join(f"2026/01/05 05:00:0{i}, 0, 200.0 W, 200000 W, {i * 2e5} mJ\n" for i in range(6))
    )
    with pytest.raises(BadInput, match="energy counter gained"):
        read_telemetry(path, "+00:00")


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.1, 15.26])
def test_a_counter_at_another_rate_is_no_other_unit(factor: float, tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{200.0},{200.0 * i / factor!r}" for i in range(10)]
    path.write_text("time,power_w,energy_j\n" + "\n".join(rows) + "\n")
    assert read_telemetry(path)["power_w"].drop_nulls().len() == 10


@pytest.mark.parametrize(
    ("unit", "scale"), [("kwh", 3.6e6), ("wh", 3.6e3), ("kj", 1e3), ("mj", 1e-3), ("MJ", 1e6)]
)
def test_units_of_energy_columns_are_read(unit: str, scale: float, tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{200.0 * i / scale!r}" for i in range(4)]
    path.write_text(f"time,energy_{unit}\n" + "\n".join(rows) + "\n")
    assert read_telemetry(path)["energy_j"].to_list() == pytest.approx([0.0, 200.0, 400.0, 600.0])


def test_meters_of_hosts_enter_no_energy_of_gpus(tmp_path: Path) -> None:
    texts = {
        "node.txt": IPMI,
        "rapl.txt": POWERCAP,
        "smi.csv": next(g.text for g in LOGS if g.name == "smi.csv"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    run = ingest([], [tmp_path / n for n in texts], tz="+00:00", out=tmp_path / "run")
    readings = pl.read_parquet(run.path / "telemetry.parquet")
    scopes = readings["scope"].value_counts().sort("scope").rows()
    assert scopes == [("gpu", 3), ("node", 3), ("socket", 3)]
    assert readings.filter(pl.col("scope") != "gpu")["device"].null_count() == 6
    assert run.devices.height == 1
    notes = json.loads((run.path / "run.json").read_text())["warnings"]
    assert any("its counter wrapped 1 time" in n for n in notes)


def test_counters_of_intervals_and_jobs_hold_their_energy(tmp_path: Path) -> None:
    for name, text, joules in (("perf.csv", PERF_STAT, 210.0), ("sacct.txt", SACCT, 330.0)):
        path = tmp_path / name
        path.write_text(text)
        energy = read_telemetry(path, "+00:00")["energy_j"].to_numpy()
        assert np.ptp(energy) == joules


def test_scrapes_without_a_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text("\n".join(line for line in EXPOSITION.split("\n") if not line[:1].isdigit()))
    with pytest.raises(BadInput, match="no time"):
        read_telemetry(path)


@pytest.mark.parametrize(("unit", "joules", "step"), [("EnergyJoules", 1.0, 700), ("EnergykWh", 3.6e6, 1e-4)])
def test_counters_of_redfish_are_read_unless_they_stand_still(
    unit: str, joules: float, step: float, tmp_path: Path
) -> None:
    """What counts tenths of kWh tells no energy of a minute: power does, and a note says so."""
    documents = [
        {"@odata.id": "/redfish/v1/Chassis/1/EnvironmentMetrics", "PowerWatts": {"Reading": 600 + i}}
        for i in range(6)
    ]
    for every in (1, 4):
        path = tmp_path / f"every{every}.txt"
        texts = (
            f"{START_S + i}.250000000\n" + json.dumps(d | {unit: {"Reading": (50 + i // every) * step}})
            for i, d in enumerate(documents)
        )
        path.write_text("\n".join(texts) + "\n")
        trace = read_log(path)
        assert trace.telemetry["power_w"].to_list() == [600.0 + i for i in range(6)]
        counted = trace.telemetry["energy_j"].drop_nulls().to_list()
        assert counted == ([pytest.approx((50 + i) * step * joules) for i in range(6)] if every == 1 else [])
        assert any("stands still" in warning for warning in trace.warnings) == (every > 1)
