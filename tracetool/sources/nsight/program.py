"""The ``nsys`` program: found wherever it usually is, run with a limit, its complaints put into one line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tracetool.core.errors import BadInput, MissingPart

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


def candidates(given: Path | None) -> Iterator[Path]:
    """Yield the programs to try: the given one alone, else PATH first, then the usual folders, newest first.

    Raises
    ------
    MissingPart
        If the given one does not exist.
    """
    if given is not None:
        found = shutil.which(str(given)) or (
            shutil.which("nsys", path=str(given)) if given.is_dir() else None
        )
        if not found:
            raise MissingPart(f"{given}: is not a program", "give the path of nsys with --nsys")
        yield Path(found)
        return
    seen: set[Path] = set()
    on_path = shutil.which("nsys")
    usual = sorted((p for pattern in _USUAL for p in Path("/").glob(pattern[1:])), key=_release, reverse=True)
    for program in ([Path(on_path)] if on_path else []) + usual:
        real = program.resolve()
        if real not in seen and os.access(program, os.X_OK):
            seen.add(real)
            yield program


def _release(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", str(path)))[:4]


def report_version(head: bytes) -> str | None:
    """Return the release that wrote a report, which reports say since 2023.3.

    >>> report_version(b"NVIDIA Tegra Profiler Report 2026@1@2@63-261237296639v0.")
    '2026.1.2.63'
    """
    found = re.match(rb"(\d{4}(?:@\d+)+)", head[len(MAGIC) :])
    return found[1].decode().replace("@", ".") if found else None


def export_report(report: Path, folder: Path, given: Path | None) -> tuple[Path, str]:
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
    for program in candidates(given):
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
        said = subprocess.run(  # noqa: S603 - the program the user has installed
            [str(program), "--version"],
            capture_output=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return "of unknown version"
    found = re.search(rb"(\d{4}(?:\.\d+)+)", said.stdout)
    return found[1].decode() if found else "of unknown version"


def _run(program: Path, report: Path, target: Path) -> str:
    """Return what went wrong, empty if nothing did."""
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
        said, _ = job.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"the export took longer than {limit:.0f} s"
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()  # takes its end and closes its pipe
    text = said.decode("utf-8", "replace").replace("\r", "\n")
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
