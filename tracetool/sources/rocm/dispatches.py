"""Kernel dispatches as the ROCm profilers write them, turned into activities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracetool.sources.columns import clean_text, each_distinct
from tracetool.sources.devices import DRIVER_INDEX, device_rows
from tracetool.sources.format import Clock

#: Nothing in this family says where the host's boot lies in UTC.
BOOT = Clock("boot", basis="nanoseconds since the host booted; the profiler stores no UTC anchor")
_ENDINGS = r"\s*(?:\[clone \.kd\]|\(\.kd\)|\.kd)\s*$"


def plain_names(names: pl.Series) -> pl.Series:
    """Return kernel names without the linker's endings and quotes, demangled; each distinct name once."""

    def plain(distinct: pl.Series) -> pl.Series:
        clean = distinct.to_frame("n").select(
            clean_text("n").str.strip_chars().str.strip_chars('"').str.replace(_ENDINGS, "")
        ).to_series()  # fmt: skip
        return pl.Series([demangled(n) for n in clean.to_list()], dtype=names.dtype)

    return each_distinct(names, plain)


def demangled(name: str) -> str:
    """Return a C++ name as written in the source; any other name as it is.

    >>> demangled("_Z3addPfS_"), demangled("Cijk_Ailk")
    ('add(float*, float*)', 'Cijk_Ailk')
    """
    if not name.startswith("_Z"):
        return name
    import pycxxfilt

    try:
        return pycxxfilt.demangle(name) or name
    except ValueError:
        return name


def blocks_from_items(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn grids of work-items, as all profilers of this family write them, into blocks."""
    counts = []
    for axis in "xyz":
        grid, block = pl.col(f"grid_{axis}"), pl.col(f"block_{axis}")
        stated = (grid > 0) & (block > 0)
        counts.append(pl.when(stated).then((grid - 1) // block + 1).alias(f"grid_{axis}"))
    return frame.with_columns(counts)


def number_devices(
    activities: pl.DataFrame, agents: Mapping[int, Mapping[str, Any]] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return activities with ``device`` and the GPUs used.

    Parameters
    ----------
    activities : DataFrame
        With ``profiler_device``: a node or agent number, in which CPUs are counted too.
    agents : mapping, optional
        That number to ``name``, ``compute_capability``, ``sm_count``, ``clock_max_mhz``, of every GPU of the
        host, where known.

    Notes
    -----
    Devices are numbered in the order of their agent numbers. The driver's tools count GPUs alone: theirs is
    the place among the GPUs' agents, and not known where the agents are not, unless a GPU has the number 0.
    """
    used = activities["profiler_device"].drop_nulls().unique().sort().to_list()
    facts = agents or {}
    rows = [{**facts.get(n, {}), "device": i, "profiler_device": n} for i, n in enumerate(used)]
    among_gpus = {n: i for i, n in enumerate(sorted(facts))} if facts else {n: n for n in used if 0 in used}
    devices = device_rows(rows).with_columns(
        clean_text("name"),
        pl.Series(DRIVER_INDEX, [among_gpus.get(n) for n in used], dtype=pl.Int64),
        vendor=pl.lit("amd"),
    )
    number = pl.col("profiler_device")
    place: pl.Expr
    if len(used) == 1:
        place = pl.when(number.is_not_null()).then(pl.lit(0, dtype=pl.Int32))
    else:
        place = number.replace_strict(used, list(range(len(used))), default=None, return_dtype=pl.Int32)
    return activities.with_columns(place.alias("device")).drop("profiler_device"), devices


def gfx_name(version: int | None) -> str | None:
    """Return the architecture of a ``gfx_target_version``.

    >>> gfx_name(90402), gfx_name(90010), gfx_name(None)
    ('gfx942', 'gfx90a', None)
    """
    if not version or version < 10_000:
        return None
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def flat_launch() -> dict[str, pl.Expr]:
    """Return grid, block and registers of launches known by products of their axes.

    They come from ``items`` (of the grid, in work-items), ``block`` (work-items), ``vgpr`` and ``accum``
    (vector registers of a thread); everything lies along x, null where either product is not known.
    """
    stated = (pl.col("items") > 0) & (pl.col("block") > 0)
    one = pl.when(stated).then(1)
    return {
        "grid_x": pl.when(stated).then((pl.col("items") - 1) // pl.col("block") + 1),
        "block_x": pl.when(stated).then(pl.col("block")),
        **dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), one),
        "registers_per_thread": pl.col("vgpr") + pl.col("accum").fill_null(0),
    }


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
