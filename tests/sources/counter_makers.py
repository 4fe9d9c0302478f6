"""Exports with counters in them, written as the profilers write them; the truth is known."""

# ruff: noqa: E501 - tables and statements are written as the tools write them

from __future__ import annotations

import math
import random
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from tests.sources.makers import (
    BOOT_NS,
    LAUNCHES,
    _field,
    nsys_tables,
    rocpd,
    write_tables,
)
from tests.varint import write_varint

Tables = dict[str, tuple[list[str], list[list[object]]]]
#: Names and order of a real set of metrics (Ampere, Nsight Systems 2023.4); all but clocks are percents.
METRICS = (
    "PCIe Write Requests to BAR1", "PCIe Read Requests to BAR1", "PCIe TX Throughput", "PCIe RX Throughput",
    "DRAM Write Throughput", "GPC Clock Frequency", "Pixel Warps In Flight", "SYS Clock Frequency",
    "Unallocated Warps in Active SMs", "GR Active", "Sync Compute In Flight", "Async Compute In Flight",
    "SM Active", "SM Issue", "Tensor Active", "Vertex/Tess/Geometry Warps In Flight",
    "Compute Warps In Flight", "DRAM Read Throughput",
)  # fmt: skip
GPUS = (
    ("GPU-5a0f3c11-0001-4a2b-8c3d-000000000001", "0000:01:00.0"),
    ("GPU-5a0f3c11-0002-4a2b-8c3d-000000000002", "0000:41:00.0"),
)
PERIOD_NS, READINGS = 100_000_000, 60


def milliwatts(gpu: int, reading: int) -> int:
    """Return what a GPU's averaged field reads: a slow swing, another one for each GPU."""
    return 350_000 + 90_000 * gpu + round(40_000 * math.sin(reading / 7.0 + gpu))


def celsius(gpu: int, reading: int) -> int:
    return 45 + 3 * gpu + reading // 20


def counter_tables(*, scopes: bool = True, unit: str = " [mW]") -> Tables:
    """Return an export with power and temperature of two GPUs, a disk's counter, and hardware metrics.

    Parameters
    ----------
    scopes : bool
        Whether a scope names the GPU; else only the order of the groups tells.
    unit : str
        What follows the name of the power column.
    """
    tables = nsys_tables()
    tables["TARGET_INFO_GPU"] = (
        tables["TARGET_INFO_GPU"][0],
        [[g, "NVIDIA H100 80GB HBM3", bus, uuid, 132, 1_980_000_000, 80 << 30, 9, 0, g]
         for g, (uuid, bus) in enumerate(GPUS)],
    )  # fmt: skip
    kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    for i in range(40):  # work for the whole log
        for device in range(2):
            copy = list(kernels[0])
            start = 150_000_000 * i + 2_000_000
            copy[0], copy[1], copy[2], copy[5] = start, start + 90_000_000, device, 1000 + 2 * i + device
            kernels.append(copy)
    power = f"Power{unit}"
    tables["NVTX_COUNTER_GROUPS"] = (
        ["domainId INTEGER", "counterGroupId INTEGER", "schemaId INTEGER", "name TEXT", "scopeId INTEGER"],
        [[3, 100, 16777217, "NVML metrics", 11], [3, 101, 16777217, "NVML metrics", 12],
         [0, 7, 16777300, "", 5]],
    )  # fmt: skip
    tables["NVTX_PAYLOAD_SCHEMAS"] = (
        ["domainId INTEGER", "schemaId INTEGER", "name TEXT"],
        [[3, 16777217, "GPU power and temperature"], [0, 16777300, "Throughput Counter Group Schema"]],
    )
    tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = (
        ["domainId INTEGER", "schemaId INTEGER", "idx INTEGER", "name TEXT", "description TEXT"],
        [[3, 16777217, 0, power, "nvmlDeviceGetPowerUsage"], [3, 16777217, 1, "Temperature [C]", None],
         [0, 16777300, 0, "Read", None], [0, 16777300, 1, "Write", None]],
    )  # fmt: skip
    paths = [[3, 11 + g, f"GPUs/{uuid} (0000{bus})"] for g, (uuid, bus) in enumerate(GPUS)] if scopes else []
    tables["NVTX_SCOPES"] = (
        ["domainId INTEGER", "scopeId INTEGER", "path TEXT"], [*paths, [0, 5, "Mounts/scratch"]]
    )  # fmt: skip
    for gpu in range(2):
        tables[f"NVTX_COUNTER_SAMPLES_3_{100 + gpu}"] = (
            ["timestamp INTEGER", f'"{power}" INTEGER', '"Temperature [C]" INTEGER'],
            [[PERIOD_NS * i + 777 * gpu, milliwatts(gpu, i), celsius(gpu, i)] for i in range(READINGS)],
        )
    tables["NVTX_COUNTER_SAMPLES_0_7"] = (
        ["timestamp INTEGER", "Read INTEGER", "Write INTEGER"], [[i * 1000, i, 2 * i] for i in range(25)]
    )  # fmt: skip
    tables["NET_NIC_METRIC"] = (
        ["start INTEGER", "end INTEGER", "value INTEGER"],
        [[i, i + 1, i] for i in range(12)],
    )
    return tables | metric_tables()


def metric_tables(samples: int = 50) -> Tables:
    """Return tables of hardware metrics of one GPU, every 100 us."""
    kind = 281479271677952
    names = [[kind, kind, "", i, name] for i, name in enumerate(METRICS)]
    rows: list[list[object]] = []
    for i in range(samples):
        for number, name in enumerate(METRICS):
            value = (i * 7 + number * 5) % 51
            if name == "GPC Clock Frequency":
                hertz = 1_980_000_000 if i % 2 else 2_520_000_000
                value = hertz - (1 << 32) if hertz >= 1 << 31 else hertz
            rows.append([100_000 * i, kind, number, value])
    return {
        "TARGET_INFO_GPU_METRICS": (
            ["typeId INTEGER", "sourceId INTEGER", "typeName TEXT", "metricId INTEGER", "metricName TEXT"],
            names,
        ),
        "GPU_METRICS": (
            ["timestamp INTEGER", "typeId INTEGER", "metricId INTEGER", "value INTEGER"],
            rows,
        ),
    }


def with_counters(folder: Path, **options: object) -> Path:
    """Write an export with counters."""
    return write_tables(folder / "run.sqlite", counter_tables(**options))  # type: ignore[arg-type]


def tied_tables() -> Tables:
    """Return an export many of whose rows share their times, in all that has rows."""
    tables = counter_tables()
    kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]
    for row in kernels[:3]:
        for change in ({4: 14, 5: 1400}, {4: 15, 5: 1500}, {6: 8 << 24}, {2: 1}, {1: row[1] + 5, 5: 900}):  # type: ignore[operator]
            kernels.append([change.get(i, cell) for i, cell in enumerate(row)])
        other = 3 - row[7]  # type: ignore[operator]
        kernels.append([{5: 950, 7: other, 8: other}.get(i, cell) for i, cell in enumerate(row)])
    calls = tables["CUPTI_ACTIVITY_KIND_RUNTIME"][1]
    first = [list(r) for r in calls[:3]]
    who = (8 << 24) | 8
    calls += [[s, e, w + 1, c + 1400, n] for s, e, w, c, n in first]  # type: ignore[operator]
    calls += [[s, e, who, c, n] for s, e, _, c, n in first]
    thread = first[0][2]
    ranges = ((59, "b"), (60, "c"), (59, "a"))
    tables["NVTX_EVENTS"][1].extend(
        [*([900_000, 1_600_000, kind, name, None, thread] for kind, name in ranges),
         *([980_000, 1_000_000, 59, f"aten::{op}, seq = 5, op_id = {i}, sizes = [[{i}, 64]]", None, thread]
           for i, op in enumerate(("add", "mm", "add"), 9))]
    )  # fmt: skip
    return tables


def shuffle(path: Path, seed: int) -> None:
    """Put the rows of every table of a database into another order."""
    rng = random.Random(seed)
    db = sqlite3.connect(path)
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        rows = db.execute(f'SELECT * FROM "{name}"').fetchall()
        rng.shuffle(rows)
        db.execute(f'DELETE FROM "{name}"')
        if rows:
            db.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
    db.commit()
    db.close()


#: What rocprof-sys polls, by its name in databases: unit, and value at a reading of a GPU.
POLLED = {
    "device_power": ("W", lambda gpu, i: 410.0 + 35 * gpu + (i % 5)),
    "device_temp": ("\u00b0C", lambda gpu, i: 51.0 + gpu + i // 4),
    "device_busy_gfx": ("%", lambda gpu, i: float((i * 13 + gpu) % 101)),
    "device_busy_umc": ("%", lambda gpu, i: float(i % 7)),
    "device_memory_usage": ("MB", lambda gpu, i: 900.0 + i),
}  # fmt: skip
POLLS, POLL_NS = 12, 100_000_003


def rocpd_with_counters(folder: Path, *, views: bool = False) -> Path:
    """Return a database of two processes, each with a GPU that was polled and counters of its dispatches."""
    path = rocpd(folder, views=views)
    with closing(sqlite3.connect(path)) as db, db:
        for p, guid in enumerate(("0a-1", "0b-2")):
            end = guid.replace("-", "_")
            db.execute(
                f"CREATE TABLE rocpd_info_pmc_{end} (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,"
                " agent_id INTEGER, target_arch TEXT, event_code INTEGER, instance_id INTEGER, name TEXT,"
                " symbol TEXT, description TEXT, units TEXT, value_type TEXT)"
            )
            db.execute(
                f"CREATE TABLE rocpd_pmc_event_{end} (id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER,"
                " pmc_id INTEGER, value REAL, extdata JSONB DEFAULT '{}')"
            )
            db.execute(
                f"CREATE TABLE rocpd_sample_{end} (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER,"
                " timestamp BIGINT, event_id INTEGER, extdata JSONB DEFAULT '{}')"
            )
            numbers = {name: 5 + i for i, name in enumerate([*POLLED, "SQ_WAVES"])}
            for name, number in numbers.items():
                unit = POLLED[name][0] if name in POLLED else None
                db.execute(
                    f"INSERT INTO rocpd_info_pmc_{end} VALUES (?,?,1,1,2,'GPU',0,0,?,?,'',?,'ABS')",
                    (number, guid, name, name, unit),
                )
            row = 1
            for i in range(POLLS):
                event = 1000 + i
                for track, (name, (_, value)) in enumerate(POLLED.items()):
                    db.execute(
                        f"INSERT INTO rocpd_pmc_event_{end} (id, guid, event_id, pmc_id, value) VALUES (?,?,?,?,?)",
                        (row, guid, event, numbers[name], value(p, i)),
                    )
                    db.execute(
                        f"INSERT INTO rocpd_sample_{end} (id, guid, track_id, timestamp, event_id) VALUES (?,?,?,?,?)",
                        (row, guid, track, BOOT_NS + POLL_NS * i, event),
                    )
                    row += 1
            db.execute(  # a counter of the first dispatch: no sample refers to its event
                f"INSERT INTO rocpd_pmc_event_{end} (id, guid, event_id, pmc_id, value) VALUES (?,?,1,?,64.0)",
                (row, guid, numbers["SQ_WAVES"]),
            )
    db.close()
    return path


#: Counter tracks as releases call them: power, and one that is not read.
TRACK_NAMES = (
    ("GPU Power [{}] (S)", "CPU Frequency [{}] (S)"),
    ("GPU [{}] Current Power (S)", "GPU [{}] UMC Busy (S)"),
    ("[GPU {}] Power", "[GPU {}] Memory Usage"),
)
_POWER_TRACK, _OTHER_TRACK, _KERNEL_TRACK, _THREAD_CLOCK = 900, 950, 800, 64


def _double(number: int, value: float) -> bytes:
    return write_varint(number << 3 | 1) + struct.pack("<d", value)


def _counter_track(uuid: int, name: str, unit: str, **more: int) -> bytes:
    described = b"".join(_field({"step": 4, "adds": 5}[k], v) for k, v in more.items())
    return _field(60, _field(1, uuid) + _field(2, name) + _field(8, described + _field(6, unit)))


def systems_pftrace(folder: Path, names: tuple[str, str] = TRACK_NAMES[0], *, kernels: bool = True) -> Path:
    """Write packets as Perfetto's library writes those of rocprof-sys: times count from packet to packet."""
    path = folder / "perfetto-trace-0.proto"
    clocks = _field(1, _field(1, 6) + _field(2, BOOT_NS)) + _field(
        1, _field(1, _THREAD_CLOCK) + _field(2, 0) + _field(3, 1)
    )
    defaults = _field(58, _THREAD_CLOCK) + _field(11, _field(11, 1))
    interned = _field(1, _field(1, 1) + _field(2, "rocm_kernel_dispatch"))
    interned += _field(1, _field(1, 2) + _field(2, "device_power"))
    packets = [
        _field(10, 5) + _field(13, 1) + _field(59, defaults) + _field(6, clocks),
        _field(10, 5) + _field(12, interned),
    ]
    for gpu in range(2):
        packets.append(_field(10, 5) + _counter_track(_POWER_TRACK + gpu, names[0].format(gpu), "watts"))
        packets.append(_field(10, 5) + _counter_track(_OTHER_TRACK + gpu, names[1].format(gpu), "%"))
        track = _field(1, _KERNEL_TRACK + gpu) + _field(2, f"GPU Kernel Dispatch [{gpu}] Queue 3")
        packets.append(_field(10, 5) + _field(60, track))
    for i, (name, start, end, grid, block) in enumerate(LAUNCHES if kernels else ()):
        for gpu in range(2):
            items = ",".join(str(g * b) for g, b in zip(grid, block, strict=True))
            event = _field(3, 1) + _field(9, 1) + _field(23, name) + _field(11, _KERNEL_TRACK + gpu)
            said = {"begin_ns": BOOT_NS + start, "end_ns": BOOT_NS + end, "corr_id": 2 * i + gpu, "queue": 3}
            event += b"".join(_field(4, _field(10, k) + _field(3, v)) for k, v in said.items())
            for key, text in (("grid_size", items), ("workgroup_size", ",".join(map(str, block)))):
                event += _field(4, _field(10, key) + _field(6, f"({text})"))
            packets.append(_field(10, 5) + _field(8, 0) + _field(11, event))
    for i in range(POLLS):
        for gpu in range(2):
            value = POLLED["device_power"][1](gpu, i)
            event = _field(3, 2) + _field(9, 4) + _field(11, _POWER_TRACK + gpu) + _double(44, value)
            packets.append(_field(10, 5) + _field(8, POLL_NS if i and not gpu else 0) + _field(11, event))
            event = _field(9, 4) + _field(11, _OTHER_TRACK + gpu) + _field(30, i)
            packets.append(_field(10, 5) + _field(8, 0) + _field(11, event))
    path.write_bytes(b"".join(_field(1, p) for p in packets))
    return path
