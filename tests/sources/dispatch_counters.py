"""Counters of rocprofv3 as it writes them, with values that are known by hand."""

# ruff: noqa: E501 - lines are written as the profiler writes them

from __future__ import annotations

from pathlib import Path

from tests.sources.makers import BOOT_NS, LAUNCHES

HEAD = (
    "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id",
    "Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count",
    "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp",
)  # fmt: skip
#: Counter and its values of the three launches.
BYTES = {"FETCH_SIZE": (1464.843750, 488.28125, 1220.703125), "WRITE_SIZE": (250.0, 3.90625, 125.0)}
WORK = {
    "SQ_INSTS_VALU_FMA_F32": (31250.0, 10.0, 31250.0), "SQ_INSTS_VALU_ADD_F32": (100.0, 20.0, 100.0),
    "SQ_INSTS_VALU_TRANS_F32": (7.0, 0.0, 7.0), "SQ_INSTS_VALU_MFMA_MOPS_BF16": (4096.0, 0.0, 4096.0),
}  # fmt: skip
#: Operations by hand: 64 work-items a wave, two for a fused multiply-add, 512 for a unit of matrix cores.
FLOPS = tuple(64 * (2 * f + a + t) + 512 * m for f, a, t, m in zip(*(WORK[c] for c in WORK), strict=True))


def counter_table(
    folder: Path, counters: dict[str, tuple[float, ...]], name: str = "77_counter_collection.csv"
) -> Path:
    """Write what rocprofv3 writes: a line for each dispatch and counter."""
    lines = [",".join(f'"{h}"' for h in HEAD)]
    for i, (kernel, start, end, grid, block) in enumerate(LAUNCHES):
        threads = block[0] * block[1] * block[2]
        items = grid[0] * grid[1] * grid[2] * threads
        for counter, values in counters.items():
            lines.append(
                f'{i + 1},{i + 1},"Agent 4",1,77,77,{items},9,"{kernel}",{threads},1024,0,64,32,48,"{counter}",'
                f"{values[i]:.6f},{BOOT_NS + 3 * start},{BOOT_NS + 3 * start + 2 * (end - start)}"
            )
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def work_and_bytes(folder: Path) -> Path:
    """Write a table of all counters that are read."""
    return counter_table(folder, BYTES | WORK)
