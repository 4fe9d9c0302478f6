"""``tracetool record`` from end to end against fakes: programs that fail, fork, hang; kills; lost parts."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.documents import check_document
from tests.record.conftest import FAKES, PATIENCE_S, Log, Machine, wait_for

JOB = str(FAKES / "job.py")
QUICK = ("--idle", "0.2", "--cool-down", "0.2", "-o", "run.tracetool")


def _job(*words: str) -> tuple[str, ...]:
    return ("--", "python3", JOB, *words)


def test_a_trace_and_its_power_log_in_one_run(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, *_job("4", "0.05"))
    assert done.returncode == 0, done.stderr
    run = machine.folder / "run.tracetool"
    assert f"Run: {run.name}" in done.stdout
    info = json.loads((run / "run.json").read_text("utf-8"))
    assert [s["format"] for s in info["sources"]] == ["nsys_rep", "tracetool_power"]
    assert all(entry["placed"] for entry in info["clock"]["alignment"])
    kernels = pl.read_parquet(run / "kernels.parquet")
    assert kernels.height == 4
    telemetry = pl.read_parquet(run / "telemetry.parquet")
    assert telemetry["device"].unique().to_list() == kernels["device"].unique().to_list() == [0]
    assert set(telemetry["field"].unique().to_list()) == {"power.draw.instant", "power.draw.average"}


def test_the_log_meets_the_trace_within_a_millisecond(machine: Machine) -> None:
    """The energy counter is the fake's clock: in the run it must read the same moment as the time column.

    The kernels' times come from the program itself, through the profiler's own session time; between two
    kernels the fake shows idle power and inside one busy power. So both ends of the join are checked.
    """
    job = _job("3", "0.2")  # kernels long enough for a busy machine's readings
    done = machine.tool("record", *QUICK, "--interval", "2", *job, FAKE_NVML_UPDATE_US="1000")
    assert done.returncode == 0, done.stderr
    run = machine.folder / "run.tracetool"
    offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    telemetry = pl.read_parquet(run / "telemetry.parquet").filter(pl.col("field") == "power.draw.instant")
    stamps = telemetry["time_ns"].to_numpy() - offset
    errors = abs(stamps - telemetry["energy_j"].to_numpy() * 1e6)
    assert sorted(errors)[int(0.9 * len(errors))] < 1_000_000
    kernels = pl.read_parquet(run / "kernels.parquet").sort("start_ns")
    margin = 3_000_000  # an update of the sensor, and the program's own time to switch the load
    ends = kernels["start_ns"] + kernels["duration_ns"]
    busy = list(zip(kernels["start_ns"], ends, strict=True))
    idle = list(zip(ends[:-1], kernels["start_ns"][1:], strict=True))
    for spans, least_w, most_w in ((busy, 390, np.inf), (idle, 0, 110)):
        seen = [
            readings["power_w"].median()
            for begin, end in spans
            if (
                readings := telemetry.filter(pl.col("time_ns").is_between(begin + margin, end - margin))
            ).height
            > 5
        ]
        assert seen  # a busy machine may hold the recorder up in some, not in all
        assert all(least_w < power_w < most_w for power_w in seen)


def test_rhythm_delay_idle_power_and_cost_are_told(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--json", *_job("2", "0.05"))
    told = json.loads(done.stdout)
    check_document("record", told)
    assert told["poll_jitter_us"]["count"] > 20
    assert told["read_delay_us"]["p50"] > 0
    assert 0 < told["sampler_cpu_share"] < 1
    assert told["idle_before_w"]["0"] == pytest.approx(100.5, abs=1)
    assert told["idle_after_w"]["0"] == pytest.approx(100.5, abs=1)


def test_a_failing_program_keeps_its_code_and_its_data(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, *_job("2", "0.05", "fail"))
    assert done.returncode == 7
    assert "job: cannot go on" in done.stderr
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height == 2
    assert next(e for e in machine.events() if e["what"] == "end")["exit_code"] == 7


def test_a_program_ended_by_a_signal(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, *_job("1", "0.05", "abort"))
    assert done.returncode == 128 + signal.SIGABRT


def test_a_program_that_forks(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, *_job("2", "0.05", "fork"))
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height >= 2


def test_a_program_that_is_not_there(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--profiler", "none", "--", "no-such-program")
    assert done.returncode == 2
    assert "no-such-program" in done.stderr.splitlines()[-1]


def test_a_program_that_was_interrupted_itself_says_what_is_kept(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--profiler", "none", "--", "sh", "-c", "exit 130")
    assert done.returncode == 130
    last = done.stderr.splitlines()[-1]
    assert last == "error: the program was interrupted; what was recorded is in run.recording"


@pytest.mark.parametrize("fault", ["no program", "no GPU", "no profiler"])
def test_an_older_recording_is_kept_where_none_begins(machine: Machine, fault: str) -> None:
    folder = machine.folder / "run.recording"
    folder.mkdir()
    (folder / "events.jsonl").write_text('{"what": "recording"}\n')
    (folder / "trace-001.nsys-rep").write_text("hours of work")
    path = os.pathsep.join((str(Path(sys.executable).parent), "/usr/bin", "/bin"))
    more = {"no GPU": {"LD_LIBRARY_PATH": "/nowhere"}, "no profiler": {"PATH": path}}.get(fault, {})
    words = ("--", "no-such-program") if fault == "no program" else _job("1")
    done = machine.tool("record", *QUICK, *words, **more)
    assert done.returncode == (2 if fault == "no program" else 3), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [p.name for p in machine.folder.iterdir()] == ["run.recording"]
    assert (folder / "trace-001.nsys-rep").read_text() == "hours of work"


def test_an_older_recording_gives_way_to_one_that_begins(machine: Machine) -> None:
    assert machine.tool("record", *QUICK, *_job("1", "0.02", "fail")).returncode == 7
    (machine.folder / "run.recording" / "old").write_text("old")
    done = machine.tool("record", *QUICK, *_job("3", "0.02"))
    assert done.returncode == 0, done.stderr
    assert {p.name for p in machine.folder.iterdir()} == {"run.recording", "run.tracetool"}
    assert not (machine.folder / "run.recording" / "old").exists()
    assert machine.log().note("end")["readings"] == len(machine.log().rows)
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_sampler_starts_leaves_nothing(machine: Machine, number: signal.Signals) -> None:
    process = machine.start("tracetool", "record", *QUICK, *_job("1"), FAKE_NVML_UPDATE_US="400000")
    found: list[str] = []

    def sampler() -> bool:
        done = subprocess.run(
            ["pgrep", "-P", str(process.pid), "-f", "tracetool.record.sampler"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found[:] = done.stdout.split()
        return bool(found)

    wait_for(sampler, "the sampler")
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, err
    assert len(err.splitlines()) == 1
    assert list(machine.folder.iterdir()) == []
    wait_for(lambda: not Path(f"/proc/{found[0]}").exists(), "the sampler's end")


@pytest.mark.parametrize("manner", ["", "stubborn"])
def test_ctrl_c_ends_the_program_and_keeps_everything(machine: Machine, manner: str) -> None:
    process = _start_recording(machine, *_job("400", "0.05", manner))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "run.recording" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height >= 1
    assert machine.log().note("end")


def _start_recording(machine: Machine, *words: str) -> subprocess.Popen[str]:
    """Start a recording and return once its program has run its first kernel."""
    process = machine.start("tracetool", "record", *QUICK, *words)
    kernels = machine.folder / "run.recording"
    wait_for(lambda: any(f.stat().st_size for f in kernels.glob("*.kernels")), "the program's first kernel")
    return process


@pytest.mark.usefixtures("heeds_hang_up")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_lone_signal_stops_profiler_and_program_and_keeps_everything(
    machine: Machine, number: signal.Signals
) -> None:
    """The program has a child, one that left its session, and one that heeds neither signal."""
    deaf = "trap '' INT TERM; sleep 300 & wait; wait"
    script = f'sleep 300 & setsid sleep 300 & sh -c "{deaf}" & exec python3 {JOB} 400 0.05'
    process = _start_recording(machine, "--", "sh", "-c", script)
    assert len(machine.recorded_processes()) > 4
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, err
    assert "run.recording" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert machine.recorded_processes() == {}
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height >= 1
    assert machine.log().note("end")
    assert {p.name for p in machine.folder.iterdir()} == {"run.recording", "run.tracetool"}


def test_a_program_without_profiler_gets_sigterm_itself(machine: Machine) -> None:
    script = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'ended\\n'), os._exit(5)))\n"
        "print('runs', 'now', file=sys.stderr, flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    process = machine.start(
        "tracetool", "record", *QUICK, "--profiler", "none", "--", sys.executable, "-c", script
    )
    assert process.stderr is not None
    while "runs now" not in process.stderr.readline():  # the command is shown too, without these two together
        pass
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert "ended" in out


def test_repeats_make_a_run_each(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--repeat", "3", *_job("2", "0.03"))
    assert done.returncode == 0, done.stderr
    runs = sorted((machine.folder / "run.runs").iterdir())
    assert [r.name for r in runs] == [f"run-{n:03d}.tracetool" for n in (1, 2, 3)]
    spans = [pl.read_parquet(r / "kernels.parquet")["start_ns"] for r in runs]
    assert max(spans[0]) < min(spans[1]) < max(spans[1]) < min(spans[2])


def test_warm_up_slowdown_and_profiler_options(machine: Machine) -> None:
    done = machine.tool(
        "record", *QUICK, "--warm-up", "2", "--slowdown", "-P", "--gpu-metrics-devices=all", "--json",
        *_job("1", "0.02"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet").height == 1
    told = json.loads(done.stdout)
    assert told["slowdown"] > 0, "a ratio; how large is the machine's affair"
    begin = next(e for e in machine.events() if e["what"] == "begin")
    assert "--gpu-metrics-devices=all" in begin["command"]
    assert "--cuda-graph-trace=node" in begin["command"]


def test_a_power_log_alone(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--profiler", "none", *_job("1", "0.05"))
    assert done.returncode == 0, done.stderr
    assert len(machine.log().rows) > 10
    assert not (machine.folder / "run.tracetool").exists()


def test_without_a_gpu_nothing_starts(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, *_job("1", "0.02"), LD_LIBRARY_PATH="/nowhere")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "NVML" in done.stderr
    assert list(machine.folder.iterdir()) == []


def test_without_the_profiler_nothing_starts(machine: Machine) -> None:
    done = machine.tool("record", *QUICK, "--profiler", "rocprof", *_job("1"), PATH="/usr/bin:/bin")
    assert done.returncode == 3
    assert "rocprofv3" in done.stderr
    assert list(machine.folder.iterdir()) == []


def test_a_profiler_without_its_importer_says_how_to_go_on(machine: Machine) -> None:
    """Some packages of nsys come without the program that turns its raw result into a report."""
    done = machine.tool("record", *QUICK, *_job("1", "0.02"), FAKE_NSYS_NO_IMPORTER="1")
    assert done.returncode == 3
    assert "QdstrmImporter" in done.stderr.splitlines()[-1]
    assert (machine.folder / "run.recording" / "trace-001.qdstrm").exists()
    again = machine.tool("record", "--finish", "run.recording")
    assert again.returncode == 3
    assert len(again.stderr.splitlines()) == 1


def test_a_foreign_folder_is_left_alone(machine: Machine) -> None:
    (machine.folder / "run.recording").mkdir()
    (machine.folder / "run.recording" / "mine.txt").write_text("mine", "utf-8")
    done = machine.tool("record", *QUICK, *_job("1", "0.02"))
    assert done.returncode == 2
    assert (machine.folder / "run.recording" / "mine.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    "arguments", [["--repeat", "0"], ["--profiler", "perf"], ["--vendor", "intel"], ["--devices", "x"]]
)
def test_usage(machine: Machine, arguments: list[str]) -> None:
    done = machine.tool("record", *arguments, *_job("1"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


TRIES = int(os.environ.get("TRACETOOL_KILL_TRIES", "3"))


@pytest.mark.parametrize("number", range(TRIES))
def test_a_killed_recorder_loses_nothing(machine: Machine, number: int) -> None:
    """Kill the recorder at a random moment: the log is whole, the sampler ends, the run can be made."""
    process = machine.start("tracetool", "record", *QUICK, *_job("6", "0.03"))
    log = machine.folder / "run.recording" / "power.log"
    wait_for(log.exists, "the power log")
    time.sleep(random.Random(number).uniform(0.0, 1.2))
    process.kill()
    process.communicate()
    finished = _wait_for_end(log)
    assert not finished.torn
    assert len(finished.rows) == finished.note("end")["readings"]
    # The profiler goes on without the recorder and leaves its report: wait for it, as a user would.
    wait_for(lambda: not machine.recorded_processes(), "the profiler's end")
    done = machine.tool("record", "--finish", "run.recording")
    if any((machine.folder / "run.recording").glob("*.nsys-rep")):
        assert done.returncode == 0, done.stderr
        assert (machine.folder / "run.tracetool" / "telemetry.parquet").exists()
    else:
        assert done.returncode == 2
        assert "power.log" in done.stderr


def _wait_for_end(log: Path) -> Log:
    def ended() -> bool:
        return any(n["what"] == "end" for n in Log.read(log).notes)

    wait_for(ended, "the end of the sampler, whose recorder is removed")
    return Log.read(log)


def test_a_killed_sampler_is_told(machine: Machine) -> None:
    process = _start_recording(machine, *_job("30", "0.05"))
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "tracetool.record.sampler"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "sampler was killed" in out
    log_read = machine.log()
    assert log_read.torn in ([], [log_read.tail])  # a kill may cut the write in flight
    assert (machine.folder / "run.tracetool" / "telemetry.parquet").exists()
