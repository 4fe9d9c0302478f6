"""Nsight Systems reports (``.nsys-rep``, ``.qdrep``), through the installed ``nsys``.

The program is found wherever it usually is, and run with a time limit; its complaints are put into one line.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tracetool.core.errors import BadInput, MissingPart, TracetoolError
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.nsight.tables import read_export
from tracetool.tables.run import file_sha256

INSTALL = "apt-get install nsight-systems (non-free), or the vendor's package"
ELSEWHERE = "nsys export --type sqlite -o run.sqlite run.nsys-rep"
_USUAL = (
    "/opt/nvidia/nsight-systems/*/bin/nsys", "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys", "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys", "/usr/lib/nsight-systems/bin/nsys",
    "/usr/lib/*/nsight-systems/target-linux-*/nsys",
    "/usr/lib/nsight-systems/target-linux-*/nsys",
)  # fmt: skip
#: An export takes a tenth of a second for a megabyte; what takes longer than this hangs.
LIMIT_S, LIMIT_S_PER_MB = 90.0, 3.0
MAGIC = b"NVIDIA Tegra Profiler Report "
END = b"[END]"


def candidates(chosen: Path | None) -> Iterator[Path]:
    """Yield the programs to try: the given one alone, else PATH first, then the usual folders, newest first.

    Raises
    ------
    MissingPart
        If the given one does not exist.
    """
    if chosen is not None:
        path = shutil.which(str(chosen)) or (
            shutil.which("nsys", path=str(chosen)) if chosen.is_dir() else None
        )
        if not path:
            raise MissingPart(f"{chosen}: is not a program", "give the path of nsys with --nsys")
        yield Path(path)
        return
    tried: set[Path] = set()
    on_path = shutil.which("nsys")
    usual = sorted(
        (p for pattern in _USUAL for p in Path("/").glob(pattern[1:])), key=_folder_release, reverse=True
    )
    for program in ([Path(on_path)] if on_path else []) + usual:
        real = program.resolve()
        if real not in tried and os.access(program, os.X_OK):
            tried.add(real)
            yield program


def _folder_release(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", str(path)))[:4]


def report_version(head: bytes) -> str | None:
    """Return the release that wrote a report, which reports state since 2023.3.

    >>> report_version(b"NVIDIA Tegra Profiler Report 2026@1@2@63-261237296639v0.")
    '2026.1.2.63'
    """
    match = re.match(rb"(\d{4}(?:@\d+)+)", head[len(MAGIC) :])
    return match[1].decode().replace("@", ".") if match else None


def export_report(report: Path, folder: Path, chosen: Path | None) -> tuple[Path, str]:
    """Export a report to SQLite and return the database and the version of the program.

    Raises
    ------
    MissingPart
        If there is no ``nsys`` on this machine.
    BadInput
        If the report is damaged, or newer than every ``nsys`` here.
    """
    with report.open("rb") as f:
        head = f.read(256)
        f.seek(0, os.SEEK_END)
        f.seek(max(0, f.tell() - 16))
        tail = f.read()
    written = report_version(head)
    if END not in tail:
        raise BadInput.in_file(
            report, "is a cut or damaged Nsight Systems report (its end is missing)", "copy it again"
        )
    faults: list[tuple[str, str]] = []
    for program in candidates(chosen):
        target = folder / f"{len(faults)}.sqlite"
        fault = _run(program, report, target)
        if not fault and target.is_file():
            return target, _version(program)
        target.unlink(missing_ok=True)
        faults.append((_version(program), fault))
    if not faults:
        raise MissingPart(
            f"{report}: needs nsys to be read, which is not on this machine",
            f"{INSTALL}; or export it where it was recorded: {ELSEWHERE}",
        )
    have, fault = faults[0]
    raise _explain(report, written, have, fault)


def _version(program: Path) -> str:
    try:
        job = subprocess.run(  # noqa: S603 - the program the user has installed
            [str(program), "--version"],
            capture_output=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return "of unknown version"
    match = re.search(rb"(\d{4}(?:\.\d+)+)", job.stdout)
    return match[1].decode() if match else "of unknown version"


def _run(program: Path, report: Path, target: Path) -> str:
    """Return the error, empty if there was none."""
    limit = LIMIT_S + LIMIT_S_PER_MB * report.stat().st_size / 1e6
    command = [str(program), "export", "--type", "sqlite", "--force-overwrite", "true", "-o", str(target)]
    try:
        job = subprocess.Popen(  # noqa: S603 - the program the user has installed
            [*command, str(report.absolute())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"{program} cannot be run: {error.strerror or error}"
    try:
        output, _ = job.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"the export took longer than {limit:.0f} s"
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()  # takes its end and closes its pipe
    text = output.decode("utf-8", "replace").replace("\r", "\n")
    if job.returncode == 0 and "error" not in text.lower():
        return ""
    return text or f"nsys ended with {job.returncode}"


def _explain(report: Path, written: str | None, have: str, fault: str) -> BadInput:
    """Return the one line for what nsys printed."""
    newer = re.search(r"created in Nsight Systems version \((\d{4}(?:\.\d+)+)", fault)
    if newer or "Version number is invalid" in fault:
        by = newer[1] if newer else written or "a newer release"
        return BadInput.in_file(
            report, f"was written by Nsight Systems {by}, newer than the nsys of this machine ({have})",
            f"install {by} or later, or export it where it was recorded: {ELSEWHERE}",
        )  # fmt: skip
    if "magic number mismatch" in fault:
        return BadInput.in_file(
            report, "is a cut or damaged Nsight Systems report (section table)", "copy it again"
        )
    if "protobuf" in fault.lower():
        return BadInput.in_file(
            report, f"cannot be parsed by nsys {have}: it is damaged, or written by a newer release",
            f"install a newer nsys, or export it where it was recorded: {ELSEWHERE}",
        )  # fmt: skip
    lines = [line.strip() for line in fault.splitlines() if line.strip() and not line.startswith("Exporting")]
    return BadInput.in_file(
        report, f"cannot be exported by nsys {have}: {(lines or ['no reason given'])[0][:160]}",
        f"export it where it was recorded: {ELSEWHERE}",
    )  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: the line every report starts with, or its usual ending if that line is damaged."""
    if probe.head.startswith(MAGIC[:20]):
        return 1.0
    return 0.3 if probe.path.suffix.lower() in (".nsys-rep", ".qdrep") and b"\0" in probe.head else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace in a report.

    Raises
    ------
    MissingPart
        If there is no ``nsys`` here.
    BadInput
        If ``nsys`` cannot read the report, and no export of the same name and no older stands beside it.
    """
    options.progress.step(f"exporting {path.name} with nsys")
    with path.open("rb") as f:
        if not f.read(64).startswith(MAGIC[:20]):
            raise BadInput.in_file(
                path, "is a damaged Nsight Systems report (its first line)", "copy it again"
            )
    with tempfile.TemporaryDirectory(prefix="tracetool-nsys-", dir=options.scratch) as folder:
        try:
            database, version = export_report(path, Path(folder), options.nsys)
        except TracetoolError as error:
            return _beside(path, error)
        try:
            trace = read_export(database)
        except BadInput as error:
            fault = error.message.split(": ", 1)[-1]
            raise BadInput.in_file(path, f"its export {fault}", "copy the report again") from error
        trace.details["exported_by"] = f"nsys {version}"
        return trace


def _beside(path: Path, error: TracetoolError) -> Trace:
    """Read the export beside a report that nsys cannot open, unless it is of another recording.

    Notes
    -----
    A report packs what identifies a recording, so that only nsys can compare it. What can be compared: an
    export older than its report, or made by an nsys older than the one that wrote the report, is of another.
    """
    export = path.with_suffix(".sqlite")
    if not export.is_file() or export.stat().st_mtime < path.stat().st_mtime:
        raise error
    try:
        trace = read_export(export)
    except BadInput:
        raise error from None
    with path.open("rb") as f:
        written = report_version(f.read(256))
    if written and _release(trace.profiler_version) < _release(written):
        raise error
    trace.details |= {"read_from": export.name, "read_from_sha256": file_sha256(export)}
    why = error.message.split(": ", 1)[-1]
    trace.warnings.append(
        f"read from {export.name} beside it, because the report {why};"
        " make sure that both are of one recording"
    )
    return trace


def _release(version: str | None) -> tuple[int, ...]:
    """Return a release to compare by; one that is not stated is taken to be new."""
    numbers = re.findall(r"\d+", version or "")[:3]
    return tuple(int(n) for n in numbers) if numbers else (9999,)


FORMAT = Format(
    title="Nsight Systems report",
    holds="trace",
    made_by="nsys profile -t cuda,nvtx --cuda-graph-trace=node -o run python train.py",
    tried="reports of 2020 to 2022.4 with nsys 2022.4, up to 2024.2 with newer nsys",
    checked="a stand-in for nsys that is absent, too old, hanging or hands on a known export",
    sniff=sniff,
    read=read,
    suffixes=(".nsys-rep", ".qdrep"),
    memory_ratio=0.0,
)
