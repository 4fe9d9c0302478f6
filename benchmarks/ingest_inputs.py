"""Big inputs for ``benchmarks/ingest.py``, made by script: shapes and name counts of a training run."""

# ruff: noqa: E501

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.report.export.protobuf import Part, constant, message_field, one_bytes, one_whole, whole_field

NAMES = [f"void kernel_{i}<float, {1 << (i % 10)}, at::native::Functor<c10::BFloat16>>(int, float*, Array<char*, 3>)"
         for i in range(1000)]  # fmt: skip
_KERNEL = [
    "start",
    "end",
    "deviceId",
    "contextId",
    "greenContextId",
    "streamId",
    "correlationId",
    "globalPid",
    "demangledName",
    "shortName",
    "mangledName",
    "launchType",
    "cacheConfig",
    "registersPerThread",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "localMemoryPerThread",
    "localMemoryTotal",
    "gridId",
    "sharedMemoryExecuted",
    "graphNodeId",
    "sharedMemoryLimitConfig",
]
PID = 4242


def starts_and_ends(count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return launches back to back with small gaps, 2 to 90 us each. [ns]"""
    random = np.random.default_rng(seed)
    length = random.integers(2_000, 90_000, count)
    start = 1_000_000_000 + np.cumsum(length + random.integers(500, 3_000, count)) - length
    return start, start + length


def nsys_sqlite(path: Path, kernels: int) -> Path:
    """Write an export with 28 kernel columns, a runtime call per launch and NVTX ranges."""
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    db.executemany("INSERT INTO StringIds VALUES (?,?)", list(enumerate(NAMES, 1)))
    db.execute("INSERT INTO StringIds VALUES (5000,'cudaLaunchKernel_v7000'), (5001,'iteration')")
    columns = ", ".join(f'"{c}" INTEGER' for c in _KERNEL)
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
    db.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, eventClass INTEGER,'
               " globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER)")  # fmt: skip
    db.execute('CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, textId INTEGER,'
               " globalTid INTEGER)")  # fmt: skip
    db.execute(
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, clockRate INTEGER, cuDevice INTEGER)"
    )
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0,'NVIDIA H100 80GB HBM3',132,1980000000,0)")
    db.execute(
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)"
    )
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1752215573000000000,'','')")
    random = np.random.default_rng(2)
    done = 0
    base = 0
    while done < kernels:
        n = min(500_000, kernels - done)
        start, end = starts_and_ends(n, done)
        start, end = start + base, end + base
        base = int(end[-1])
        name = random.integers(1, len(NAMES) + 1, n)
        grid = 1 << (name % 9)
        one, zero = np.ones(n, np.int64), np.zeros(n, np.int64)
        correlation = done + np.arange(1, n + 1)
        group = np.full(n, PID << 24)
        cells = [start, end, zero, one, zero, 7 * one, correlation, group, name, name, name, one, zero, 32 + name % 64,
                 grid, one, one, 128 * one, one, one, 1024 * one, zero, zero, zero, correlation, zero, zero, zero]  # fmt: skip
        marks = ",".join("?" * len(_KERNEL))
        db.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})",
            zip(*(c.tolist() for c in cells), strict=True),
        )
        calls = [start - 8000, start - 3000, zero, group + PID, correlation, 5000 * one, zero, zero]
        db.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?,?,?,?)",
            zip(*(c.tolist() for c in calls), strict=True),
        )
        ranges = [(int(start[i]) - 9000, int(end[min(i + 99, n - 1)]), 59, None, 5001, (PID << 24) + PID)
                  for i in range(0, n, 100)]  # fmt: skip
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?)", ranges)
        done += n
    db.commit()
    db.close()
    return path


def kineto_json(path: Path, events: int) -> Path:
    """Write a profiler file: a fifth kernels, a fifth calls, two fifths operators with shapes, the rest flows."""
    kernels = events // 5
    start, end = starts_and_ends(kernels)
    with path.open("w") as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],'
                  ' "baseTimeNanoseconds": 1752215573000000000, "displayTimeUnit": "ms", "traceEvents": [\n')  # fmt: skip
        out.write(
            '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}'
        )
        for i in range(kernels):
            at, length = start[i] / 1000, (end[i] - start[i]) / 1000
            name = NAMES[i % 1000]
            out.write(
                f',\n{{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": {at - 20:.3f},'
                f' "dur": 14.000, "args": {{"External id": {2 * i + 1}, "Record function id": 0, "Concrete Inputs": ["", ""],'
                f' "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[4096, 1], [1, 4096]], "Input Dims":'
                f' [[{128 << (i % 5)}, 4096], [4096, 4096]], "Ev Idx": {2 * i}}}}}'
                f',\n{{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": {at - 18:.3f},'
                f' "dur": 11.000, "args": {{"External id": {2 * i + 2}, "Record function id": 0, "Concrete Inputs": ["", ""],'
                f' "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[4096, 1], [1, 4096]], "Input Dims":'
                f' [[{128 << (i % 5)}, 4096], [4096, 4096]], "Ev Idx": {2 * i + 1}}}}}'
                f',\n{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {at - 12:.3f},'
                f' "dur": 4.500, "args": {{"External id": {2 * i + 2}, "cbid": 211, "correlation": {i + 1}}}}}'
                f',\n{{"ph": "s", "id": {i + 1}, "pid": 1, "tid": 1, "ts": {at - 12:.3f}, "cat": "ac2g", "name": "ac2g"}}'
                f',\n{{"ph": "X", "cat": "kernel", "name": {json.dumps(name)}, "pid": 0, "tid": 7, "ts": {at:.3f},'
                f' "dur": {length:.3f}, "args": {{"External id": {2 * i + 2}, "queued": 0, "device": 0, "context": 1,'
                f' "stream": 7, "correlation": {i + 1}, "registers per thread": 32, "shared memory": 0, "blocks per SM":'
                f' 1.5, "warps per SM": 6.0, "grid": [{1 + i % 512}, 1, 1], "block": [128, 1, 1],'
                f' "est. achieved occupancy %": 9}}}}'
            )
        out.write('\n], "traceName": "trace.json"}\n')
    return path


def rocprof_csv(path: Path, kernels: int) -> Path:
    """Write a rocprofv3 kernel trace."""
    start, end = starts_and_ends(kernels)
    i = pl.int_range(kernels, eager=True)
    one = pl.lit(1)
    frame = pl.DataFrame({"Start_Timestamp": start, "End_Timestamp": end, "i": i}).select(
        Kind=pl.lit("KERNEL_DISPATCH"), Agent_Id=pl.lit("Agent 4"), Queue_Id=one, Stream_Id=one, Thread_Id=pl.lit(77),
        Dispatch_Id="i", Kernel_Id=pl.col("i") % 1000, Kernel_Name=pl.format("void kernel_{}<float, 3>(float*, int)", pl.col("i") % 1000),
        Correlation_Id="i", Start_Timestamp="Start_Timestamp", End_Timestamp="End_Timestamp", LDS_Block_Size=pl.lit(1024),
        Scratch_Size=pl.lit(0), VGPR_Count=pl.lit(64), Accum_VGPR_Count=pl.lit(0), SGPR_Count=pl.lit(48),
        Workgroup_Size_X=pl.lit(256), Workgroup_Size_Y=one, Workgroup_Size_Z=one,
        Grid_Size_X=(pl.col("i") % 64 + 1) * 256, Grid_Size_Y=one, Grid_Size_Z=one,
    )  # fmt: skip
    frame.write_csv(path, quote_style="non_numeric")
    return path


def rocprof_pftrace(path: Path, kernels: int) -> Path:
    """Write a rocprofv3 Perfetto trace: slices of dispatches, their names and those of their annotations interned."""
    start, end = starts_and_ends(kernels)
    i = np.arange(kernels)
    said = {"begin_ns": start, "end_ns": end, "delta_ns": end - start, "agent": i * 0 + 4, "corr_id": i, "queue": i % 2,
            "tid": i * 0 + 77, "kernel_id": i % 1000, "LDS_Block_Size": i * 0 + 1024, "VGPR_Count": i * 0 + 64,
            "workgroup_size": i * 0 + 256, "grid_size": (i % 64 + 1) * 256}  # fmt: skip
    tables = ((1, ["kernel_dispatch"]), (2, NAMES), (3, list(said)))
    interned = b"".join(one_bytes(n, one_whole(1, iid) + one_bytes(2, text))
                        for n, texts in tables for iid, text in enumerate(texts, 1))  # fmt: skip
    head = constant(kernels, one_whole(10, 1) + one_whole(13, 2))
    of_slice = (
        constant(kernels, one_whole(9, 1) + one_whole(3, 1) + one_whole(11, 5)),
        whole_field(10, i % 1000 + 1),
    )
    notes: list[Part] = [message_field(4, constant(kernels, one_whole(1, iid)), whole_field(3, values))
                         for iid, values in enumerate(said.values(), 1)]  # fmt: skip
    begin = message_field(1, head, whole_field(8, start), message_field(11, *of_slice, *notes))
    over = message_field(11, constant(kernels, one_whole(9, 2) + one_whole(11, 5)))
    with path.open("wb") as file:
        file.write(
            one_bytes(1, one_whole(8, 0) + one_whole(10, 1) + one_whole(13, 1) + one_bytes(12, interned))
        )
        file.write(begin.written())
        file.write(message_field(1, head, whole_field(8, end), over).written())
    return path
