"""Traces and logs of planted runs read without the tool: kernels, idle times, waits, replays.

Timelines are one stream a rank: each launch after the
one before, collectives when the last rank has come.
"""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats

LONG_MS = 1e3
#: The sensor of the logs: its window, and how often a line is written. [ms]
WINDOW_MS, POLL_MS = 25.0, 20.0
WAITING, EXPOSED = "waiting for ranks", "exposed communication"
COLLECTIVE = "nccl"


@dataclass(frozen=True)
class Raw:
    """Kernels of each rank as its trace has them, and the lines of the power log. [ms], [W], [MHz]"""

    ranks: list[pl.DataFrame]
    log: pl.DataFrame

    @cached_property
    def span_ms(self) -> float:
        ends = [(rank["start"].min(), rank["end"].max()) for rank in self.ranks]
        return float(max(e for _, e in ends) - min(s for s, _ in ends))  # type: ignore[type-var, operator]

    def gaps(self, cause: str) -> Floats:
        """Return the idle times of all ranks that have a cause. [ms]"""
        return np.concatenate([gaps_of(rank)[caused(rank, cause)] for rank in self.ranks])

    def waits(self) -> Floats:
        """Return what each collective of each rank waited for the last, shape (ranks, collectives). [ms]"""
        starts = self._of_collectives("start")
        return np.asarray(starts.max(axis=0) - starts)

    def waited_launches(self) -> float:
        """Return how many launches the waits are, a part of one by its time."""
        return float((self.waits() / (self._of_collectives("end") - self._of_collectives("start"))).sum())

    def launches(self, cause: str, name: str, stated: float) -> float:
        """Return how many launches of a kernel there are, of the shape with most nearly so many."""
        if name.startswith(COLLECTIVE):
            waited, every = self.waited_launches(), float(self._of_collectives("start").size)
            return float(round({WAITING: waited, EXPOSED: every - waited}[cause]))
        counts = pl.concat(self.ranks).filter(pl.col("name") == name).group_by("shape").len()["len"].to_list()
        return float(min(counts, key=lambda count: abs(count - stated)))

    def _of_collectives(self, column: str) -> Floats:
        each = [rank.filter(pl.col("name").str.starts_with(COLLECTIVE))[column] for rank in self.ranks]
        return np.stack([one.to_numpy() for one in each])

    def busy(self, column: str) -> Floats:
        """Return a column of the log's lines while kernels ran."""
        return self.log.filter(pl.col("utilization") > 50)[column].to_numpy()

    def replayed(self, factors: list[Floats], closed: str = "", *, even: bool = False) -> tuple[float, float]:
        """Return makespan and waits of launches that take other times, idle times of a cause left out. [ms]

        ``even``: each rank takes the ranks' mean time between two collectives.
        """
        pieces, moved = [], np.zeros(0)
        for rank, factor in zip(self.ranks, factors, strict=True):
            gap = np.append(np.where(caused(rank, closed), 0.0, gaps_of(rank)), 0.0)
            met = rank["name"].str.starts_with(COLLECTIVE).to_numpy()
            took = (rank["end"] - rank["start"]).to_numpy() * factor
            piece = np.concatenate([[0], np.cumsum(met)[:-1]])
            pieces.append(np.bincount(piece, np.where(met, 0.0, took) + gap, met.sum() + 1))
        if len(self.ranks) > 1:
            moved = (self._of_collectives("end") - self._of_collectives("start") - self.waits()).max(axis=0)
        times = np.stack([piece[: len(moved) + 1] for piece in pieces])
        longest = times.mean(axis=0) if even else times.max(axis=0)
        waits = 0.0 if even else float((longest - times)[:, : len(moved)].sum())
        return float(longest.sum() + moved.sum()), waits


def read_raw(traces: list[Path], log: Path) -> Raw:
    """Read what was written, without the tool's readers."""
    ranks = []
    for path in traces:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        shapes = {
            e["args"]["External id"]: str(e["args"].get("Input Dims"))
            for e in events
            if e.get("cat") == "cpu_op"
        }
        calls = {
            e["args"]["correlation"]: e["ts"]
            for e in events
            if e.get("cat") == "cuda_runtime" and "args" in e
        }
        released = np.array(
            sorted(e["ts"] + e["dur"] for e in events if e.get("name") == "cudaStreamSynchronize")
        )
        work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        columns = {
            "name": [e["name"] for e in work],
            "shape": [shapes.get(e["args"].get("External id"), "") for e in work],
            "start": [e["ts"] * 1e-3 for e in work],
            "end": [(e["ts"] + e["dur"]) * 1e-3 for e in work],
            "called": [calls[e["args"]["correlation"]] * 1e-3 for e in work],
        }
        kernels = pl.DataFrame(columns).sort("start")
        at = np.searchsorted(released * 1e-3, kernels["start"].to_numpy()) - 1
        last = np.where(at >= 0, released[at] * 1e-3 if len(released) else -np.inf, -np.inf)
        ranks.append(kernels.with_columns(pl.Series("released", last)))
    rows = list(csv.reader(log.read_text("utf-8").splitlines(), skipinitialspace=True))
    titles = {
        "index": "gpu", "power.draw.instant [W]": "power", "clocks.current.sm [MHz]": "clock",
        "utilization.gpu [%]": "utilization", "power.limit [W]": "limit", "temperature.gpu": "temperature",
    }  # fmt: skip
    columns = {
        titles[title]: [float(row[i].split()[0]) for row in rows[1:]]
        for i, title in enumerate(rows[0])
        if title in titles
    }
    return Raw(ranks, pl.DataFrame(columns))


def gaps_of(rank: pl.DataFrame) -> Floats:
    return np.asarray((rank["start"][1:] - rank["end"][:-1]).to_numpy())


def caused(rank: pl.DataFrame, cause: str) -> Bools:
    """Return which idle times are a cause's: by length, by what let the host go, by when it called."""
    begins, gap = rank["end"][:-1].to_numpy(), gaps_of(rank)
    idle = gap >= LONG_MS
    synced = rank["released"][1:].to_numpy() >= begins - 0.001
    late = rank["called"][1:].to_numpy() >= begins
    return {
        "idle GPU": idle,
        "synchronization": ~idle & synced & (gap > 0),
        "host-bound": ~idle & ~synced & late & (gap > 0),
    }.get(cause, np.zeros(len(gap), dtype=bool))
