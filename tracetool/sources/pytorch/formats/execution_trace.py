"""Execution traces of PyTorch's observer (JSON) and of Chakra (``.et``): shapes of operators, no timeline."""

from __future__ import annotations

import re
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes

_JSON = re.compile(r'"(?:rf_id|ctrl_deps|op_schema)"')
#: A node behind its length: number, name, and further the lists of its inputs.
_NODE = re.compile(
    rb"\x12.(?:aten|c10d|autograd|nccl|torch)::|\[pytorch\|profiler\|execution_trace", re.DOTALL
)


def sniff(probe: Probe) -> float:
    """Score: nodes with the observer's attributes, or messages behind their lengths that name operators."""
    text = probe.text.lstrip()
    if text[:1] == "{":
        return 1.0 if '"nodes"' in text and _JSON.search(text) and '"traceEvents"' not in text else 0.0
    binary = b"\0" in probe.head or b"is_cpu_op" in probe.head
    if probe.head[:1] in (b"\n", b"") or not binary:
        return 0.0
    return 0.95 if b"is_cpu_op" in probe.head and _NODE.search(probe.head) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the operators in ``stated``.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or no operator in it has a number and shapes.
    """
    import msgspec

    from tracetool.sources.pytorch.execution import read_json, read_protobuf

    options.progress.step(f"reading {path.name}")
    raw = unpacked_bytes(path, options.max_ratio)
    trace = Trace("PyTorch execution trace", Clock("none", basis="operators and shapes: no times"))
    try:
        trace.stated = read_json(raw) if raw.lstrip()[:1] == b"{" else read_protobuf(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BrokenMessage) as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged execution trace: {error}", "copy it again"
        ) from error
    if not trace.stated.height:
        raise BadInput.in_file(
            path, "has no operator with a number (rf_id) and shapes",
            "write it with torch.profiler.ExecutionTraceObserver",
        )  # fmt: skip
    return trace


FORMAT = Format(
    title="PyTorch or Chakra execution trace",
    holds="trace",
    made_by="torch.profiler.profile(execution_trace_observer=ExecutionTraceObserver().register_callback('et.json'))",
    tried="an observer's file of mlcommons/chakra (schema 1.0.2), read beside a profile of the same run",
    checked="shapes the test wrote, joined to the calls of a profile by their number",
    sniff=sniff,
    read=read,
    suffixes=(".json", ".json.gz", ".et"),
    beside=True,
    memory_ratio=20.0,
)
