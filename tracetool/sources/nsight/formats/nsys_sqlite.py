"""Nsight Systems SQLite exports."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.nsight.tables import looks_like_nsight, read_export


def sniff(probe: Probe) -> float:
    """Score: the tables of an export."""
    return 1.0 if looks_like_nsight(probe.tables) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    return read_export(path)


FORMAT = Format(
    title="Nsight Systems SQLite export",
    holds="trace",
    made_by="nsys export --type sqlite -o run.sqlite run.nsys-rep",
    tried="exports without a schema version (2020) and 3.4 to 3.25 (2023.3 to 2026.2)",
    checked="names and nanoseconds of what the test wrote; rows counted and power read by SQL alone",
    sniff=sniff,
    read=read,
    suffixes=(".sqlite", ".db"),
    memory_ratio=0.0,
)
