"""Activities as classes of work on one device: from a run's kernels or an activity table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.families.registry import families_where
from tracetool.measure.power_log import PowerLog
from tracetool.measure.requested_windows import unit_that_fits
from tracetool.measure.timeline import Timeline, build_timeline
from tracetool.tables.run import Run

_NS = 1e-9
#: How far off the stamps of a profiler, and those a host program takes around its work, may be. [s]
_TRACE_JITTER_S = 2e-5
_HOST_JITTER_S = 3e-4
#: Families whose activities are copies, not kernels.
COPIES = tuple(families_where(lambda family: family.activity))
#: Class of collectives while they wait for other ranks: their blocks poll memory, whatever they will move.
WAITING = "(waiting for ranks)"
#: Share of the collectives' time they must wait to have a power of their own. [1]
_LEAST_WAIT = 0.01


@dataclass(frozen=True)
class Work:
    """Activities of one device, times in ns on the log's clock.

    Where collectives waited for other ranks, what they waited is the last class, and ``waited_ns`` the time
    that each class before it waited so.
    """

    names: list[str]
    family: list[str | None]
    signature: list[int | None]
    label: Ints
    start_ns: Ints
    end_ns: Ints
    jitter_s: float
    waited_ns: Ints | None = None

    @property
    def copies(self) -> Bools:
        """Which classes are copies or fills, not kernels. Shape (classes,)."""
        return np.asarray(np.isin(np.array(self.family, dtype=object).astype(str), COPIES))

    def timeline(self, origin_ns: int) -> Timeline:
        """Return the activities as a timeline, in seconds since an origin near the log."""
        start = (self.start_ns - origin_ns).astype(np.float64) * _NS
        end = (self.end_ns - origin_ns).astype(np.float64) * _NS
        return build_timeline(start, end, self.label, len(self.names), self.jitter_s)


def work_of_run(run: Run, kernels: pl.DataFrame, arrived_ns: Ints | None = None) -> Work:
    """Return the kernels of one device of a run, one class per signature.

    Parameters
    ----------
    run : Run
        The run.
    kernels : DataFrame, shape (n, columns)
        Its activities on the device.
    arrived_ns : array of int, shape (n,), optional
        When the last rank had come to each collective; what they waited till then is a class of its own,
        the last, where that is any time worth telling. [ns]
    """
    from tracetool.kernels.classify import classify_names

    ids = kernels["signature"].unique().sort()
    rows = run.signatures.filter(pl.col("signature").is_in(ids.implode())).sort("signature")
    names = rows["name"].to_list()
    classified = classify_names(sorted(set(names)))
    family = dict(zip(classified["name"].to_list(), classified["family"].to_list(), strict=True))
    kinds = rows["kind"].to_list()
    start = kernels["start_ns"].to_numpy()
    work = Work(
        names,
        [family.get(n) if k == "kernel" else k for n, k in zip(names, kinds, strict=True)],
        rows["signature"].to_list(),
        np.searchsorted(rows["signature"].to_numpy(), kernels["signature"].to_numpy()).astype(np.int64),
        start,
        start + kernels["duration_ns"].to_numpy(),
        _TRACE_JITTER_S,
    )
    return work if arrived_ns is None else _with_waits(work, arrived_ns)


def _with_waits(work: Work, arrived_ns: Ints) -> Work:
    """Cut collectives where the last rank arrived; their waits before that are the last class."""
    late = arrived_ns > work.start_ns
    k = len(work.names)
    waited_ns = np.zeros(k, np.int64)
    np.add.at(waited_ns, work.label[late], (arrived_ns - work.start_ns)[late])
    whole_ns = int((work.end_ns - work.start_ns)[waited_ns[work.label] > 0].sum())
    if waited_ns.sum() <= _LEAST_WAIT * whole_ns:
        return work
    return replace(
        work,
        names=[*work.names, WAITING],
        family=[*work.family, None],
        signature=[*work.signature, None],
        label=np.concatenate([work.label, np.full(int(late.sum()), k, np.int64)]),
        start_ns=np.concatenate([np.where(late, arrived_ns, work.start_ns), work.start_ns[late]]),
        end_ns=np.concatenate([work.end_ns, arrived_ns[late]]),
        waited_ns=waited_ns,
    )


def work_of_activity(table: pl.DataFrame) -> Work:
    """Return the activities of a table, one class per name."""
    names = table["name"].unique(maintain_order=True).to_list()
    index = {n: i for i, n in enumerate(names)}
    return Work(
        names,
        [None] * len(names),
        [None] * len(names),
        table["name"].replace_strict(index, return_dtype=pl.Int64).to_numpy(),
        table["start_us"].to_numpy() * 1000,
        table["end_us"].to_numpy() * 1000,
        _HOST_JITTER_S,
    )


def check_overlap(work: Work, log: PowerLog, origin_ns: int, where: str) -> None:
    """Raise BadInput unless work and log overlap; the hint names the time zone or unit that would fit."""
    start = (float(work.start_ns.min()) - origin_ns) * _NS
    end = (float(work.end_ns.max()) - origin_ns) * _NS
    first, last = float(log.time_s[0]), float(log.time_s[-1])
    if start <= last and end >= first:
        return
    hours = round((0.5 * (start + end) - 0.5 * (first + last)) / 900) / 4
    near = abs(hours) <= 15 and hours != 0
    unit = unit_that_fits(
        *(float(t) for t in (work.start_ns.min(), work.end_ns.max())),
        *(origin_ns + t / _NS for t in (first, last)),
    )
    other_run = f"are its times in {unit}? give UTC microseconds" if unit else "give the log of the same run"
    raise BadInput.in_file(
        where,
        f"its activity and the power log do not overlap (the log begins {abs(first - start):,.0f} s"
        f" {'after' if first > start else 'before'} it)",
        f"is the zone right? it would fit if --tz were {abs(hours):g} h {'less' if hours > 0 else 'more'}"
        if near
        else other_run,
    )


def expected_power(work: Work, prior: Mapping[int | str, float]) -> Floats | None:
    """Return the prior of each class by its signature or name, else NaN; None without any. [W]"""
    keys = zip(work.signature, work.names, strict=True)
    expected_w = np.array(
        [prior.get(n, np.nan) if s is None else prior.get(s, prior.get(n, np.nan)) for s, n in keys]
    )
    return expected_w if np.isfinite(expected_w).any() else None
