"""The launcher around a program, under a fake PyTorch: the trace is left whatever way the program ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from tests.record.conftest import FAKES, PATIENCE_S, Machine
from tracetool.core.errors import BadInput
from tracetool.record.profilers import LAUNCHER, profiled
from tracetool.sources.detect import detect
from tracetool.sources.format import ReadOptions

BODY = "import sys, os, torch\ntorch.work(0.02)\n"


def _launch(
    folder: Path, *program: str, options: tuple[str, ...] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(LAUNCHER), "--trace", str(folder / "t.json.gz"), *options, "--", *program],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(FAKES / "python"), **more},
    )  # fmt: skip


def _kernels(folder: Path) -> int:
    path = folder / "t.json.gz"
    return detect(path, "trace")[1].read(path, ReadOptions()).activities.height


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("sys.exit(5)", 5),
        ("raise ValueError('lost')", 1),
        ("os.kill(os.getpid(), 15)", 143),
        ("sys.exit('no')", 1),
    ],
)
def test_the_trace_is_left_and_the_code_kept(ending: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(BODY + ending, "utf-8")
    done = _launch(tmp_path, "p.py")
    assert done.returncode == code, done.stderr
    assert _kernels(tmp_path) == 1
    if "ValueError" in ending:
        assert "ValueError: lost" in done.stderr, "the program's own traceback is shown"


def test_scripts_modules_and_code_see_what_python_gives_them(tmp_path: Path) -> None:
    body = BODY + "print(sys.argv[1:], __name__, os.path.basename(sys.path[0]))\n"
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "p.py").write_text(body, "utf-8")
    assert _launch(tmp_path, "inner/p.py", "--a", "b").stdout.strip() == "['--a', 'b'] __main__ inner"
    (tmp_path / "m.py").write_text(body, "utf-8")
    assert _launch(tmp_path, "-m", "m", "c").stdout.strip() == f"['c'] __main__ {tmp_path.name}"
    assert _launch(tmp_path, "-c", body, "d").stdout.strip() == "['d'] __main__"


def test_a_forked_child_does_not_write_its_parents_trace(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        BODY + "if os.fork() == 0:\n    sys.exit(0)\nos.wait()\ntorch.work(0.02)\n", "utf-8"
    )
    assert _launch(tmp_path, "p.py").returncode == 0
    assert _kernels(tmp_path) == 2
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".part")] == []


def test_an_interrupt_leaves_the_trace(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(BODY + "print('on', flush=True)\nimport time\ntime.sleep(600)\n", "utf-8")
    process = subprocess.Popen(
        [sys.executable, str(LAUNCHER), "--trace", str(tmp_path / "t.json.gz"), "--", "p.py"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(FAKES / "python")},
    )  # fmt: skip
    with process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)  # a second one, while the trace is written
        process.wait(PATIENCE_S)
    assert _kernels(tmp_path) == 1


def test_a_full_disk_is_told_and_the_programs_failure_is_kept(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(BODY + "sys.exit(5)\n", "utf-8")
    done = _launch(tmp_path, "p.py", FAKE_TORCH_FULL="1")
    assert done.returncode == 5
    assert "could not be written" in done.stderr


def test_options_reach_the_profiler(tmp_path: Path) -> None:
    told = tmp_path / "options"
    (tmp_path / "p.py").write_text(BODY, "utf-8")
    done = _launch(tmp_path, "p.py", options=("--stack", "--memory"), FAKE_TORCH_OPTIONS=str(told))
    assert done.returncode == 0, done.stderr
    assert told.read_text("utf-8") == "['profile_memory', 'with_stack']"
    assert _launch(tmp_path, "p.py", options=("--color",)).returncode == 1


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (["python3", "-u", "p.py", "-x"], ["python3", "-u", "LAUNCHER", "--trace", "T", "--", "p.py", "-x"]),
        (
            ["/v/bin/python3.11", "-m", "m"],
            ["/v/bin/python3.11", "LAUNCHER", "--trace", "T", "--", "-m", "m"],
        ),
        (
            ["python", "-X", "dev", "-c", "1"],
            ["python", "-X", "dev", "LAUNCHER", "--trace", "T", "--", "-c", "1"],
        ),
    ],
)
def test_the_launcher_goes_between_python_and_the_program(
    program: list[str], expected: list[str], tmp_path: Path
) -> None:
    made = profiled("torch", program, tmp_path, "t", extra=(), nsys=None)
    words = {"LAUNCHER": str(LAUNCHER), "T": str(tmp_path / "t.json.gz")}
    assert list(made.arguments) == [words.get(w, w) for w in expected]


@pytest.mark.parametrize("program", [["./train"], ["python"], ["python", "-u"], ["torchrun", "p.py"]])
def test_what_is_no_python_program_is_refused(program: list[str], tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        profiled("torch", program, tmp_path, "t", extra=(), nsys=None)


def test_a_recording_under_pytorch(machine: Machine) -> None:
    """From the program to a run, the power log beside the kernels."""
    (machine.folder / "p.py").write_text(BODY * 3, "utf-8")
    done = machine.tool(
        "record", "--profiler", "torch", "--idle", "0.2", "--cool-down", "0.2", "-o", "run.tracetool",
        "--", sys.executable, "p.py", PYTHONPATH=str(FAKES / "python"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kernels = pl.read_parquet(machine.folder / "run.tracetool" / "kernels.parquet")
    telemetry = pl.read_parquet(machine.folder / "run.tracetool" / "telemetry.parquet")
    assert kernels.height == 3
    assert telemetry["time_ns"].min() < kernels["start_ns"].min()
    assert kernels["start_ns"].max() < telemetry["time_ns"].max()
