"""Ingest of a trace larger than memory: its tables pass over the disk and are linked window by window."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.assemble import assemble, check_trace
from tracetool.sources.clocks import Source, align_sources
from tracetool.sources.format import Format, ReadOptions, Trace
from tracetool.sources.io.text import content_bytes
from tracetool.sources.source_description import described_source, ingest_warnings, name_gpus, with_named_gpu
from tracetool.sources.spill import WINDOW_ROWS, Spill
from tracetool.sources.telemetry.readings import tidy_readings
from tracetool.tables.run import finish_run, run_folder

#: Memory that a trace may take to read at once; larger ones pass over the disk. [byte]
_AT_ONCE: Final = 3 << 30


def is_large(real: Path, form: Format) -> bool:
    """Return whether a file is read in windows; with ``TRACETOOL_WINDOW`` (their activities) any is."""
    if form.spill is None or not real.is_file():
        return False
    return bool(os.environ.get("TRACETOOL_WINDOW")) or form.memory_ratio * content_bytes(real) > _AT_ONCE


def ingest_large(
    path: Path,
    real: Path,
    named: tuple[str, Format],
    options: ReadOptions,
    logs: Sequence[Source],
    *,
    tz: str | None,
    model: str | None,
    target: Path,
    made_notes: Sequence[str],
    sums: Callable[[], Sequence[str]],
) -> Path | None:
    """Write the run of one large trace and its power logs; None where the file must be read at once.

    Parameters
    ----------
    path, real : Path
        The trace as named, and the file to read.
    named : (str, Format)
        Its format.
    logs : sequence of Source
        Power logs, read.
    made_notes : sequence of str
        Warnings of what was named.
    sums : callable
        Returns the SHA-256 of trace and logs, in this order.

    Raises
    ------
    BadInput
        If it cannot be used, or a log's clock is known neither from log nor trace.
    """
    name, form = named
    assert form.spill is not None
    assert options.scratch is not None
    folders = [options.scratch / part for part in ("spilled", "joined")]
    for folder in folders:
        folder.mkdir()
    spill: Spill[Trace] = Spill(folders[0])
    from tracetool.sources.joined_windows import JoinedRun  # reads pyarrow, which a small trace needs not

    joined = JoinedRun(folders[1])
    if not form.spill(real, options, spill):
        return None
    each = int(os.environ.get("TRACETOOL_WINDOW") or WINDOW_ROWS)
    clock: dict[str, Any] = {}
    described: list[dict[str, Any]] = []
    warnings: list[str] = []
    done, activity_count = 0, spill.rows.get("activities", 0)
    for first, trace in spill.windows(each):
        sources = [Source(path, name, trace), *(logs if not described else [])]
        done += trace.activities.height
        options.progress.step(f"linking {path.name}: {done:,} activities", done / max(activity_count, 1))
        shift, tables = _window(sources, tz, clock, described, warnings, logs)
        joined.add(tables, first + shift)
    devices, unused = name_gpus(joined.devices(), model)
    from tracetool.kernels.refine import families_of  # the grammars: not for a read that fails

    options.progress.step(f"writing {target}")
    signatures, number = joined.signatures()
    signatures = signatures.with_columns(families_of(signatures).alias("family"))
    tables = {"signatures": signatures, "devices": devices, **joined.small()}
    notes = [*warnings, *made_notes, *unused]
    warnings = ingest_warnings([], notes, clock, tables, joined.worked())
    info = {
        "clock": clock,
        "sources": [{**d, "sha256": s} for d, s in zip(described, sums(), strict=True)],
        "warnings": list(dict.fromkeys(with_named_gpu(warning, model) for warning in warnings)),
    }
    with run_folder(target) as folder:
        finish_run(folder, tables, joined.finish(number), folders[1], info)
    return target


def _window(
    sources: Sequence[Source],
    tz: str | None,
    clock: dict[str, Any],
    described: list[dict[str, Any]],
    warnings: list[str],
    logs: Sequence[Source],
) -> tuple[int, dict[str, pl.DataFrame]]:
    """Return how far a window's clock was moved [ns] and its tables; note clock, sources and warnings."""
    checked: list[Trace] = [check_trace(s.trace, s.path) for s in sources]
    aligned = align_sources(sources, tz)
    for source in sources:
        tidy_readings(source.trace)
    if loose := [e["source"] for e in aligned["alignment"][1:] if not e["placed"]]:
        raise BadInput.in_file(
            loose[0],
            "its clock is not tied to the trace, which is too large to fit it to",
            "log with tracetool record, which notes both clocks",
        )
    entries = [described_source(s) for s in sources]
    if not described:
        clock |= aligned
        described += entries
        warnings += [f"{s.path.name}: {w}" for s in logs for w in s.trace.warnings]
    else:
        for figure in ("kernels", "activities", "rejected"):
            described[0][figure] += entries[0][figure]
    warnings += [f"{sources[0].path.name}: {w}" for w in sources[0].trace.warnings]
    moved = int(aligned["alignment"][0]["offset_ns"])
    assembled = assemble(checked)
    warnings += assembled.warnings
    return moved, assembled.tables
