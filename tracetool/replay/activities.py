"""Device activities and host calls of a run as columns: what the replay reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.vocabulary.arrays import Bools, Floats, Ints

#: Columns of ``kernels`` the replay needs; reading no others keeps ten million rows small.
KERNEL_COLUMNS: Final = (
    "start_ns",
    "duration_ns",
    "device",
    "stream",
    "context",
    "process",
    "kind",
    "correlation",
    "launch_ns",
    "graph_node",
    "operator",
    "range",
    "signature",
)
#: Host calls shorter than this cannot hide a wait worth modelling.
_LONG_CALL_NS: Final = 20_000
#: Synchronising calls that return at once: they ask, or make a stream wait, not the host.
_NOT_BLOCKING: Final = r"(?i)Query|StreamWait"
_WORK: Final = ("launch", "graph_launch", "memcpy", "memset")


@dataclass(frozen=True)
class Activities:
    """Kernels, copies and sets, in the order of the run's table. Times from the first start. [ns]"""

    start_ns: Floats  # (n,)
    duration_ns: Floats  # (n,)
    device: Ints  # (n,)
    queue: Ints  # (n,) dense number of device, process, context and stream
    signature: Ints  # (n,)
    call: Ints  # (n,) row in HostCalls, -1 where the trace has none
    in_graph: Bools  # (n,) launched as a node of a graph
    origin_ns: int  # what start_ns is counted from, on the run's clock

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Floats:
        """Recorded ends. Shape (n,). [ns]"""
        return np.asarray(self.start_ns + self.duration_ns)


@dataclass(frozen=True)
class HostCalls:
    """Calls that start device work or may wait for it. Times from the activities' origin. [ns]"""

    start_ns: Floats  # (m,)
    duration_ns: Floats  # (m,)
    process: Ints  # (m,) dense
    thread: Ints  # (m,) dense, unique across processes
    waits: Bools  # (m,) a synchronising call by name
    copies: Bools  # (m,) a copy or set, which may return only once it is done
    works: Bools  # (m,) starts device work

    def __len__(self) -> int:
        return len(self.start_ns)


def read_activities(kernels: pl.DataFrame, host_calls: pl.DataFrame) -> tuple[Activities, HostCalls]:
    """Return the activities of a run and the host calls that matter to them.

    Parameters
    ----------
    kernels : DataFrame, shape (n, columns)
        The run's ``kernels`` table, at least ``KERNEL_COLUMNS``.
    host_calls : DataFrame, shape (m, columns)
        The run's ``host_calls`` table, may be empty.

    Notes
    -----
    An activity finds its call by process and correlation. Where the run kept only the moment of the
    launch, that moment stands for a call of its own on one host thread per process.
    """
    origin = int(kernels["start_ns"].min() or 0)  # type: ignore[arg-type]
    calls, place = _calls(kernels, host_calls, origin)
    queue = kernels.select(
        pl.struct(pl.col("device", "process", "context", "stream")).rank("dense").cast(pl.Int64)
    ).to_series()
    made = Activities(
        start_ns=(kernels["start_ns"] - origin).cast(pl.Float64).to_numpy(),
        duration_ns=kernels["duration_ns"].cast(pl.Float64).to_numpy(),
        device=kernels["device"].cast(pl.Int64).to_numpy(),
        queue=queue.to_numpy() - 1,
        signature=kernels["signature"].to_numpy(),
        call=place,
        in_graph=kernels["graph_node"].is_not_null().to_numpy(),
        origin_ns=origin,
    )
    return made, calls


def _calls(kernels: pl.DataFrame, host_calls: pl.DataFrame, origin: int) -> tuple[HostCalls, Ints]:
    """Return the calls that matter and each activity's place among them."""
    keyed = kernels.select("process", "correlation", "launch_ns")
    known = keyed.filter(pl.col("correlation").is_not_null()).select("process", "correlation").unique()
    blocking = (pl.col("kind") == "sync") & ~pl.col("name").str.contains(_NOT_BLOCKING)
    kept = (
        host_calls.with_columns(blocking.alias("waits"))
        .filter(pl.col("waits") | pl.col("kind").is_in(_WORK) | (pl.col("duration_ns") >= _LONG_CALL_NS))
        .select("start_ns", "duration_ns", "process", "thread", "kind", "correlation", "waits")
    )
    # A driver call inside a runtime call may carry the same correlation: the outer one is the launch.
    first = (
        kept.with_row_index("_row")
        .join(known, on=["process", "correlation"], how="semi", nulls_equal=True)
        .sort("start_ns", maintain_order=True)
        .unique(["process", "correlation"], keep="first", maintain_order=True)
        .select("process", "correlation", "_row")
    )
    place = (
        keyed.select("process", "correlation")
        .join(first, on=["process", "correlation"], how="left", nulls_equal=True, maintain_order="left")[
            "_row"
        ]
        .cast(pl.Int64)
        .fill_null(-1)
    )
    alone = keyed.filter((place < 0) & pl.col("launch_ns").is_not_null())
    if alone.height:
        points = alone.select("process", "launch_ns").unique(maintain_order=True)
        extra = points.select(
            pl.col("launch_ns").alias("start_ns"),
            pl.lit(0, pl.Int64).alias("duration_ns"),
            "process",
            pl.lit(None, pl.Int64).alias("thread"),
            pl.lit("launch").alias("kind"),
            pl.lit(None, pl.Int64).alias("correlation"),
            pl.lit(value=False).alias("waits"),
        )
        numbered = points.with_columns((pl.int_range(pl.len()) + kept.height).alias("_row"))
        found = keyed.join(
            numbered, on=["process", "launch_ns"], how="left", nulls_equal=True, maintain_order="left"
        )["_row"]
        place = pl.select(pl.when(place >= 0).then(place).otherwise(found.fill_null(-1))).to_series()
        kept = pl.concat([kept, extra])
    works = np.zeros(kept.height, np.bool_)
    at = place.to_numpy()
    works[at[at >= 0]] = True
    dense = kept.select(
        pl.col("process").rank("dense").fill_null(0).cast(pl.Int64),
        pl.struct(pl.col("process", "thread")).rank("dense").fill_null(0).cast(pl.Int64).alias("thread"),
    )
    made = HostCalls(
        start_ns=(kept["start_ns"] - origin).cast(pl.Float64).to_numpy(),
        duration_ns=kept["duration_ns"].cast(pl.Float64).to_numpy(),
        process=dense["process"].to_numpy(),
        thread=dense["thread"].to_numpy(),
        waits=kept["waits"].to_numpy(),
        copies=kept["kind"].is_in(["memcpy", "memset"]).to_numpy(),
        works=works,
    )
    return made, at
