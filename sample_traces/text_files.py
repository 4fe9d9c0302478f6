"""Write a rocprofv3 kernel trace and an nvidia-smi power log."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sensor import Readings
from timeline import Timeline

ROCPROF_COLUMNS = (
    "Kind",
    "Agent_Id",
    "Queue_Id",
    "Stream_Id",
    "Thread_Id",
    "Dispatch_Id",
    "Kernel_Id",
    "Kernel_Name",
    "Correlation_Id",
    "Start_Timestamp",
    "End_Timestamp",
    "LDS_Block_Size",
    "Scratch_Size",
    "VGPR_Count",
    "Accum_VGPR_Count",
    "SGPR_Count",
    "Workgroup_Size_X",
    "Workgroup_Size_Y",
    "Workgroup_Size_Z",
    "Grid_Size_X",
    "Grid_Size_Y",
    "Grid_Size_Z",
)


def write_rocprof(timeline: Timeline, path: Path, *, boot_ns: int) -> None:
    """Write ``*_kernel_trace.csv``; times are ns since boot, grids are in work-items."""
    numbers: dict[str, int] = {}
    with path.open("w", newline="", encoding="utf-8") as handle:
        out = csv.writer(handle, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        out.writerow(ROCPROF_COLUMNS)
        for number, launch in enumerate(timeline.launches, start=1):
            k = launch.kernel
            grid = [g * b for g, b in zip(k.grid, k.block, strict=True)]
            out.writerow(
                [
                    "KERNEL_DISPATCH",
                    "Agent 2",
                    1,
                    1,
                    60_114,
                    number,
                    numbers.setdefault(k.name, len(numbers) + 1),
                    k.name,
                    number,
                    boot_ns + launch.start_ns,
                    boot_ns + launch.end_ns,
                    k.shared_static + k.shared_dynamic,
                    0,
                    min(k.registers, 256),
                    0,
                    112,
                    *k.block,
                    *grid,
                ]
            )


def write_nvidia_smi(readings: Readings, timeline: Timeline, path: Path, *, utc_ns: int, zone_h: int) -> None:
    """Write ``nvidia-smi --query-gpu=... --format=csv``: local time without a zone; job starts at ``utc_ns``."""
    lines = _lines(readings, timeline, utc_ns, zone_h)
    path.write_text("\n".join([", ".join(_fields(readings)), *lines]) + "\n", "utf-8")


def write_nvidia_smi_gpus(
    gpus: list[tuple[Readings, Timeline]], path: Path, *, utc_ns: int, zone_h: int
) -> None:
    """Write the log of a host's GPUs, polled one after another, with their index."""
    each = [_lines(readings, timeline, utc_ns, zone_h) for readings, timeline in gpus]
    lines = [
        line.replace(", ", f", {number}, ", 1)
        for polled in zip(*each, strict=False)
        for number, line in enumerate(polled)
    ]
    header = ", ".join(_fields(gpus[0][0])).replace("timestamp", "timestamp, index")
    path.write_text("\n".join([header, *lines]) + "\n", "utf-8")


def _fields(readings: Readings) -> list[str]:
    fields = ["timestamp", "power.draw [W]"]
    if readings.average_w is not None:
        fields.append("power.draw.instant [W]")
    return [*fields, "clocks.current.sm [MHz]", "clocks.current.memory [MHz]", "utilization.gpu [%]"]


def _lines(readings: Readings, timeline: Timeline, utc_ns: int, zone_h: int) -> list[str]:
    machine = timeline.machine
    origin = datetime.fromtimestamp(utc_ns // 10**9, UTC) + timedelta(
        hours=zone_h, microseconds=utc_ns % 10**9 / 1e3
    )
    lines = []
    for row, seconds in enumerate(readings.time_s):
        stamp = origin + timedelta(seconds=float(seconds))
        clock = machine.clock_mhz if readings.busy[row] else machine.idle_clock_mhz
        watts = [f"{readings.instant_w[row]:.2f} W"]
        if readings.average_w is not None:
            watts.insert(0, f"{readings.average_w[row]:.2f} W")
        lines.append(
            ", ".join(
                [
                    f"{stamp:%Y/%m/%d %H:%M:%S}.{stamp.microsecond // 1000:03d}",
                    *watts,
                    f"{clock} MHz",
                    f"{machine.mem_clock_mhz} MHz",
                    f"{readings.busy[row]:.0f} %",
                ]
            )
        )
    return lines
