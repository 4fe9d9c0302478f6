"""``rocprofv3`` CSV: kernel trace, memory copies, HIP calls, markers and agents of one run."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.rocm.v3_csv import kind_of_table, read_tables


def sniff(probe: Probe) -> float:
    """Score: the header of one of the run's tables."""
    first = (probe.lines(1) or [""])[0]
    return 1.0 if kind_of_table(first) in ("kernels", "copies", "calls", "counters") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    options.progress.step(f"reading {path.name}")
    return read_tables(path, options.max_ratio)


FORMAT = Format(
    title="rocprofv3 CSV",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format csv -- ./app",
    tried="ROCm 6.2 to 7.x",
    sniff=sniff,
    read=read,
    suffixes=("_kernel_trace.csv", ".csv"),
    memory_ratio=3.0,
)
