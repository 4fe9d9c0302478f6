"""The profilers a program can be run under: where they are, how they are called, what they leave."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracetool.core.errors import BadInput, MissingPart

NAMES = ("nsys", "torch", "rocprof", "none")
_NSYS_FOLDERS = (
    "/opt/nvidia/nsight-systems*/*/bin",
    "/opt/nvidia/nsight-systems*/bin",
    "/usr/local/cuda*/bin",
)
_ROCM_FOLDERS = ("/opt/rocm*/bin",)
_PYTHON = re.compile(r"^(python|pypy)(\d+(\.\d+)*)?$")
#: These write their result on SIGINT, as after Ctrl-C, and end the program themselves.
WRITE_ON_SIGINT = ("nsys", "rocprof")
LAUNCHER = Path(__file__).with_name("torch_launcher.py")


@dataclass(frozen=True)
class Command:
    """Command to start and the files it will leave, by glob pattern, the wanted ones."""

    arguments: tuple[str, ...]
    traces: tuple[str, ...]


def find_program(name: str, folders: Sequence[str], location: Path | None = None) -> Path | None:
    """Return a program: the given one, the one on PATH, else the newest in the usual folders."""
    if location is not None:
        path = shutil.which(str(location)) or shutil.which(str(location / name))
        return Path(path) if path else None
    if path := shutil.which(name):
        return Path(path)
    usual = sorted((p for pattern in folders for p in Path("/").glob(f"{pattern[1:]}/{name}")), reverse=True)
    return next((p for p in usual if os.access(p, os.X_OK)), None)


def find_nsys(location: Path | None = None) -> Path | None:
    """Return the ``nsys`` to use."""
    return find_program("nsys", _NSYS_FOLDERS, location)


def find_rocprof() -> Path | None:
    """Return the ``rocprofv3`` to use."""
    return find_program("rocprofv3", _ROCM_FOLDERS)


def default_profiler(vendor: str) -> str:
    """Return the profiler of a vendor's GPUs."""
    return "rocprof" if vendor == "amd" else "nsys"


def profiled(
    profiler: str, program: Sequence[str], folder: Path, name: str, *, extra: Sequence[str], nsys: Path | None
) -> Command:
    """Return the command that runs ``program`` under a profiler.

    Parameters
    ----------
    profiler : str
        One of :data:`NAMES`.
    program : sequence of str
        The user's command.
    folder, name : path, str
        Where the trace goes and how its file begins.
    extra : sequence of str
        Further options for the profiler, as given.
    nsys : path, optional
        The ``nsys`` to use.

    Raises
    ------
    MissingPart
        If the profiler is not installed.
    BadInput
        If it cannot run this command.
    """
    target = folder / name
    if profiler == "nsys":
        binary = find_nsys(nsys)
        if binary is None:
            raise MissingPart("nsys is not installed", "apt-get install nsight-systems, or: --profiler torch")
        return Command(
            (
                str(binary), "profile", f"--output={target}", "--force-overwrite=true", "--trace=cuda,nvtx",
                "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none",
                "--trace-fork-before-exec=true", *extra, *program,
            ),
            (f"{name}.nsys-rep", f"{name}.qdrep"),
        )  # fmt: skip
    if profiler == "rocprof":
        binary = find_rocprof()
        if binary is None:
            raise MissingPart("rocprofv3 is not installed", "apt-get install rocprofiler-sdk")
        return Command(
            (
                str(binary), "--kernel-trace", "--memory-copy-trace", "--marker-trace",
                "--output-format", "csv", "--output-directory", str(folder), "--output-file", name,
                *extra, "--", *program,
            ),
            (f"{name}_kernel_trace.csv", f"**/*{name}_kernel_trace.csv"),
        )  # fmt: skip
    if profiler == "torch":
        return Command(_launched(program, target.with_suffix(".json.gz"), extra), (f"{name}.json.gz",))
    if extra:
        raise BadInput("there are profiler options but no profiler", "choose one with --profiler")
    return Command(tuple(program), ())


def _launched(program: Sequence[str], trace: Path, extra: Sequence[str]) -> tuple[str, ...]:
    """Return ``python [flags] LAUNCHER --trace T -- script ...`` for ``python [flags] script ...``."""
    if not _PYTHON.match(Path(program[0]).name):
        raise BadInput(
            f"--profiler torch runs Python programs, not {program[0]}",
            "write: -- python script.py ..., or use another profiler",
        )
    flags = 1
    while flags < len(program) and program[flags].startswith("-") and program[flags] not in ("-m", "-c", "-"):
        flags += 2 if program[flags] in ("-W", "-X") else 1
    if flags >= len(program) or program[flags] == "-":
        raise BadInput("--profiler torch needs a script, -m module or -c code after python")
    return (
        *program[:flags], str(LAUNCHER), "--trace", str(trace), *extra, "--", *program[flags:],
    )  # fmt: skip
