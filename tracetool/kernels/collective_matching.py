"""Collectives matched across devices: which rank waited for which, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints, Numbers
from tracetool.core.compiled import compiled
from tracetool.families import names
from tracetool.kernels.refine import families_of
from tracetool.tables.run import Run

#: What collectives that were one have in common, beside their process group.
_ALIKE: Final = ("name", "bytes", "input_dims", "input_list_dims", "input_types")


@dataclass(frozen=True)
class Meetings:
    """Matched collectives: g activities of m meetings. No data is complete before the last rank arrives."""

    member: Ints  # (g,) activity
    meeting: Ints  # (g,) number of its meeting
    arrival_ns: Floats  # (m,) start of the last to come

    @property
    def arrived_ns(self) -> Floats:
        """When the last of its meeting had come, for each member. Shape (g,). [ns]"""
        return self.arrival_ns[self.meeting]


def meetings(start_ns: Numbers, end_ns: Numbers, device: Numbers, alike: Ints) -> Meetings:
    r"""Return which collectives of different devices were one.

    Parameters
    ----------
    start_ns, end_ns : array, shape (n,)
        The activities of all ranks, on one clock. [ns]
    device : array of int, shape (n,)
        GPU of each.
    alike : array of int, shape (n,)
        Equal numbers for collectives of the same operation, size and process group; -1 for everything else.

    Returns
    -------
    Meetings
        Empty where one device ran alone: of other ranks nothing is inferred.

    Notes
    -----
    The ranks of a collective all run while its data moves, :math:`\max s < \min e`, and a rank begins
    its next one only after that: so alike collectives of different devices that overlap in time are
    one. Each splits into its wait, :math:`\max s - s_i`, and its transfer, :math:`e_i - \max s`.
    """
    chosen = np.flatnonzero((alike >= 0) & (end_ns > start_ns))
    none = np.zeros(0, np.int64)
    if len(np.unique(device[chosen])) < 2:
        return Meetings(none, none, np.zeros(0))
    order = chosen[np.lexsort((start_ns[chosen], alike[chosen]))]
    group = np.zeros(len(order), np.int64)
    _, place = np.unique(device[order], return_inverse=True)
    last_group = np.full(int(place.max()) + 1, -1, np.int64)
    compiled(_group, len(order))(alike[order], start_ns[order], end_ns[order], place, last_group, group)
    size = np.bincount(group)
    several = size[group] > 1
    order, group = order[several], np.unique(group[several], return_inverse=True)[1]
    arrival = np.full(int(group.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(arrival, group, start_ns[order])
    return Meetings(order, group, arrival)


def _group(alike: Ints, start: Numbers, end: Numbers, device: Ints, last_group: Ints, group: Numbers) -> None:
    """Number those that all overlap, at most one of each device, in the order they start."""
    number = -1
    least = end[0]
    for i in range(len(alike)):
        if i == 0 or alike[i] != alike[i - 1] or start[i] >= least or last_group[device[i]] == number:
            number += 1
            least = end[i]
        least = min(least, end[i])
        last_group[device[i]] = number
        group[i] = number


def alike_collectives(run: Run) -> Ints:
    """Number the collectives of a run that may be one across devices; -1 for everything else. Shape (n,).

    Notes
    -----
    They agree in operation and size, in their process group and its numbering where the profiler states them.
    """
    kernels = run.table("kernels", ("device", "signature"))
    if kernels["device"].n_unique() < 2:
        return np.full(kernels.height, -1, np.int64)
    signatures = run.signatures.sort("signature")
    kind = signatures.select(pl.struct(*(c for c in _ALIKE if c in signatures.columns)).rank("dense"))
    by_signature = np.where(
        (families_of(signatures) == names.COLLECTIVE).fill_null(value=False).to_numpy(),
        kind.to_series().cast(pl.Int64).to_numpy(),
        -1,
    )
    place = np.searchsorted(signatures["signature"].to_numpy(), kernels["signature"].to_numpy())
    alike: Ints = by_signature[place]
    chosen = np.flatnonzero(alike >= 0)
    if not len(chosen):
        return alike
    stated = run.table("kernels", ("process_group", "collective_sequence"))[chosen]
    if all(column.null_count() == len(column) for column in stated):
        return alike
    rows = stated.with_columns(kind=pl.Series(alike[chosen]))
    alike[chosen] = rows.select(pl.struct("kind", *stated.columns).rank("dense")).to_series().to_numpy()
    return alike


def run_meetings(run: Run) -> Meetings:
    """Return which collectives of a run's GPUs were one.

    Activities are numbered as in its kernels table, arrivals counted from its first start.
    """
    kernels = run.table("kernels", ("start_ns", "duration_ns", "device"))
    since = kernels["start_ns"].to_numpy() - _origin_ns(kernels)
    return meetings(
        since, since + kernels["duration_ns"].to_numpy(), kernels["device"].to_numpy(), alike_collectives(run)
    )


def _origin_ns(kernels: pl.DataFrame) -> int:
    """Return the first start: times since it are exact as floats."""
    return int(kernels["start_ns"].min() or 0)  # type: ignore[arg-type]


def arrivals_ns(run: Run) -> Ints:
    """Return when the last rank arrived at the collective that each activity is. Shape (n,). [ns]

    The activity's own start where it did not wait, or is no collective.
    """
    kernels = run.table("kernels", ("start_ns", "duration_ns"))
    arrived: Ints = kernels["start_ns"].to_numpy().copy()
    met = run_meetings(run)
    late = np.round(met.arrived_ns).astype(np.int64) + _origin_ns(kernels)
    end = arrived[met.member] + kernels["duration_ns"].to_numpy()[met.member]
    arrived[met.member] = np.clip(late, arrived[met.member], end)
    return arrived
