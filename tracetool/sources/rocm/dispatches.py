"""Kernel dispatches as the ROCm profilers write them, turned into activities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracetool.sources.columns import clean_text, each_distinct
from tracetool.sources.devices import device_rows
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
    made = []
    for axis in "xyz":
        grid, block = pl.col(f"grid_{axis}"), pl.col(f"block_{axis}")
        known = (grid > 0) & (block > 0)
        made.append(pl.when(known).then((grid - 1) // block + 1).alias(f"grid_{axis}"))
    return frame.with_columns(made)


def number_devices(
    activities: pl.DataFrame, agents: Mapping[int, Mapping[str, Any]] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return activities with ``device`` and the GPUs used.

    Parameters
    ----------
    activities : DataFrame
        With ``profiler_device``: a node or agent number, in which CPUs are counted too.
    agents : mapping, optional
        That number to ``name``, ``compute_capability``, ``sm_count``, ``clock_max_mhz``, where known.

    Notes
    -----
    Devices are numbered in the order of their agent numbers.
    """
    used = activities["profiler_device"].drop_nulls().unique().sort().to_list()
    facts = agents or {}
    rows = [{**facts.get(n, {}), "device": i, "profiler_device": n} for i, n in enumerate(used)]
    devices = device_rows(rows).with_columns(clean_text("name"), vendor=pl.lit("amd"))
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
    known = (pl.col("items") > 0) & (pl.col("block") > 0)
    one = pl.when(known).then(1)
    return {
        "grid_x": pl.when(known).then((pl.col("items") - 1) // pl.col("block") + 1),
        "block_x": pl.when(known).then(pl.col("block")),
        **dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), one),
        "registers_per_thread": pl.col("vgpr") + pl.col("accum").fill_null(0),
    }
