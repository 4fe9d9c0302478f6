"""Write a timeline as an Nsight Systems SQLite export (schema 3.16, 28 kernel columns)."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from timeline import Timeline

PID, TID, MACHINE_BITS = 41_337, 41_337, 1 << 48
COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
  cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
  gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
  localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
  sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
  copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER,
  srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER,
  virtualAddress INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
  start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
  nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (
  start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
  text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
  int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER,
  jsonText TEXT, binaryData TEXT);
CREATE TABLE TARGET_INFO_GPU (
  vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER,
  totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT,
  luid INTEGER, chipName TEXT, cuDevice INTEGER, maxShmemPerSm INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER,
  maxBlocksPerSm INTEGER, computeMajor INTEGER, computeMinor INTEGER, smMajor INTEGER, smMinor INTEGER);
CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (
  nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, parentContextId INTEGER, isGreenContext INTEGER);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS (
  globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
"""


def write_nsys(timeline: Timeline, path: Path, *, utc_ns: int, lead_ns: int, zone_h: int) -> None:
    """Write the export; the session starts ``lead_ns`` before the job, at ``utc_ns`` (UTC).

    The machine's local time is ``zone_h`` hours from UTC, as its power log is.
    """
    path.unlink(missing_ok=True)
    strings: dict[str, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings) + 1)

    global_pid = MACHINE_BITS | (PID << 24)
    global_tid = global_pid | TID
    kernels, copies, calls, ranges = [], [], [], []
    for number, launch in enumerate(timeline.launches, start=1):
        k = launch.kernel
        times = (launch.start_ns + lead_ns, launch.end_ns + lead_ns)
        copying = k.activity == "memcpy"
        if copying:
            source, target = (0, 1) if k.copy_kind == "HtoD" else (1, 0)
            copies.append(
                (
                    *times,
                    0,
                    1,
                    None,
                    7,
                    number,
                    global_pid,
                    round(k.traffic_bytes),
                    COPY_KINDS[k.copy_kind],
                    None,
                    source,
                    2 * target,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                )
            )
        else:
            kernels.append(
                (
                    *times,
                    0,
                    1,
                    None,
                    7,
                    number,
                    global_pid,
                    text(k.name),
                    text(k.short_name),
                    None,
                    1,
                    None,
                    k.registers,
                    *k.grid,
                    *k.block,
                    k.shared_static,
                    k.shared_dynamic,
                    0,
                    0,
                    number,
                    None,
                    None,
                    None,
                )
            )
        call = "cudaMemcpyAsync_v3020" if copying else "cudaLaunchKernelExC_v11060"
        span = (launch.call_ns + lead_ns, launch.call_end_ns + lead_ns)
        calls.append((*span, 1, global_tid, number, text(call), 0, None))
        if k.operator:
            sizes = ", ".join("[" + ", ".join(map(str, d)) + "]" for d in k.dims)
            marked = f"{k.operator}, sizes = [{sizes}]" if k.dims else k.operator
            ranges.append((span[0] - 1_500, span[1] + 700, 59, global_tid, text(marked)))
    ranges += [
        (s.start_ns + lead_ns, s.end_ns + lead_ns, 59, global_tid, text(s.text)) for s in timeline.spans
    ]
    start = datetime.fromtimestamp(utc_ns // 10**9, UTC)
    local = start + timedelta(hours=zone_h)
    machine = timeline.machine
    facts = machine.facts
    database = sqlite3.connect(path)
    with database:
        database.execute("PRAGMA page_size = 4096")
        database.executescript(TABLES)
        put = database.executemany
        put(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 28)})", kernels)
        put(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({','.join('?' * 20)})", copies)
        put("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?,?,?,?)", calls)
        put(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId) VALUES (?,?,?,?,?,0)",
            sorted(ranges),
        )
        put("INSERT INTO StringIds VALUES (?,?)", [(n, v) for v, n in strings.items()])
        put(
            f"INSERT INTO TARGET_INFO_GPU VALUES ({','.join('?' * 23)})",
            [
                (
                    MACHINE_BITS,
                    0,
                    machine.device_name,
                    "0000:1b:00.0",
                    1,
                    facts["l2CacheSize"],
                    facts["totalMemory"],
                    facts["memoryBandwidth"],
                    facts["clockRate"],
                    machine.sm_count,
                    0,
                    "5a3e0000-0000-0000-0000-00000000beef",
                    0,
                    "GH100",
                    0,
                    facts["maxShmemPerSm"],
                    32,
                    64,
                    32,
                    facts["computeMajor"],
                    facts["computeMinor"],
                    facts["computeMajor"],
                    facts["computeMinor"],
                )
            ],
        )
        put(
            "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (?,?,?,?,?,?,?,?)",
            [(0, 0, MACHINE_BITS, PID, 0, 1, None, 0)],
        )
        put(
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?,?,?)",
            [(utc_ns, start.strftime("%Y-%m-%dT%H:%M:%S"), local.strftime("%Y-%m-%dT%H:%M:%S"))],
        )
        span_ns = timeline.end_ns + 2 * lead_ns
        put(
            "INSERT INTO ANALYSIS_DETAILS VALUES (?,?,?,?)",
            [(MACHINE_BITS, span_ns, 4 * 10**9, 4 * 10**9 + span_ns)],
        )
        put("INSERT INTO PROCESSES VALUES (?,?,?)", [(global_pid, PID, "python3")])
        put(
            "INSERT INTO META_DATA_EXPORT VALUES (?,?)",
            [
                ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
                ("EXPORT_PRODUCT_VERSION", "2024.6.2.225"),
                ("EXPORT_SCHEMA_VERSION", "3.16.1"),
                ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
                ("EXPORT_SCHEMA_VERSION_MINOR", "16"),
                ("EXPORT_SCHEMA_VERSION_MICRO", "1"),
                ("EXPORT_PLATFORM", "linux-desktop"),
                ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
                ("EXPORT_PARAM_TIME_SHIFT", "0"),
                ("EXPORT_CONFIG_TIME_SHIFT", "0"),
                ("EXPORT_COMMENT", "synthetic: written by sample_traces/make.py, not by Nsight Systems"),
            ],
        )
        put(
            "INSERT INTO META_DATA_CAPTURE VALUES (?,?)",
            [("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node")],
        )
    database.execute("VACUUM")
    database.close()
