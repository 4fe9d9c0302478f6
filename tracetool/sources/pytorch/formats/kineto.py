"""PyTorch profiler (Kineto) JSON, plain or gzip."""

from __future__ import annotations

import re
from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import unpacked_chunks
from tracetool.sources.spill import Spill

_MARKS = re.compile(
    r'"cat"\s*:\s*"(?:cpu_op|Operator|kernel|Kernel|cuda_runtime|Runtime|cuda_driver|user_annotation|python_function'
    r'|gpu_memcpy|ac2g|cpu_instant_event|Memcpy)"|"deviceProperties"|"distributedInfo"|"PyTorch Profiler'
)


def sniff(probe: Probe) -> float:
    """Score: an event list whose categories or header are the profiler's."""
    text = probe.text.lstrip("\ufeff \t\r\n")
    if text[:1] not in ("{", "["):
        return 0.0
    listed = '"traceEvents"' in text or text[:1] == "["
    if _MARKS.search(text):
        return 0.9 if listed else 0.6
    return 0.2 if '"traceEvents"' in text else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace."""
    from tracetool.sources.pytorch.trace import CHUNK_BYTES, read_trace

    options.progress.step(f"reading {path.name}")
    return read_trace(path, unpacked_chunks(path, options.max_ratio, CHUNK_BYTES), options.progress)


def spill(path: Path, options: ReadOptions, into: Spill[Trace]) -> bool:
    """Write the tables of a file of any size as they are read."""
    from tracetool.sources.pytorch.trace import CHUNK_BYTES, spill_trace

    spill_trace(path, unpacked_chunks(path, options.max_ratio, CHUNK_BYTES), options.progress, into)
    return True


FORMAT = Format(
    title="PyTorch profiler (Kineto) JSON",
    holds="trace",
    made_by="torch.profiler.profile(record_shapes=True) ... prof.export_chrome_trace('trace.json.gz')",
    tried="PyTorch 1.8 (2020) to 2.9 (2026), CUDA and ROCm",
    checked="launches and nanoseconds of each kernel of real files, as json.loads has them",
    sniff=sniff,
    read=read,
    suffixes=(".json", ".json.gz", ".pt.trace.json"),
    memory_ratio=3.0,
    spill=spill,
)
