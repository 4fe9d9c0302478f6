"""Nsight Systems ``parquetdir`` and ``arrowdir`` exports: a folder with one file per table."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.nsight.store import folder_tables
from tracetool.sources.nsight.tables import looks_like_nsight, read_export


def sniff(probe: Probe) -> float:
    """Score: files named like the tables of an export."""
    if not probe.path.is_dir():
        return 0.0
    names = folder_tables(probe.path)
    return 1.0 if looks_like_nsight({n: frozenset() for n in names}) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    return read_export(path)


FORMAT = Format(
    title="Nsight Systems Parquet or Arrow folder",
    holds="trace",
    made_by="nsys export --type parquetdir -o run_pqtdir run.nsys-rep   (or --type arrowdir)",
    tried="the tables of schema 3.7 as Parquet and Arrow files",
    checked="names and nanoseconds of what the test wrote; rows counted by polars alone",
    sniff=sniff,
    read=read,
    suffixes=("_pqtdir", "_arwdir"),
    memory_ratio=0.0,
)
