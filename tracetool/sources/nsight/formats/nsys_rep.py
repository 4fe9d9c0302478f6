"""Nsight Systems reports (``.nsys-rep``, ``.qdrep``), through the installed ``nsys``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tracetool.core.errors import BadInput, TracetoolError
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.nsight.program import MAGIC, export_report, report_version
from tracetool.sources.nsight.tables import read_export
from tracetool.tables.run import file_sha256


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
    """Read the export that stands beside a report nsys cannot open, unless it is of another recording.

    Notes
    -----
    A report packs what identifies a recording, so that only nsys can compare it. What can be told: an export
    older than its report, or made by an nsys older than the one that wrote the report, is of another.
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
    sniff=sniff,
    read=read,
    suffixes=(".nsys-rep", ".qdrep"),
    memory_ratio=0.0,
)
