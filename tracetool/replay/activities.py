"""Device activities and host calls of a run as columns: what the replay reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.replay.dense_ids import dense, first_match

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
#: Host calls shorter than this cannot hide a wait worth modeling.
_LONG_CALL_NS: Final = 20_000
#: Synchronizing calls that return at once: they ask, or make a stream wait, not the host.
_NOT_BLOCKING: Final = r"(?i)Query|StreamWait"
_WORK: Final = ("launch", "graph_launch", "memcpy", "memset")


@dataclass(frozen=True)
class Activities:
    """Kernels, copies and sets, in the order of the run's table. Times from the first start. [ns]"""

    start_ns: Floats  # (n,)
    duration_ns: Floats  # (n,)
    device: Numbers  # (n,)
    queue: Numbers  # (n,) dense number of device, process, context and stream
    signature: Numbers  # (n,)
    call: Numbers  # (n,) row in HostCalls, -1 where the trace has none
    in_graph: Bools  # (n,) launched as a node of a graph
    origin_ns: int  # what start_ns is counted from, on the run's clock

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def devices(self) -> int:
        """How many devices worked."""
        alone = len(self) > 0 and bool((self.device == self.device[0]).all())
        return 1 if alone else len(np.unique(self.device))

    @cached_property
    def by_device(self) -> list[tuple[int, Ints | None]]:
        """Every device and its activities; None for all. See :func:`rows_of_devices`."""
        return rows_of_devices(self.device)

    @property
    def end_ns(self) -> Floats:
        """Recorded ends. Shape (n,). [ns]"""
        return np.asarray(self.start_ns + self.duration_ns)


def rows_of_devices(device: Numbers) -> list[tuple[int, Ints | None]]:
    """Return every device, rising, and its rows, rising; None where one device has all rows.

    >>> [(number, rows.tolist()) for number, rows in rows_of_devices(np.array([3, 0, 3]))]
    [(0, [1]), (3, [0, 2])]
    """
    if len(device) and (device == device[0]).all():
        return [(int(device[0]), None)]
    order = np.argsort(device, kind="stable")
    numbers, first = np.unique(device[order], return_index=True)
    return list(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(device) else []


@dataclass(frozen=True)
class HostCalls:
    """Calls that start device work or may wait for it. Times from the activities' origin. [ns]"""

    start_ns: Floats  # (m,)
    duration_ns: Floats  # (m,)
    process: Numbers  # (m,) dense
    thread: Numbers  # (m,) dense, unique across processes
    waits: Bools  # (m,) a synchronizing call by name
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
    activities = Activities(
        start_ns=(kernels["start_ns"] - origin).cast(pl.Float64).to_numpy(),
        duration_ns=kernels["duration_ns"].cast(pl.Float64).to_numpy(),
        device=kernels["device"].cast(pl.Int32).to_numpy(),
        queue=dense(
            [
                kernels["device"],
                *(_filled_by_device(kernels, c) for c in ("process", "context")),
                kernels["stream"],
            ]
        ),
        signature=kernels["signature"].cast(pl.Int32).to_numpy(),
        call=place,
        in_graph=kernels["graph_node"].is_not_null().to_numpy(),
        origin_ns=origin,
    )
    return activities, calls


def _filled_by_device(kernels: pl.DataFrame, column: str) -> pl.Series:
    """A column whose gaps are filled where its device has one value: profilers cut off early launches."""
    only = pl.when(pl.col(column).n_unique() <= 1 + pl.col(column).has_nulls()).then(pl.col(column).max())
    return kernels.select(pl.coalesce(column, only.over("device"))).to_series()


def _calls(kernels: pl.DataFrame, host_calls: pl.DataFrame, origin: int) -> tuple[HostCalls, Numbers]:
    """Return the calls that matter and each activity's place among them."""
    name, kind = pl.col("name"), pl.col("kind")
    blocking = (kind == "sync") & ~name.str.contains(_NOT_BLOCKING)
    call_rows = (
        host_calls.lazy()
        .filter((kind == "sync") | kind.is_in(_WORK) | (pl.col("duration_ns") >= _LONG_CALL_NS))
        .select(
            pl.col("start_ns") - origin,
            "duration_ns",
            "process",
            "thread",
            "correlation",
            blocking.alias("waits"),
            kind.is_in(["memcpy", "memset"]).alias("copies"),
            ((kind == "sync") & ~blocking & (pl.col("duration_ns") < _LONG_CALL_NS)).alias("asks"),
        )
        .filter(~pl.col("asks"))
        .drop("asks")
        .collect()
        .sort("start_ns", maintain_order=True)
    )
    # A driver call inside a runtime call may carry the same correlation: the outer one is the launch.
    key, call_keys = _joint(kernels, call_rows, "correlation")
    place = first_match(key, call_keys)
    alone = kernels["launch_ns"].is_not_null().to_numpy() & (place < 0)
    if alone.any():
        points = (
            kernels.select("process", pl.col("launch_ns").cast(pl.Int64) - origin)
            .filter(pl.Series(alone))
            .unique(maintain_order=True)
        )
        key, call_keys = _joint(
            kernels.with_columns(pl.col("launch_ns").cast(pl.Int64) - origin), points, "launch_ns"
        )
        point_rows = first_match(key, np.where(alone, call_keys, -1))
        place = np.where(point_rows >= 0, point_rows + call_rows.height, place).astype(np.int32)
        call_rows = pl.concat(
            [
                call_rows,
                points.select(
                    pl.col("launch_ns").alias("start_ns"),
                    pl.lit(0, pl.Int64).alias("duration_ns"),
                    "process",
                    pl.lit(None, pl.Int64).alias("thread"),
                    pl.lit(None, pl.Int64).alias("correlation"),
                    pl.lit(value=False).alias("waits"),
                    pl.lit(value=False).alias("copies"),
                ),
            ]
        )
    works = np.zeros(call_rows.height, np.bool_)
    works[place[place >= 0]] = True
    relevant_calls = HostCalls(
        start_ns=call_rows["start_ns"].cast(pl.Float64).to_numpy(),
        duration_ns=call_rows["duration_ns"].cast(pl.Float64).to_numpy(),
        process=dense([call_rows["process"]]),
        thread=dense([call_rows["process"], call_rows["thread"]]),
        waits=call_rows["waits"].to_numpy(),
        copies=call_rows["copies"].to_numpy(),
        works=works,
    )
    return relevant_calls, place


def _joint(kernels: pl.DataFrame, calls: pl.DataFrame, column: str) -> tuple[Ints, Ints]:
    """Number pairs of process and another column consistently in both tables; -1 where the column is null."""
    both = [pl.concat([calls[c].cast(pl.Int64), kernels[c].cast(pl.Int64)]) for c in ("process", column)]
    number = dense(both).astype(np.int64)
    number[both[1].is_null().to_numpy()] = -1
    return number[: calls.height], number[calls.height :]


#: An idle time must last this long, [ns] ...
_LONG_NS: Final = 10e9
#: ... and this many times what all activities take together, to be no part of a timeline. [1]
_TIMES_WORK: Final = 100.0


@dataclass(frozen=True)
class Pauses:
    """Unexplained idle time that was left out."""

    count: int = 0
    total_ns: float = 0.0


def without_pauses(work: Activities) -> tuple[Activities, Pauses]:
    """Return the activities with idle time closed that the trace does not explain.

    Only where no activity has a launch call: a host seen to be idle is idle. An idle time counts from 10 s
    on and if it is a hundred times as long as all activities together; a dataset of kernels from
    several moments looks like that, a program at work does not.
    """
    if not len(work) or (work.call >= 0).any():
        return work, Pauses()
    order = np.argsort(work.start_ns, kind="stable")
    until = np.maximum.accumulate(work.end_ns[order])
    pause = np.concatenate([[0.0], work.start_ns[order][1:] - until[:-1]])
    pause[pause < max(_LONG_NS, _TIMES_WORK * float(work.duration_ns.sum()))] = 0.0
    if not pause.any():
        return work, Pauses()
    start = work.start_ns.copy()
    start[order] -= np.cumsum(pause)
    return replace(work, start_ns=start), Pauses(int((pause > 0).sum()), float(pause.sum()))
