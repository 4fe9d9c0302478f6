"""PyTorch profiler Perfetto traces (``.pftrace``, gzip)."""

from __future__ import annotations

from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.protobuf import BrokenMessage
from tracetool.sources.io.text import unpacked_bytes
from tracetool.sources.perfetto_stages import stages_left_out

#: Arguments of operators and of runtime calls, spelled as PyTorch does.
_MARKS = (b"External id", b"Record function id", b"cbid", b"registers per thread")
#: Text has no byte under a tab; packets are full of them: field tags and small numbers.
_TEXT_FROM = 9


def sniff(probe: Probe) -> float:
    """Score: packets behind one another, and PyTorch's arguments, or its operators among the names."""
    if probe.head[:1] != b"\n" or b"begin_ns" in probe.head or b"kernel_dispatch" in probe.head:
        return 0.0
    if min(probe.head) >= _TEXT_FROM:  # JSON that begins with an empty line
        return 0.0
    if any(mark in probe.head for mark in _MARKS):
        return 1.0
    return 0.8 if b"aten::" in probe.head else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or states its kernels otherwise than as slices.
    """
    from tracetool.sources.pytorch.perfetto import fill, recorded
    from tracetool.sources.pytorch.records import Header
    from tracetool.sources.pytorch.tables import Columns
    from tracetool.sources.pytorch.trace import make_trace

    options.progress.step(f"reading {path.name}")
    try:
        met = recorded(unpacked_bytes(path, options.max_ratio))
    except BrokenMessage as error:
        raise BadInput.in_file(
            path, f"is a cut or damaged Perfetto trace: {error}", "copy it again"
        ) from error
    columns = Columns(path.name, met.base_ns)
    if odd := met.out_of_range:
        columns.rejected.append(rejected_rows(path.name, ["slice"] * len(odd), "time out of range", odd))
    fill(columns, met)
    if met.stages and not columns.activities:
        raise BadInput.in_file(
            path, f"states its {counted(met.stages, 'kernel')} as GPU render stages, without arguments",
            "export the same profile as JSON: export_chrome_trace('trace.json.gz')",
        )  # fmt: skip
    if not columns.categories - {""}:
        raise BadInput.in_file(
            path, "holds no profiler event", "export it with torch.profiler's export_chrome_trace"
        )
    trace = make_trace(columns, Header())
    trace.warnings += stages_left_out(met.stages)
    if met.open_slices:
        trace.warnings.append(
            f"{counted(met.open_slices, 'slice')} without an end left out: the file was cut"
        )
    if trace.activities.height:
        trace.warnings.append("the file does not name its GPU: name it with --gpu")
    return trace


FORMAT = Format(
    title="PyTorch profiler Perfetto trace",
    holds="trace",
    made_by="torch.profiler.profile(record_shapes=True) ... prof.export_chrome_trace('trace.pftrace')",
    tried="the events its source writes (CUPTI monitor, libcupti 13.3), made by hand",
    checked="one run with the JSON export of the same events",
    sniff=sniff,
    read=read,
    suffixes=(".pftrace",),
    memory_ratio=40.0,
)
