"""How many activities a file holds, counted without the tool: what is neither read nor rejected was lost.

Each count is a few lines over the plain container. It returns None where a changed file can be counted in
more than one way; then nothing is claimed of it.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

Count = Callable[[Path], int | None]
_NSYS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_DEVICE_EVENTS = ("kernel", "gpu_memcpy", "gpu_memset")


def _raw(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def _json(path: Path) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(_raw(path))
    return None


def _sqlite(*queries: str) -> Count:
    def count(path: Path) -> int:
        total = 0
        with contextlib.closing(sqlite3.connect(path)) as db:
            for query in queries:
                with contextlib.suppress(sqlite3.Error):  # the table is gone
                    total += db.execute(query).fetchone()[0]
        return total

    return count


def _rocprof_db(path: Path) -> int:
    """Return the copies, and the dispatches of KERN or A; where neither states times, those of OPS."""
    dispatches = (f"SELECT count(*) FROM (SELECT BeginNs FROM {table})" for table in ("KERN", "A"))
    kernels = _sqlite(*dispatches)(path) or _sqlite("SELECT count(*) FROM OPS")(path)
    return kernels + _sqlite("SELECT count(*) FROM COPY")(path)


def _nsys_folder(path: Path) -> int:
    total = 0
    for name in _NSYS:
        for file in path.glob(f"{name}.*"):
            frame = pl.read_parquet(file) if file.suffix == ".parquet" else pl.read_ipc(file.read_bytes())
            total += frame.height
    return total


def _kineto(path: Path) -> int | None:
    document = _json(path)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        return None
    known = [
        e for e in events if isinstance(e, dict) and e.get("cat") in _DEVICE_EVENTS and e.get("ph") == "X"
    ]
    return len(known)


def _rocprof_json(path: Path) -> int | None:
    document = _json(path)
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        return None
    args = [e.get("args") for e in events if isinstance(e, dict) and e.get("ph") == "X"]
    return sum(isinstance(a, dict) and "BeginNs" in a and "gpu-id" in a for a in args)


def _rocprofv3_json(path: Path) -> int | None:
    document = _json(path)
    tools = document.get("rocprofiler-sdk-tool") if isinstance(document, dict) else None
    if not isinstance(tools, list) or not all(isinstance(t, dict) for t in tools):
        return None
    total = 0
    for tool in tools:
        records = tool.get("buffer_records")
        if isinstance(records, dict):
            held = [records.get(k) for k in ("kernel_dispatch", "memory_copy")]
            total += sum(len(h) for h in held if isinstance(h, list))
    return total


def _csv(path: Path) -> int | None:
    """Return the rows of a plain table; None where quotes or encodings leave open what a row is."""
    raw = _raw(path)
    if raw.startswith(b"PAR1"):
        return pl.read_parquet(path).height
    with contextlib.suppress(UnicodeDecodeError):
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
        lines = [line for line in text.split("\n") if line.strip(", \t")]
        if "\r" in text or "\0" in text or any(line.count('"') % 2 for line in lines):
            return None
        return max(0, len(lines) - 1)
    return None


def _rocprofv3_csv(path: Path) -> int | None:
    counts = [_csv(p) for p in (path, path.with_name("77_memory_copy_trace.csv"))]
    return None if None in counts else sum(c for c in counts if c is not None)


def _uncounted(_: Path) -> None:
    """Return nothing: fields within fields within packets can be counted in many ways once they are torn."""


#: The count of every trace format.
COUNTS: dict[str, Count] = {
    "nsys_sqlite": _sqlite(*(f'SELECT count(*) FROM "{t}"' for t in _NSYS)),
    "nsys_folder": _nsys_folder,
    "kineto": _kineto,
    "rocprofv3_csv": _rocprofv3_csv,
    "rocprofv3_json": _rocprofv3_json,
    "rocprof_csv": _csv,
    "rocprof_db": _rocprof_db,
    "rocprof_json": _rocprof_json,
    "rpd": _sqlite("SELECT count(*) FROM rocpd_op"),
    "rocpd": _sqlite(
        *(
            f"SELECT count(*) FROM rocpd_{table}_{process}"
            for table in ("kernel_dispatch", "memory_copy")
            for process in ("0a_1", "0b_2")
        )
    ),
    "kernel_table": _csv,
    "pftrace": _uncounted,
    "xplane": _uncounted,
    "torch_pftrace": _uncounted,
    "execution_trace": _uncounted,
}
