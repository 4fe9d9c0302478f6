"""The sampler against a fake NVML whose energy counter is a clock: stamps, rhythm, losses, kills, disks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tests.record.conftest import PATIENCE_S, Log, Machine, wait_for


def _start(machine: Machine, log: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    process = machine.start(
        "tracetool.record.sampler", "--log", log, "--vendor", "nvidia", *arguments, **more
    )
    assert process.stdout
    first = json.loads(process.stdout.readline())
    assert first.get("ready"), first
    return process


def _wait_for_rows(machine: Machine, rows: int) -> None:
    wait_for(lambda: len(Log.read(machine.folder / "p.log").rows) >= rows, f"{rows} readings")


def _wait_for_note(machine: Machine, what: str) -> None:
    path = machine.folder / "p.log"
    wait_for(lambda: any(n["what"] == what for n in Log.read(path).notes), f"the note {what}")


def _end(process: subprocess.Popen[str]) -> int:
    with process:
        process.communicate(timeout=PATIENCE_S)
    return process.returncode


def _errors_us(log: Log) -> list[float]:
    """Return by how much each stamp misses the moment the fake GPU took the value."""
    return [int(r["time_ns"]) / 1e3 - int(r["energy_uj"]) / 1e3 for r in log.rows]


def test_stamps_are_the_moment_of_the_value(machine: Machine) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "5")
    _wait_for_rows(machine, 100)
    assert _end(process) == 0
    log = Log.read(machine.folder / "p.log")
    assert len(log.rows) > 50
    assert not log.torn
    errors = sorted(abs(e) for e in _errors_us(log))
    assert errors[int(0.9 * len(errors))] < 1000, "90 % of stamps within a millisecond"


def test_a_slow_read_is_stamped_in_its_middle_and_told(machine: Machine) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "20", FAKE_NVML_DELAY_US="8000")
    _wait_for_rows(machine, 30)
    assert _end(process) == 0
    log = Log.read(machine.folder / "p.log")
    delays = sorted(int(r["read_ns"]) / 1e6 for r in log.rows)
    assert delays[0] >= 8.0, "the delay is part of the read"
    assert log.note("end")["read_delay_us"]["p50"] == pytest.approx(1e3 * delays[len(delays) // 2], rel=0.05)


def test_the_update_period_sets_the_rhythm(machine: Machine) -> None:
    """A fifth of the period that the sensor shows; a busy machine may miss an update or two."""
    process = _start(machine, machine.folder / "p.log", FAKE_NVML_UPDATE_US="50000")
    _wait_for_rows(machine, 5)
    assert _end(process) == 0
    start = Log.read(machine.folder / "p.log").note("start")
    device = start["devices"][0]
    assert device["update_s"]["instant_mw"] == pytest.approx(0.050, rel=0.1)
    assert start["poll_s"] == pytest.approx(0.010, rel=0.1)


def test_the_end_says_rhythm_delay_and_cost(machine: Machine) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10")
    _wait_for_rows(machine, 30)
    assert _end(process) == 0
    log = Log.read(machine.folder / "p.log")
    end = log.note("end")
    assert end["readings"] == len(log.rows)
    assert end["jitter_us"]["count"] > 0
    assert 0 < end["cpu_s"] < end["wall_s"]
    assert {n["what"] for n in log.notes} >= {"start", "clock", "end"}


def test_every_column_is_filled(machine: Machine) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10")
    _wait_for_rows(machine, 2)
    _end(process)
    row = Log.read(machine.folder / "p.log").rows[-1]
    assert 100_000 <= int(row["instant_mw"]) < 101_000
    assert row["average_mw"] == row["instant_mw"]
    assert (row["clock_mhz"], row["mem_clock_mhz"], row["temperature_c"]) == ("345", "2619", "41")
    assert (row["utilization_pct"], row["limit_mw"], row["throttle"]) == ("0", "700000", "0x1")


def test_an_old_driver_gives_its_one_power_field(machine: Machine) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10", FAKE_NVML_OLD="1")
    _wait_for_rows(machine, 2)
    _end(process)
    log = Log.read(machine.folder / "p.log")
    assert log.note("start")["devices"][0]["fields"] == ["draw_mw", "energy_uj"]
    assert log.rows[-1]["draw_mw"]
    assert not log.rows[-1]["instant_mw"]


def test_several_gpus_and_a_choice_of_them(machine: Machine) -> None:
    process = _start(
        machine, machine.folder / "p.log", "--poll-ms", "10", "--devices", "0,2", FAKE_NVML_GPUS="4"
    )
    _wait_for_rows(machine, 4)
    _end(process)
    log = Log.read(machine.folder / "p.log")
    assert {r["device"] for r in log.rows} == {"0", "2"}
    assert len({d["uuid"] for d in log.note("start")["devices"]}) == 2


def test_a_lost_gpu_is_noted_and_taken_up_again(machine: Machine) -> None:
    lost = machine.folder / "lost"
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10", FAKE_NVML_LOST=str(lost))
    _wait_for_rows(machine, 2)
    lost.touch()
    _wait_for_note(machine, "lost")
    time.sleep(0.5)  # for readings, were any invented
    lost.unlink()
    _wait_for_note(machine, "back")
    _wait_for_rows(machine, len(Log.read(machine.folder / "p.log").rows) + 2)
    assert _end(process) == 0
    log = Log.read(machine.folder / "p.log")
    assert [n["what"] for n in log.notes if n["what"] in ("lost", "back")] == ["lost", "back"]
    assert "lost" in log.note("lost")["error"].lower()
    gone, back = log.note("lost")["boot_ns"], log.note("back")["boot_ns"]
    times = [int(r["time_ns"]) for r in log.rows]
    assert not [t for t in times if gone < t < back - 50_000_000], "no reading is invented while it is lost"
    assert min(times) < gone
    assert max(times) > back


def test_a_full_disk_loses_nothing_while_it_lasts(machine: Machine) -> None:
    """``/dev/full`` refuses every write, as a full disk does."""
    log = machine.folder / "p.log"
    log.symlink_to("/dev/full")
    process = _start(machine, log, "--poll-ms", "10")
    time.sleep(0.5)
    assert process.poll() is None, "the sampler lives on"
    assert _end(process) == 2, "and says in the end that not all could be written"


@pytest.mark.parametrize("code", ["9", "12", "999"])
def test_a_broken_driver_is_told(machine: Machine, code: str) -> None:
    log = machine.folder / "p.log"
    process = machine.start(
        "tracetool.record.sampler", "--log", log, "--vendor", "nvidia", FAKE_NVML_ERROR=code
    )
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert "NVML" in json.loads(out)["missing"]
    assert not log.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_for_the_program_do_not_end_it(machine: Machine, number: signal.Signals) -> None:
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10")
    process.send_signal(number)
    _wait_for_rows(machine, len(Log.read(machine.folder / "p.log").rows) + 5)
    assert process.poll() is None
    assert _end(process) == 0


def test_it_does_not_outlive_a_killed_recorder(machine: Machine) -> None:
    """The recorder's end of the pipe closes with it, whatever killed it."""
    process = _start(machine, machine.folder / "p.log", "--poll-ms", "10")
    assert process.stdin
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    assert Log.read(machine.folder / "p.log").note("end")
    for stream in (process.stdout, process.stderr):
        assert stream
        stream.close()


def _kill_once(machine: Machine, seconds: float, number: int) -> tuple[int, Log]:
    """Kill a sampler after ``seconds``; return how many readings its GPU answered and what the log holds."""
    counter = machine.folder / f"count-{number}"
    path = machine.folder / f"p-{number}.log"
    process = _start(machine, path, "--poll-ms", "1", FAKE_NVML_COUNT=str(counter))
    served_before = struct.unpack("=Q", counter.read_bytes())[0]
    first = json.dumps("start") in path.read_text("utf-8")
    assert first
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with process:
        process.communicate()
    return struct.unpack("=Q", counter.read_bytes())[0] - served_before, Log.read(path)


TRIES = int(os.environ.get("TRACETOOL_KILL_TRIES", "4"))


@pytest.mark.parametrize("number", range(TRIES))
def test_a_kill_loses_no_reading(machine: Machine, number: int) -> None:
    """Every value the GPU gave is in the log but the one in flight; $TRACETOOL_KILL_TRIES sets the tries."""
    served, log = _kill_once(machine, random.Random(number).uniform(0.0, 0.2), number)
    # A kill may cut the write in flight where a page ends, but no line before it.
    assert [line for line in log.torn if line != log.tail] == []
    assert len(log.rows) >= served - 1
    times = [int(r["time_ns"]) for r in log.rows]
    assert times == sorted(times)
