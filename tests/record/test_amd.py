"""AMD GPUs: the real amdsmi package over a fake library, rocprofv3 on the same boot clock."""

from __future__ import annotations

import json
import time

import polars as pl
import pytest

from tests.record.conftest import FAKES, PATIENCE_S, Log, Machine, wait_for
from tracetool.core.errors import MissingPart
from tracetool.record.amd import AmdSmi

JOB = str(FAKES / "job.py")


def test_a_trace_and_its_power_log_share_the_boot_clock(amd_machine: Machine) -> None:
    done = amd_machine.tool(
        "record", "--idle", "0.2", "--cool-down", "0.2", "--interval", "2", "-o", "run.tracetool",
        "--", "python3", JOB, "3", "0.2",  # kernels long enough for a busy machine's readings
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = amd_machine.folder / "run.tracetool"
    info = json.loads((run / "run.json").read_text("utf-8"))
    assert [s["format"] for s in info["sources"]] == ["rocprofv3_csv", "tracetool_power"]
    assert all(entry["placed"] for entry in info["clock"]["alignment"]), info["clock"]
    kernels = pl.read_parquet(run / "kernels.parquet").sort("start_ns")
    telemetry = pl.read_parquet(run / "telemetry.parquet")
    offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    if info["clock"]["domain"] == "boot":
        offset = 0
    errors = sorted(abs(telemetry["time_ns"].to_numpy() - offset - telemetry["energy_j"].to_numpy() * 1e9))
    assert errors[int(0.9 * len(errors))] < 1_000_000
    seen = [
        readings["power_w"].median()
        for start, duration in kernels.select("start_ns", "duration_ns").iter_rows()
        if (readings := telemetry.filter(
            pl.col("time_ns").is_between(start + 3_000_000, start + duration - 3_000_000)
        )).height > 5
    ]  # fmt: skip
    assert seen  # a busy machine may hold the recorder up in some, not in all
    assert min(seen) >= 700


def test_readings_are_in_the_logs_units(amd_machine: Machine) -> None:
    process = amd_machine.start(
        "tracetool.record.sampler", "--log", "p.log", "--vendor", "amd", "--poll-ms", "10"
    )
    assert process.stdout
    assert json.loads(process.stdout.readline())["ready"]
    path = amd_machine.folder / "p.log"
    wait_for(lambda: len(Log.read(path).rows) >= 2, "two readings")
    with process:
        process.communicate(timeout=PATIENCE_S)
    log = Log.read(amd_machine.folder / "p.log")
    row = log.rows[-1]
    assert 140_000 <= int(row["instant_mw"]) <= 142_000
    assert row["average_mw"] == "", "65535 is AMD's word for none"
    assert (row["clock_mhz"], row["mem_clock_mhz"], row["temperature_c"]) == ("132", "1300", "44")
    assert row["limit_mw"] == "750000"
    assert log.note("start")["driver"] == "6.12.fake"
    assert log.note("start")["devices"][0]["fields"] == ["instant_mw", "energy_uj"]


def test_a_gpu_that_stops_answering_is_noted(amd_machine: Machine) -> None:
    lost, path = amd_machine.folder / "lost", amd_machine.folder / "p.log"
    process = amd_machine.start(
        "tracetool.record.sampler", "--log", "p.log", "--vendor", "amd", "--poll-ms", "10",
        FAKE_AMD_LOST=str(lost),
    )  # fmt: skip
    assert process.stdout
    assert json.loads(process.stdout.readline())["ready"]
    lost.touch()
    wait_for(lambda: any(n["what"] == "lost" for n in Log.read(path).notes), "the note of the loss")
    with process:
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert Log.read(amd_machine.folder / "p.log").note("lost")


def test_without_its_library_the_package_says_nothing_on_our_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AMD's package prints and then breaks where libamd_smi.so is absent."""
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    with pytest.raises(MissingPart) as caught:
        AmdSmi().open()
    assert "amd" in caught.value.line().lower()
    assert capfd.readouterr().out == ""
