"""``rocprof`` before version 3: one row per dispatch, in CSV, SQLite or JSON."""

from __future__ import annotations

import polars as pl

from tracetool.sources.rocm.dispatches import flat_launch, plain_names

_I, _S = pl.Int64(), pl.String()
#: Columns under the names that rocprof 1, rocprof 2 and the tools built on them give them.
DISPATCH: dict[str, tuple[list[str], pl.DataType]] = {
    "name": (["KernelName", "Kernel_Name", "Kernel-Name"], _S),
    "start_ns": (["BeginNs", "Start_Timestamp"], _I), "end_ns": (["EndNs", "End_Timestamp"], _I),
    "profiler_device": (["gpu-id", "GPU_ID"], _I), "stream": (["queue-id", "Queue_ID"], _I),
    "process": (["pid"], _I), "thread": (["tid"], _I), "items": (["grd", "Grid_Size"], _I),
    "block": (["wgr", "Workgroup_Size"], _I), "shared_dynamic_bytes": (["lds", "LDS_Per_Workgroup"], _I),
    "vgpr": (["arch_vgpr", "vgpr"], _I), "accum": (["accum_vgpr"], _I),
    "correlation": (["Correlation_ID"], _I), "launch_ns": (["DispatchNs"], _I),
}  # fmt: skip
SERIAL = "rocprof ran the kernels one after another: gaps and overlaps are the profiler's, not the program's"


def activities(frame: pl.DataFrame, place: str) -> pl.DataFrame:
    """Return activities from rows of :data:`DISPATCH` with ``row``.

    Notes
    -----
    The grid is the product of all axes, in work-items: it is kept as one axis of blocks.
    """
    return frame.with_columns(
        name=plain_names(frame["name"]),
        kind=pl.lit("kernel"),
        **flat_launch(),
        place=pl.format(f"{place} {{}}", "row"),
    ).drop("row", "items", "block", "vgpr", "accum")  # fmt: skip


def copy_name(column: str) -> pl.Expr:
    """Return the direction of a copy from ``CopyHostToDevice`` and the like."""
    text = pl.col(column).str.to_lowercase()
    return (
        pl.when(text.str.contains("hosttodevice|h2d|host_to_device")).then(pl.lit("HtoD"))
        .when(text.str.contains("devicetohost|d2h|device_to_host")).then(pl.lit("DtoH"))
        .when(text.str.contains("devicetodevice|d2d|device_to_device|copybuffer")).then(pl.lit("DtoD"))
        .when(text.str.contains("hosttohost|h2h|host_to_host")).then(pl.lit("HtoH"))
        .otherwise(pl.lit("copy"))
    )  # fmt: skip
