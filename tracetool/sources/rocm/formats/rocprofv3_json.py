"""``rocprofv3`` JSON results."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import unpacked_bytes


def sniff(probe: Probe) -> float:
    """Score: the one key of the document."""
    return 1.0 if b'"rocprofiler-sdk-tool"' in probe.head[:4096] else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    from tracetool.sources.rocm.v3_json import read_document

    options.progress.step(f"reading {path.name}")
    return read_document(path, unpacked_bytes(path, options.max_ratio))


FORMAT = Format(
    title="rocprofv3 JSON",
    holds="trace",
    made_by="rocprofv3 --runtime-trace --output-format json -- ./app",
    tried="ROCm 7.x, MI350X, 43,915 dispatches",
    checked="names and nanoseconds of what the test wrote; records counted by json.loads",
    sniff=sniff,
    read=read,
    suffixes=("_results.json", ".json.gz"),
    memory_ratio=12.0,
)
