"""A machine with a GPU that is not there: fakes at the process boundary, under the real client code."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tracetool.tables.power_log import COLUMNS

FAKES = Path(__file__).with_name("fakes")
collect_ignore = ["fakes"]  # programs and packages to be found by others, not tests


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a fake ``libnvidia-ml.so.1``."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the fake library with")
    pytest.importorskip("pynvml")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", target, FAKES / "nvml.c"], check=True)
    return folder


@pytest.fixture(scope="session")
def amd_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as ``ROCM_PATH`` with a fake ``libamd_smi.so`` of every name the package binds."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    package = importlib.util.find_spec("amdsmi")
    if compiler is None or package is None or package.origin is None:
        pytest.skip("no C compiler, or amdsmi is not installed")
    bound = set(
        re.findall(
            r"libamd_smi\.so'\]\.(\w+)", Path(package.origin).with_name("amdsmi_wrapper.py").read_text()
        )
    )
    ours = (FAKES / "amdsmi.c").read_text("ascii")
    rest = sorted(name for name in bound if not re.search(rf"\b{name}\(", ours))
    folder = tmp_path_factory.mktemp("rocm")
    stubs = folder / "stubs.c"
    stubs.write_text("\n".join(f"int {name}(void) {{ return 2; }}" for name in rest), "ascii")
    (folder / "lib").mkdir()
    target = folder / "lib" / "libamd_smi.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-w", "-o", target, FAKES / "amdsmi.c", stubs], check=True
    )
    return folder


@dataclass(frozen=True)
class Log:
    """A power log, taken apart by the test's own reading of it."""

    rows: list[dict[str, str]]
    notes: list[dict[str, Any]]
    #: Lines that are no whole reading, the tail among them.
    torn: list[str]
    #: What follows the last line's end: a reading being written, or nothing.
    tail: str

    @classmethod
    def read(cls, path: Path) -> Log:
        text = path.read_text("utf-8")
        rows, notes, torn = [], [], []
        lines = text.split("\n")
        if lines[-1]:
            torn.append(lines[-1])
        for line in lines[:-1]:
            if line.startswith("# {"):
                notes.append(json.loads(line[2:]))
            elif not line.startswith("#"):
                parts = line.split(",")
                if len(parts) == len(COLUMNS):
                    rows.append(dict(zip(COLUMNS, parts, strict=True)))
                else:
                    torn.append(line)
        return cls(rows, notes, torn, lines[-1])

    def note(self, what: str) -> dict[str, Any]:
        return next(n for n in self.notes if n["what"] == what)


#: A busy machine may take any time: this is only for what would never come. [s]
PATIENCE_S = 200


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


@dataclass
class Machine:
    """An environment in which the fakes are found, and a folder to work in."""

    folder: Path
    environment: Mapping[str, str]
    #: All that was started: none of it outlives its test, whatever becomes of the test.
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str | os.PathLike[str], **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(os.fspath, arguments)],
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def recorded_processes(self) -> dict[int, str]:
        """Return the living processes that carry the recording in their environment, with their commands."""
        mark = f"TRACETOOL_RECORDING={self.folder / 'run.recording'}".encode()
        commands = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    commands[int(folder.name)] = (folder / "cmdline").read_text("utf-8", "replace")
            except OSError:
                continue
        return {number: command for number, command in commands.items() if command}

    def end(self) -> None:
        """Kill what still runs, and close its pipes."""
        for process in self.processes:
            if process.poll() is None:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with suppress(OSError):
                        stream.close()
        for number in self.recorded_processes():
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)

    def tool(self, *arguments: str | os.PathLike[str], **more: str) -> subprocess.CompletedProcess[str]:
        with self.start("tracetool", *arguments, **more) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def log(self, name: str = "run.recording") -> Log:
        return Log.read(self.folder / name / "power.log")

    def events(self, name: str = "run.recording") -> list[dict[str, Any]]:
        text = (self.folder / name / "events.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def machine(nvml_library: Path, tmp_path: Path) -> Iterator[Machine]:
    """Return a machine with one fake NVIDIA GPU, a fake nsys, and nothing of AMD's."""
    load = tmp_path / "load"
    load.touch()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("FAKE_", "ROCM_", "TRACETOOL_"))},
        "LD_LIBRARY_PATH": str(nvml_library),
        "PATH": f"{FAKES / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        "FAKE_NVML_LOAD": str(load),
        "FAKE_PYTHON": sys.executable,
    }
    work = tmp_path / "work"
    work.mkdir()
    fakes = Machine(work, environment)
    yield fakes
    fakes.end()


@pytest.fixture
def amd_machine(amd_library: Path, machine: Machine) -> Machine:
    """Return a machine with one fake AMD GPU and a fake rocprofv3, and nothing of NVIDIA's."""
    environment = {**machine.environment, "ROCM_PATH": str(amd_library), "LD_LIBRARY_PATH": "/nowhere"}
    return Machine(machine.folder, environment, machine.processes)
