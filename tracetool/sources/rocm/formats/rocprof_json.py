"""``rocprof`` version 1 JSON."""

from __future__ import annotations

from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace


def sniff(probe: Probe) -> float:
    """Score: events with ``BeginNs`` in their arguments."""
    text = probe.text
    if '"traceEvents"' not in text[:4096]:
        return 0.0
    return 1.0 if '"BeginNs"' in text or '"CPU HSA API"' in text or '"CPU HIP API"' in text else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    from tracetool.sources.rocm.v1_json import read_events

    return read_events(path, options)


FORMAT = Format(
    title="rocprof JSON",
    holds="trace",
    made_by="rocprof --hsa-trace -o results.csv ./app   (results.json lies beside it)",
    tried="ROCm 4 and 5",
    checked="names and nanoseconds of what the test wrote; events counted by json.loads",
    sniff=sniff,
    read=read,
    suffixes=("results.json",),
    memory_ratio=12.0,
)
