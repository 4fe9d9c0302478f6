"""Exports with counters in them, written as the profilers write them; the truth is known."""

from __future__ import annotations

import math
import random
import sqlite3
from pathlib import Path

from tests.sources.makers import nsys_tables, write_tables

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
