"""Small, faithful files of every format, written by the tests themselves; the truth is known."""

# ruff: noqa: E501, ISC004 - rows, headers and statements are written as the tools write them

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tests.varint import write_varint

#: Three launches: name, start, end (ns on the file's clock), grid in blocks, block.
LAUNCHES = (
    ("void gemm<float, 128>(float*)", 1_000_000, 1_250_003, (64, 2, 1), (256, 1, 1)),
    ("reduce_kernel", 1_300_000, 1_310_007, (8, 1, 1), (512, 1, 1)),
    ("void gemm<float, 128>(float*)", 1_400_000, 1_640_001, (64, 2, 1), (256, 1, 1)),
)
TOTAL_NS = sum(e - s for _, s, e, _, _ in LAUNCHES)
BOOT_NS = 1_550_151_000_000_000
EPOCH_NS = 1_752_215_573_000_000_000


def write_tables(path: Path, tables: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]]) -> Path:
    """Write an SQLite file from (column definitions, rows) by table."""
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        quoted = name.replace('"', '""')
        db.execute(f'CREATE TABLE "{quoted}" ({", ".join(columns)})')
        if rows:
            db.executemany(f'INSERT INTO "{quoted}" VALUES ({", ".join("?" * len(columns))})', rows)
    db.commit()
    db.close()
    return path


def nsys_tables(
    *, pid: int = 7, tid: int = 7, utc: int = EPOCH_NS
) -> dict[str, tuple[list[str], list[list[object]]]]:
    """Return the tables of an export with launches, copies, NVTX, metrics and two GPUs."""
    who = (pid << 24) | tid
    group = pid << 24
    names = {n: i for i, n in enumerate(dict.fromkeys(name for name, *_ in LAUNCHES), 1)}
    strings: list[list[object]] = [[i, n] for n, i in names.items()]
    strings += [[50, "cudaLaunchKernel_v7000"], [51, "cudaMemcpyAsync_v3020"], [60, "step 1"]]
    kernels: list[list[object]] = [
        [s, e, 0, 1, 13, 100 + i, group, names[n], names[n], 40, *grid, *block, 1024, 4096, None]
        for i, (n, s, e, grid, block) in enumerate(LAUNCHES)
    ]
    calls: list[list[object]] = [
        [s - 9000, s - 4000, who, 100 + i, 50] for i, (_, s, *_rest) in enumerate(LAUNCHES)
    ]
    calls.append([1_700_000 - 8000, 1_700_000 - 3000, who, 200, 51])
    return {
        "StringIds": (["id INTEGER PRIMARY KEY", "value TEXT"], strings),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            ["start INTEGER", '"end" INTEGER', "deviceId INTEGER", "contextId INTEGER", "streamId INTEGER",
             "correlationId INTEGER", "globalPid INTEGER", "demangledName INTEGER", "shortName INTEGER",
             "registersPerThread INTEGER", "gridX INTEGER", "gridY INTEGER", "gridZ INTEGER",
             "blockX INTEGER",
             "blockY INTEGER", "blockZ INTEGER", "staticSharedMemory INTEGER", "dynamicSharedMemory INTEGER",
             "graphNodeId INTEGER"],
            kernels,
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            ["start INTEGER", '"end" INTEGER', "deviceId INTEGER", "contextId INTEGER", "streamId INTEGER",
             "correlationId INTEGER", "globalPid INTEGER", "bytes INTEGER", "copyKind INTEGER"],
            [[1_700_000, 1_750_000, 0, 1, 13, 200, group, 1 << 20, 1]],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            ["start INTEGER", '"end" INTEGER', "globalTid INTEGER", "correlationId INTEGER", "nameId INTEGER"], calls
        ),
        "NVTX_EVENTS": (
            ["start INTEGER", '"end" INTEGER', "eventType INTEGER", "text TEXT", "textId INTEGER", "globalTid INTEGER"],
            [
                [900_000, 1_600_000, 59, None, 60, who],
                [980_000, 1_000_000, 59, "aten::mm, seq = 5, op_id = 9, sizes = [[128, 64], [64, 256]]", None, who],
                [1_390_000, 1_395_000, 59, "aten::mm, op_id = 11", None, who],
            ],
        ),
        "TARGET_INFO_GPU": (
            ["id INTEGER", "name TEXT", "busLocation TEXT", "uuid TEXT", "smCount INTEGER", "clockRate INTEGER",
             "totalMemory INTEGER", "computeMajor INTEGER", "computeMinor INTEGER", "cuDevice INTEGER"],
            [[0, "NVIDIA H100 80GB HBM3", "0000:01:00.0", "GPU-aaaa", 132, 1_980_000_000, 80 << 30, 9, 0, 0]],
        ),
        "TARGET_INFO_SESSION_START_TIME": (
            ["utcEpochNs INTEGER", "utcTime TEXT", "localTime TEXT"],
            [[utc, "2025-07-11T06:32:53", "2025-07-11T08:32:53"]],
        ),
        "META_DATA_EXPORT": (
            ["name TEXT", "value TEXT"],
            [["EXPORT_SCHEMA_VERSION_MAJOR", "3"], ["EXPORT_SCHEMA_VERSION_MINOR", "20"],
             ["EXPORT_SCHEMA_VERSION_MICRO", "3"], ["EXPORT_PRODUCT_VERSION", "2025.1.3.140"]],
        ),
        "META_DATA_CAPTURE": (["name TEXT", "value TEXT"], [["PROCESS_0:ENVIRONMENT_VARIABLE", "TOKEN=hunter2"]]),
        "TARGET_INFO_GPU_METRICS": (
            ["typeId INTEGER", "metricId INTEGER", "metricName TEXT"],
            [[256, 1, "GPC Clock Frequency [MHz]"], [256, 2, "SM Active [Throughput %]"]],
        ),
        "GPU_METRICS": (
            ["timestamp INTEGER", "typeId INTEGER", "metricId INTEGER", "value INTEGER"],
            [[-5, 256, 1, 1_410_000_000], [1_000_000, 256, 1, 2_410_000_000 - (1 << 32)], [1_000_000, 256, 2, 80]],
        ),
    }  # fmt: skip


def nsys_sqlite(folder: Path) -> Path:
    return write_tables(folder / "run.sqlite", nsys_tables())


def nsys_folder(folder: Path) -> Path:
    target = folder / "run_pqtdir"
    target.mkdir(exist_ok=True)
    for i, (name, (columns, rows)) in enumerate(nsys_tables().items()):
        names = [c.split()[0].strip('"') for c in columns]
        frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
        if i % 2:
            frame.write_ipc(target / f"{name}.arrow")
        else:
            frame.write_parquet(target / f"{name}.parquet")
    return target


def kineto_events(*, device: int = 0, pid: int = 4242, base_us: float = 0.0) -> list[dict[str, object]]:
    """Return events with operators, calls, kernels, a copy and an annotation."""
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "ts": 0, "args": {"name": "python"}},
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": "step",
            "pid": pid,
            "tid": 1,
            "ts": base_us + 900,
            "dur": 900,
        },
        {
            "ph": "X",
            "cat": "python_function",
            "name": "main",
            "pid": pid,
            "tid": 1,
            "ts": base_us + 1,
            "dur": 2000,
        },
    ]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        start, length = base_us + s / 1000, (e - s) / 1000
        operator = {"External id": 70 + i, "Input Dims": [[128, 64], [64, 256], []],
                    "Input type": ["c10::Half", "c10::Half", "Scalar"],
                    "Concrete Inputs": ["", "", "1"]}  # fmt: skip
        events += [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 1, "ts": start - 20, "dur": 15,
             "args": operator},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": 1, "ts": start - 12,
             "dur": 4.5, "args": {"External id": 70 + i, "cbid": 211, "correlation": 500 + i}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": 7, "ts": start, "dur": length,
             "args": {"External id": 70 + i, "device": device, "context": 1, "stream": 7, "correlation": 500 + i,
                      "registers per thread": 32, "shared memory": 2048, "grid": list(grid),
                      "block": list(block)}},
        ]  # fmt: skip
    events.append(
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": device, "tid": 7, "ts": base_us + 1700, "dur": 9.5,
         "args": {"device": device, "stream": 7, "correlation": 900, "bytes": 4096}}
    )  # fmt: skip
    return events


def kineto_document(events: list[dict[str, object]], **more: object) -> dict[str, object]:
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": i, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8,
                              "computeMinor": 0, "totalGlobalMem": 80 << 30} for i in range(2)],
        "cupti_version": 22,
        "baseTimeNanoseconds": EPOCH_NS,
        "traceEvents": events,
        "traceName": "/home/someone/secret/trace.json",
        **more,
    }  # fmt: skip


def kineto(folder: Path) -> Path:
    path = folder / "run.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(kineto_document(kineto_events())).encode()))
    return path


V3_HEADER = (
    "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
    "End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Workgroup_Size_X,"
    "Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"
)


def rocprofv3_csv(folder: Path) -> Path:
    path = folder / "77_kernel_trace.csv"
    lines = [",".join(f'"{h}"' for h in V3_HEADER.split(","))]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        items = [g * b for g, b in zip(grid, block, strict=True)]
        lines.append(
            f'"KERNEL_DISPATCH","Agent 4",1,2,77,{i},9,"{name}",{i + 1},{BOOT_NS + s},{BOOT_NS + e},1024,0,64,32,48,'
            f"{','.join(map(str, block))},{','.join(map(str, items))}"
        )
    path.write_text("\n".join(lines) + "\n")
    (folder / "77_hip_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        + "".join(
            f'"HIP_RUNTIME_API","hipLaunchKernel",77,77,{i + 1},{BOOT_NS + s - 9000},{BOOT_NS + s - 4000}\n'
            for i, (_, s, *_rest) in enumerate(LAUNCHES)
        )
    )
    (folder / "77_marker_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        f'"MARKER_CORE_API","step",77,77,40,{BOOT_NS},{BOOT_NS + 1_600_000}\n'
    )
    (folder / "77_memory_copy_trace.csv").write_text(
        '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",9,{BOOT_NS + 1_700_000},{BOOT_NS + 1_750_000}\n'
    )
    (folder / "77_agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Max_Engine_Clk_Fcompute","Gfx_Target_Version","Name",'
        '"Product_Name"\n0,0,"CPU",64,0,0,"EPYC","EPYC"\n4,4,"GPU",304,2100,90402,"gfx942","AMD Instinct MI300X"\n'
    )
    return path


def rocprofv3_json(folder: Path) -> Path:
    path = folder / "77_results.json"
    dispatches = [
        {"thread_id": 77, "correlation_id": {"internal": i + 1, "external": 0}, "start_timestamp": BOOT_NS + s,
         "end_timestamp": BOOT_NS + e, "stream_id": {"handle": 2},
         "dispatch_info": {"agent_id": {"handle": 901}, "queue_id": {"handle": 1}, "kernel_id": 30 if "gemm" in n else 31,
                           "dispatch_id": i, "private_segment_size": 0, "group_segment_size": 1024,
                           "workgroup_size": dict(zip("xyz", block, strict=True)),
                           "grid_size": {a: g * b for a, g, b in zip("xyz", grid, block, strict=True)}}}
        for i, (n, s, e, grid, block) in enumerate(LAUNCHES)
    ]  # fmt: skip
    calls = [
        {"kind": 1, "operation": 1, "thread_id": 77, "correlation_id": {"internal": i + 1, "external": 0},
         "start_timestamp": BOOT_NS + s - 9000, "end_timestamp": BOOT_NS + s - 4000}
        for i, (_, s, *_rest) in enumerate(LAUNCHES)
    ]  # fmt: skip
    process = {
        "metadata": {"pid": 77, "command": ["./app", "--token", "hunter2"], "node": {"hostname": "secret"}},
        "agents": [
            {"id": {"handle": 900}, "type": 1, "name": "EPYC", "product_name": "EPYC", "node_id": 0},
            {"id": {"handle": 901}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "node_id": 1,
             "cu_count": 304, "max_engine_clk_fcompute": 2100, "gfx_target_version": 90402},
        ],
        "kernel_symbols": [
            {"kernel_id": 31, "formatted_kernel_name": "reduce_kernel", "arch_vgpr_count": 16, "accum_vgpr_count": 0},
            {"kernel_id": 30, "formatted_kernel_name": LAUNCHES[0][0] + " [clone .kd]", "arch_vgpr_count": 64,
             "accum_vgpr_count": 32},
        ],
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []},
                                       {"kind": "HIP_RUNTIME_API", "operations": ["?", "hipLaunchKernel"]}]},
        "buffer_records": {
            "kernel_dispatch": dispatches, "hip_api": calls,
            "marker_api": [{"kind": 2, "operation": 0, "thread_id": 77, "start_timestamp": BOOT_NS,
                            "end_timestamp": BOOT_NS + 1_600_000, "value": "step"}],
            "memory_copy": [{"start_timestamp": BOOT_NS + 1_700_000, "end_timestamp": BOOT_NS + 1_750_000, "operation": 2,
                             "dst_agent_id": {"handle": 901}, "src_agent_id": {"handle": 900},
                             "bytes": 4096}],
        },
    }  # fmt: skip
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    return path


def rocprof_csv(folder: Path) -> Path:
    path = folder / "results.csv"
    head = ("Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,"
            "sig,obj,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs")  # fmt: skip
    lines = [",".join(f'"{h}"' for h in head.split(","))]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        items = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
        lines.append(
            f'{i},"{name} [clone .kd]",2,0,{i},77,77,{items},{block[0]},1024,0,64,32,48,64,"0x0","0x7f",'
            f"{BOOT_NS + s - 5000},{BOOT_NS + s},{BOOT_NS + e},{BOOT_NS + e + 900},{e - s}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def rocprof_v2_csv(folder: Path) -> Path:
    path = folder / "results_77.csv"
    lines = [
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
        "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID"
    ]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        items = grid[0] * grid[1] * grid[2] * block[0]
        lines.append(
            f'{i},9,1,77,77,{items},{block[0]},1024,0,64,32,48,64,"{name}",{BOOT_NS + s},{BOOT_NS + e},{i}'
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def rocprof_db(folder: Path) -> Path:
    timed = ["BeginNs INTEGER", "EndNs INTEGER"]
    return write_tables(
        folder / "results.db",
        {
            "HIP": (
                [*timed, "pid INTEGER", "tid INTEGER", "Name TEXT", '"Index" INTEGER'],
                [[BOOT_NS + s - 9000, BOOT_NS + s - 4000, 2, 77, "hipLaunchKernel", 10 + i]
                 for i, (_, s, *_r) in enumerate(LAUNCHES)],
            ),
            "OPS": (
                [*timed, '"dev-id" INTEGER', '"queue-id" INTEGER', "Name TEXT", "pid INTEGER", "tid INTEGER",
                 '"Index" INTEGER'],
                [[BOOT_NS + s, BOOT_NS + e, 0, 0, n, 6, 1, 10 + i] for i, (n, s, e, *_r) in enumerate(LAUNCHES)],
            ),
            "COPY": (
                [*timed, '"dev-id" INTEGER', '"queue-id" INTEGER', "Name TEXT", "pid INTEGER", "tid INTEGER",
                 '"Index" INTEGER'],
                [[BOOT_NS + 1_700_000, BOOT_NS + 1_750_000, 0, 0, "CopyHostToDevice", 1, 0, 40]],
            ),
            "rocTX": ([*timed, "pid INTEGER", "tid INTEGER", "Name TEXT", '"Index" INTEGER'],
                      [[BOOT_NS, BOOT_NS + 1_600_000, 0, 77, '"step"', 0]]),
            "KERN": (['"Index" INTEGER', "KernelName TEXT"], []),
        },
    )  # fmt: skip


def rocprof_json(folder: Path) -> Path:
    path = folder / "results.json"
    events: list[dict[str, object]] = [
        {},
        {"args": {"name": "CPU HIP API"}, "ph": "M", "pid": 2, "name": "process_name"},
        {"args": {"name": "GPU0"}, "ph": "M", "pid": 6, "name": "process_name"},
    ]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        items = grid[0] * grid[1] * grid[2] * block[0]
        events.append(
            {"ph": "X", "name": name, "pid": "6", "tid": "0", "ts": str((BOOT_NS + s) // 1000), "dur": str((e - s) // 1000),
             "args": {"KernelName": name, "gpu-id": "0", "queue-id": "0", "pid": "77", "tid": "77", "grd": str(items),
                      "wgr": str(block[0]), "lds": "512", "vgpr": "28", "DispatchNs": str(BOOT_NS + s - 5000),
                      "BeginNs": str(BOOT_NS + s), "EndNs": str(BOOT_NS + e), "Index": str(i)}}
        )  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def rpd(folder: Path) -> Path:
    strings = ["", LAUNCHES[0][0], "reduce_kernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "KernelExecution",
               "CopyHostToDevice", "hipMemcpyAsync", "UserMarker", "aten::mm", "hipGraphLaunch",
               "Task"]  # fmt: skip
    number = {s: i for i, s in enumerate(strings, 1)}
    api = [[i, 77, 77, BOOT_NS + s - 9000, BOOT_NS + s - 4000,
            number["hipExtModuleLaunchKernel" if i == 1 else "hipLaunchKernel"], 1]
           for i, (_, s, *_r) in enumerate(LAUNCHES, 1)]  # fmt: skip
    api.append([8, 77, 77, BOOT_NS + 1_690_000, BOOT_NS + 1_695_000, number["hipMemcpyAsync"], 1])
    api.append([9, 77, 77, BOOT_NS + 980_000, BOOT_NS + 1_000_000, number["UserMarker"], 1])
    shapes = []
    for i, (name, _s, _e, grid, block) in enumerate(LAUNCHES, 1):
        said = [g * b for g, b in zip(grid, block, strict=True)] if i == 1 else list(grid)
        shapes.append([i, "0x0", *said, *block, 1024, number[name]])
    return write_tables(
        folder / "trace.rpd",
        {
            "rocpd_string": (["id INTEGER", "string TEXT"], [[i, s] for s, i in number.items()]),
            "rocpd_metadata": (["id INTEGER", "tag TEXT", "value TEXT"], [[1, "schema_version", "2"]]),
            "rocpd_api": (["id INTEGER", "pid INTEGER", "tid INTEGER", "start INTEGER", '"end" INTEGER',
                           "apiName_id INTEGER", "args_id INTEGER"], api),
            "rocpd_op": (
                ["id INTEGER", "gpuId INTEGER", "queueId INTEGER", "start INTEGER", '"end" INTEGER',
                 "description_id INTEGER", "opType_id INTEGER"],
                [*[[i, 2, 0, BOOT_NS + s, BOOT_NS + e, 1, number["KernelExecution"]]
                   for i, (_, s, e, *_r) in enumerate(LAUNCHES, 1)],
                 [8, 2, 0, BOOT_NS + 1_700_000, BOOT_NS + 1_750_000, 1, number["CopyHostToDevice"]]],
            ),
            "rocpd_api_ops": (["id INTEGER", "api_id INTEGER", "op_id INTEGER"], [[i, i, i] for i in (1, 2, 3, 8)]),
            "rocpd_kernelapi": (
                ["api_ptr_id INTEGER", "stream TEXT", "gridX INTEGER", "gridY INTEGER", "gridZ INTEGER",
                 "workgroupX INTEGER", "workgroupY INTEGER", "workgroupZ INTEGER", "groupSegmentSize INTEGER",
                 "kernelName_id INTEGER"],
                shapes,
            ),
            "rocpd_copyapi": (["api_ptr_id INTEGER", "size INTEGER"], [[8, 4096]]),
            "rocpd_monitor": (
                ["id INTEGER", "deviceType TEXT", "deviceId INTEGER", "monitorType TEXT", "start INTEGER",
                 '"end" INTEGER', "value TEXT"],
                [[1, "gpu", 0, "sclk", BOOT_NS, BOOT_NS + 900_000, "132"],
                 [2, "gpu", 0, "sclk", BOOT_NS + 900_000, BOOT_NS + 1_800_000, "2100"],
                 [3, "gpu", 5, "sclk", BOOT_NS, BOOT_NS + 1_800_000, "131"]],
            ),
            "ext_autogradapi": (
                ["api_ptr_id INTEGER", "autogradName_id INTEGER", "seq INTEGER", "op_id INTEGER", "sizes TEXT"],
                [[9, number["aten::mm"], 3, 1, "[[128, 64], [64, 256]]"]],
            ),
        },
    )  # fmt: skip


def rocpd(folder: Path, *, views: bool = True) -> Path:
    """Return a database of two processes whose ids collide: only with the guid do the joins hold."""
    path = folder / ("results.db" if views else "bare_results.db")
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    tables = ("rocpd_metadata", "rocpd_kernel_dispatch", "rocpd_info_kernel_symbol", "rocpd_info_agent", "rocpd_event",
              "rocpd_info_process", "rocpd_region", "rocpd_string", "rocpd_memory_copy")  # fmt: skip
    columns = {
        "rocpd_metadata": "id INTEGER, tag TEXT, value TEXT",
        "rocpd_kernel_dispatch": "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER,"
        " kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, end BIGINT,"
        " private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER,"
        " workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER",
        "rocpd_info_kernel_symbol": "id INTEGER, guid TEXT, kernel_name TEXT, display_name TEXT,"
        " arch_vgpr_count INTEGER, accum_vgpr_count INTEGER",
        "rocpd_info_agent": "id INTEGER, guid TEXT, type TEXT, absolute_index INTEGER, name TEXT, product_name TEXT,"
        " extdata TEXT",
        "rocpd_event": "id INTEGER, guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, extdata TEXT",
        "rocpd_region": "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT,"
        " name_id INTEGER, event_id INTEGER",
        "rocpd_string": "id INTEGER, guid TEXT, string TEXT",
        "rocpd_memory_copy": "id INTEGER, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT,"
        " name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER",
        "rocpd_info_process": "id INTEGER, guid TEXT, pid INTEGER, environment TEXT",
    }
    for p, guid in enumerate(("0a-1", "0b-2")):
        suffix = guid.replace("-", "_")
        for table in tables:
            db.execute(f'CREATE TABLE "{table}_{suffix}" ({columns[table]})')
        db.execute(f"INSERT INTO rocpd_metadata_{suffix} VALUES (1, 'schema_version', '3')")
        db.execute(f"INSERT INTO rocpd_info_process_{suffix} VALUES (1, '{guid}', {77 + p}, 'TOKEN=hunter2')")
        extra = json.dumps({"cu_count": 304, "max_engine_clk_fcompute": 2100, "gfx_target_version": 90402})
        db.execute(f"INSERT INTO rocpd_info_agent_{suffix} VALUES (1,'{guid}','CPU',0,'EPYC','EPYC','{{}}')")
        db.execute(
            f"INSERT INTO rocpd_info_agent_{suffix} VALUES (2,'{guid}','GPU',{1 + p},'gfx942','AMD Instinct MI300X',?)",
            (extra,),
        )
        texts = (
            "HIP_RUNTIME_API",
            "hipLaunchKernel",
            "MEMORY_COPY_HOST_TO_DEVICE",
            "MARKER_CORE_API",
            "roctxMark",
        )
        db.executemany(
            f"INSERT INTO rocpd_string_{suffix} VALUES (?,?,?)",
            [(i, guid, t) for i, t in enumerate(texts, 1)],
        )
        db.execute(
            f"INSERT INTO rocpd_event_{suffix} VALUES (200,?,4,90,0,?)",
            (guid, json.dumps({"message": "a step"})),
        )
        db.execute(
            f"INSERT INTO rocpd_region_{suffix} VALUES (90,?,1,1,?,?,?,5,200)",
            (guid, 77 + p, BOOT_NS, BOOT_NS + 2_000_000),
        )
        db.execute(
            f"INSERT INTO rocpd_memory_copy_{suffix} VALUES (1,?,1,1,?,?,?,3,2,1,4096,0,1)",
            (guid, 77 + p, BOOT_NS + 2_000, BOOT_NS + 5_000),
        )
        for i, (n, s, e, grid, block) in enumerate(LAUNCHES[: 2 + p], 1):
            items = [g * b for g, b in zip(grid, block, strict=True)]
            db.execute(
                f"INSERT INTO rocpd_info_kernel_symbol_{suffix} VALUES (?,?,?,?,64,32)",
                (i, guid, n + ".kd", n),
            )
            db.execute(
                f"INSERT INTO rocpd_event_{suffix} VALUES (?,?,NULL,?,?,NULL)", (i, guid, 50 + i, 20 + i)
            )
            db.execute(f"INSERT INTO rocpd_event_{suffix} VALUES (?,?,1,?,0,'{{}}')", (100 + i, guid, 20 + i))
            db.execute(
                f"INSERT INTO rocpd_region_{suffix} VALUES (?,?,1,?,?,?,?,2,?)",
                (i, guid, 1, 77 + p, BOOT_NS + s - 9000, BOOT_NS + s - 4000, 100 + i),
            )
            db.execute(
                f"INSERT INTO rocpd_kernel_dispatch_{suffix} VALUES (?,?,1,?,?,2,?,?,1,1,?,?,0,1024,?,?,?,?,?,?,?)",
                (i, guid, 77 + p, 77 + p, i, i, BOOT_NS + s, BOOT_NS + e, *block, *items, i),
            )
    if views:
        for table in tables:
            db.execute(
                f"CREATE VIEW {table} AS SELECT * FROM {table}_0a_1 UNION ALL SELECT * FROM {table}_0b_2"
            )
        db.execute(
            "CREATE VIEW kernels AS SELECT K.guid, K.pid, K.tid, S.display_name AS name, A.absolute_index AS"
            " agent_abs_index, K.queue_id, K.stream_id, K.start, K.end, K.grid_size_x AS grid_x, K.grid_size_y AS grid_y,"
            " K.grid_size_z AS grid_z, K.workgroup_size_x AS workgroup_x, K.workgroup_size_y AS workgroup_y,"
            " K.workgroup_size_z AS workgroup_z, K.group_segment_size AS lds_size, S.arch_vgpr_count AS vgpr_count,"
            " S.accum_vgpr_count, E.parent_stack_id FROM rocpd_kernel_dispatch K JOIN rocpd_info_kernel_symbol S ON"
            " S.id = K.kernel_id AND S.guid = K.guid JOIN rocpd_info_agent A ON A.id = K.agent_id AND A.guid = K.guid"
            " JOIN rocpd_event E ON E.id = K.event_id AND E.guid = K.guid"
        )
        db.execute(
            "CREATE VIEW regions AS SELECT S.string AS name, R.start, R.end, R.pid, R.tid FROM rocpd_region R"
            " JOIN rocpd_string S ON S.id = R.name_id AND S.guid = R.guid"
        )
    db.commit()
    db.close()
    return path


def kernel_table(folder: Path) -> Path:
    path = folder / "kernels.csv"
    lines = ["kernel,start_us,duration_us,grid_x,grid_y,grid_z,block_x,block_y,block_z,device"]
    for name, s, e, grid, block in LAUNCHES:
        cells = [f'"{name}"', s / 1000, (e - s) / 1000, *grid, *block, "NVIDIA A100-SXM4-80GB (0)"]
        lines.append(",".join(map(str, cells)))
    path.write_text("\n".join(lines) + "\n")
    return path


def kernel_parquet(folder: Path) -> Path:
    path = folder / "kernels.parquet"
    pl.DataFrame(
        {
            "name": [n for n, *_ in LAUNCHES],
            "start_ns": [r[1] for r in LAUNCHES],
            "end_ns": [r[2] for r in LAUNCHES],
        }
    ).write_parquet(path)
    return path


@dataclass(frozen=True)
class Sample:
    """A file of a format, and how many kernels it holds."""

    format: str
    make: Callable[[Path], Path]
    kernels: int = 3
    geometry: bool = True


TRACES: tuple[Sample, ...] = (
    Sample("nsys_sqlite", nsys_sqlite), Sample("nsys_folder", nsys_folder), Sample("kineto", kineto),
    Sample("rocprofv3_csv", rocprofv3_csv), Sample("rocprofv3_json", rocprofv3_json),
    Sample("rocprof_csv", rocprof_csv),
    Sample("rocprof_csv", rocprof_v2_csv), Sample("rocprof_db", rocprof_db, geometry=False),
    Sample("rocprof_json", rocprof_json), Sample("rpd", rpd), Sample("rocpd", rocpd, kernels=5),
    Sample("rocpd", lambda f: rocpd(f, views=False), kernels=5), Sample("kernel_table", kernel_table),
    Sample("kernel_table", kernel_parquet, geometry=False),
)  # fmt: skip


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return write_varint(number << 3 | 2) + write_varint(len(raw)) + raw


def pftrace(folder: Path) -> Path:
    """Write packets of track events: names interned, annotations by name, one stretch of packets compressed."""
    path = folder / "77_results.pftrace"
    notes = {n: i for i, n in enumerate(
        ("begin_ns", "end_ns", "agent", "corr_id", "queue", "grid_size", "workgroup_size", "LDS_Block_Size", "VGPR_Count"), 1)}  # fmt: skip
    interned = _field(1, _field(1, 1) + _field(2, "kernel_dispatch")) + b"".join(
        _field(3, _field(1, i) + _field(2, n)) for n, i in notes.items()
    )
    packets = [_field(10, 5) + _field(13, 1) + _field(12, interned)]
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        items = grid[0] * grid[1] * grid[2] * block[0]
        said = {"begin_ns": BOOT_NS + s, "end_ns": BOOT_NS + e, "agent": 4, "corr_id": i + 1, "queue": 1, "grid_size": items,
                "workgroup_size": block[0], "LDS_Block_Size": 1024, "VGPR_Count": 64}  # fmt: skip
        event = _field(3, 1) + _field(9, 1) + _field(23, name)
        event += b"".join(_field(4, _field(1, notes[k]) + _field(3, v)) for k, v in said.items())
        packets.append(_field(8, BOOT_NS + s) + _field(10, 5) + _field(11, event))
        packets.append(_field(8, BOOT_NS + e) + _field(10, 5) + _field(11, _field(9, 2)))
        call = _field(22, "hip_api") + _field(9, 1) + _field(23, "hipLaunchKernel")
        for k, v in {"begin_ns": BOOT_NS + s - 9000, "end_ns": BOOT_NS + s - 4000, "corr_id": i + 1}.items():
            call += _field(4, _field(10, k) + _field(3, v))
        packets.append(_field(10, 5) + _field(11, call))
    first = b"".join(_field(1, p) for p in packets[:4])
    rest = b"".join(_field(1, p) for p in packets[4:])
    path.write_bytes(first + _field(1, _field(50, zlib.compress(rest))))
    return path


def _stat(known: dict[str, int], name: str, value: str | float, *, kept: bool = False) -> bytes:
    """Return an XStat; ``kept``: its text stands among the names."""
    number = known.setdefault(name, len(known) + 1)
    if isinstance(value, float):
        return _field(1, number) + write_varint(2 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str) and kept:
        return _field(1, number) + _field(7, known.setdefault(value, len(known) + 1))
    return _field(1, number) + (_field(5, value) if isinstance(value, str) else _field(4, value))


def _xevent(metadata: int, start_ns: int, duration_ns: int, stats: Sequence[bytes]) -> bytes:
    timed = _field(1, metadata) + _field(2, start_ns * 1000) + _field(3, duration_ns * 1000)
    return timed + b"".join(_field(4, s) for s in stats)


def _hlo_shape(kind: int, *sizes: int) -> bytes:
    return _field(2, kind) + _field(3, b"".join(map(write_varint, sizes)))


def _hlo_instruction(number: int, name: str, opcode: str, shape: bytes, *, operands: Sequence[int] = (), path: str = "",
                     more: bytes = b"") -> bytes:  # fmt: skip
    raw = (
        _field(1, name) + _field(2, opcode) + _field(3, shape) + (_field(7, _field(2, path)) if path else b"")
    )
    return (
        raw
        + more
        + _field(35, number)
        + (_field(36, b"".join(map(write_varint, operands))) if operands else b"")
    )


def hlo_module() -> bytes:
    """Return an HloProto: a library's product of (128, 64) and (256, 64), and a reduction fused from it."""
    config = json.dumps({"gemm_backend_config": {"dot_dimension_numbers": {
        "lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["1"]}}})  # fmt: skip
    fused = [_hlo_instruction(11, "param_0", "parameter", _hlo_shape(11, 128, 256)),
             _hlo_instruction(12, "reduce.9", "reduce", _hlo_shape(11, 128), operands=(11,))]  # fmt: skip
    entry = [
        _hlo_instruction(1, "x", "parameter", _hlo_shape(16, 128, 64)),
        _hlo_instruction(2, "w", "parameter", _hlo_shape(16, 256, 64)),
        _hlo_instruction(3, "cublas-gemm.1.0", "custom-call", _hlo_shape(11, 128, 256), operands=(1, 2),
                         path="jit(f)/jit(main)/jvp(Model)/Dense_0/dot_general",
                         more=_field(28, "__cublas$gemm") + _field(43, config)),
        _hlo_instruction(4, "input_reduce_fusion.2", "fusion", _hlo_shape(11, 128), operands=(3,),
                         path="jit(f)/jit(main)/jvp(Model)/reduce_sum", more=_field(38, write_varint(7))),
    ]  # fmt: skip
    computations = [_field(1, "fused_reduce") + b"".join(_field(2, i) for i in fused) + _field(5, 7),
                    _field(1, "main.5") + b"".join(_field(2, i) for i in entry) + _field(5, 8)]  # fmt: skip
    return _field(1, _field(1, "jit_f") + b"".join(_field(3, c) for c in computations))


def xplane(folder: Path, *, nvidia: bool = True) -> Path:
    """Write a profile as XLA's CUPTI and ROCm collectors do: planes of modules, of a GPU, of the host, of the task."""
    path = folder / "host-1.xplane.pb"
    stats: dict[str, int] = {}
    names: dict[str, int] = {}
    events, calls = [], []
    host_stats: dict[str, int] = {}
    for i, (name, s, e, grid, block) in enumerate(LAUNCHES):
        instruction = "cublas-gemm.1.0" if i != 1 else "input_reduce_fusion.2"
        shape = f"grid:{grid[0]},{grid[1]},{grid[2]} block:{block[0]},{block[1]},{block[2]}"
        details = (f"regs:40 static_shared:1024 dynamic_shared:4096 {shape} occ_pct:50" if nvidia
                   else f" {shape} private_mem:0 group_mem:4096 occ_pct:0")  # fmt: skip
        said = [_stat(stats, "correlation_id", 100 + i), _stat(stats, "kernel_details", details, kept=True),
                _stat(stats, "hlo_op", instruction, kept=True), _stat(stats, "hlo_module", "jit_f", kept=True),
                _stat(stats, "program_id", 5)]  # fmt: skip
        if nvidia:
            said.insert(1, _stat(stats, "context_id", "$$1"))
        spelled = name if nvidia else f"{name}.kd"
        events.append(_xevent(names.setdefault(spelled, len(names) + 1), s, e - s, said))
        calls.append(_xevent(1, s - 9000, 5000, [_stat(host_stats, "correlation_id", 100 + i)]))
    copied = [_stat(stats, "correlation_id", 200),
              _stat(stats, "memcpy_details", "kind_src:pinned kind_dst:device size:4096 dest:0 async:1", kept=True)]  # fmt: skip
    copy = names.setdefault("MemcpyH2D", len(names) + 1)
    events.append(_xevent(copy, 1_700_000, 9_500, copied))
    calls.append(_xevent(2, 1_692_000, 5000, [_stat(host_stats, "correlation_id", 200)]))
    about = [_stat(stats, "device_vendor", "Nvidia" if nvidia else "AMD"), _stat(stats, "core_count", 108),
             _stat(stats, "clock_rate", 1_410_000), _stat(stats, "memory_size", 80 << 30),
             _stat(stats, "compute_cap_major", 8), _stat(stats, "compute_cap_minor", 0)]  # fmt: skip
    lines = [_field(1, 7) + _field(2, "Stream #7(Kernel,MemcpyH2D)") + b"".join(_field(4, e) for e in events)]
    if nvidia:
        about.append(_stat(stats, "gpu_device_name", "NVIDIA A100-SXM4-80GB"))
        power = names.setdefault("power_mw", len(names) + 1)
        read = [
            _xevent(power, 1_000_000 + 100_000 * i, 0, [_stat(stats, "power_mw", 300_000.0 + i)])
            for i in range(5)
        ]
        lines.append(_field(1, 99) + _field(2, "_counters_") + b"".join(_field(4, e) for e in read))
    module = _field(1, 5) + _field(2, "jit_f(5)") + _field(5, _field(1, 1) + _field(6, hlo_module()))
    begun = {"profile_start_time": 1}
    calls.append(_xevent(3, 900_000, 900_000, []))
    calls.append(_xevent(4, 800_000, 1_100_000, []))
    planes = [
        _xplane(1, "/host:metadata", [], {}, {"Hlo Proto": 1}, [_field(1, 5) + _field(2, module)]),
        _xplane(2, "/device:GPU:0", lines, names, stats, [], about),
        _xplane(3, "/host:CPU", [_field(1, 77) + _field(2, "Host Threads/77") + b"".join(_field(4, c) for c in calls)],
                {"cuLaunchKernel" if nvidia else "hipModuleLaunchKernel": 1, "cuMemcpyAsync": 2, "step 1": 3, "$train.py:1 main": 4},
                host_stats),
        _xplane(4, "Task Environment", [], {}, begun, [], [_stat(begun, "profile_start_time", EPOCH_NS)]),
    ]  # fmt: skip
    path.write_bytes(b"".join(_field(1, p) for p in planes) + _field(4, "secret-host-hunter2"))
    return path


def _xplane(number: int, name: str, lines: Sequence[bytes], names: dict[str, int], stats: dict[str, int],
            modules: Sequence[bytes] = (), about: Sequence[bytes] = ()) -> bytes:  # fmt: skip
    known = [_field(1, i) + _field(2, _field(1, i) + _field(2, n)) for n, i in names.items()]
    meant = [_field(1, i) + _field(2, _field(1, i) + _field(2, n)) for n, i in stats.items()]
    parts = [
        *((3, x) for x in lines),
        *((4, x) for x in (*modules, *known)),
        *((5, x) for x in meant),
        *((6, x) for x in about),
    ]
    return _field(1, number) + _field(2, name) + b"".join(_field(n, x) for n, x in parts)


def _debug(name: str, value: Any) -> bytes:
    """Return a debug annotation, as PyTorch's writer turns JSON into it."""
    named = _field(10, name) if name else b""
    if isinstance(value, list):
        return named + b"".join(_field(12, _debug("", v)) for v in value)
    if isinstance(value, dict):
        return named + b"".join(_field(11, _debug(k, v)) for k, v in value.items())
    if isinstance(value, float):
        return named + write_varint(5 << 3 | 1) + struct.pack("<d", value)
    return named + (_field(6, value) if isinstance(value, str) else _field(4, value))


def torch_pftrace(folder: Path, *, base_ns: int = EPOCH_NS) -> Path:
    """Write the events of :func:`kineto` as PyTorch's Perfetto export: groups of begins, then of ends."""
    path = folder / "run.pftrace"
    events: list[dict[str, Any]] = [e for e in kineto_events() if e.get("ph") == "X"]
    tracks = {key: i for i, key in enumerate(dict.fromkeys((e["pid"], e["tid"]) for e in events), 1)}
    names = {n: i for i, n in enumerate(dict.fromkeys(str(e["name"]) for e in events), 1)}
    packets = [
        _field(
            60,
            _field(1, i)
            + _field(4, _field(1, int(str(pid))) + _field(2, int(str(tid))) + _field(5, f"thread {tid}")),
        )
        for (pid, tid), i in tracks.items()
    ]
    interned = b"".join(_field(2, _field(1, i) + _field(2, n)) for n, i in names.items())
    packets.append(_field(10, 1) + _field(13, 1) + _field(12, interned))
    for category in ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "python_function"):
        group = [e for e in events if e["cat"] == category]
        for e in group:
            args = e.get("args") or ({"Record function id": 3} if category == "user_annotation" else {})
            event = _field(9, 1) + _field(11, tracks[e["pid"], e["tid"]]) + _field(10, names[str(e["name"])])
            if category == "cuda_runtime":
                event += write_varint(47 << 3 | 1) + struct.pack("<Q", 5)  # a flow
            event += b"".join(_field(4, _debug(k, v)) for k, v in args.items())
            at = base_ns + round(float(str(e["ts"])) * 1000)
            packets.append(_field(8, at) + _field(10, 1) + _field(13, 2) + _field(11, event))
        for e in group:
            at = base_ns + round(float(str(e["ts"])) * 1000) + round(float(str(e["dur"])) * 1000)
            packets.append(
                _field(8, at)
                + _field(10, 1)
                + _field(11, _field(9, 2) + _field(11, tracks[e["pid"], e["tid"]]))
            )
    path.write_bytes(gzip.compress(b"".join(_field(1, p) for p in packets)))
    return path


TRACES = (*TRACES, Sample("pftrace", pftrace), Sample("torch_pftrace", torch_pftrace), Sample("xplane", xplane),
          Sample("xplane", lambda f: xplane(f, nvidia=False)))  # fmt: skip
