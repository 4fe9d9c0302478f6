"""Clocks of the ranks of one job, aligned where the collectives they share end together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats, Ints
from tracetool.core.interval import LEVEL, Z90
from tracetool.families import names
from tracetool.sources.assemble import shift_trace, stretch_trace
from tracetool.sources.clocks import Source
from tracetool.sources.devices import place_devices

#: Collectives that two ranks must share to align their clocks. [1] A prior.
_FEWEST: Final = 3
_SHARE: Final = 0.25
#: Occurrences of a collective that one profiler may have missed at its beginning. [1] A prior.
_MISSED: Final = 64
#: Collectives compared at most. [1] For speed.
_MOST_COMPARED: Final = 2000
#: Time between ends of one collective at most; ends further apart are of two. [ns] A prior: they differ by
#: some steps of its ring, of a few microseconds each.
_APART_NS: Final = 200_000.0
#: Difference of ends below which clocks count as equal. [ns] A prior: on one host, ends differ by as much.
_SAME_NS: Final = 10_000.0
#: Factor by which a shift must reduce the differences of ends to be applied. [1] A prior.
_BETTER: Final = 3.0
#: Pairs of ends that a drift is fitted to, by the slopes between any two of them. [1] For speed.
_SLOPES: Final = 300
#: Standard deviations that a drift must exceed to be applied. [1] A prior.
_SIGNIFICANT: Final = 3.0
_MAD: Final = 1.4826  # deviation of a normal distribution over its median absolute deviation [1]


@dataclass(frozen=True)
class ClockStep:
    """Lead of one rank's clock over another's."""

    offset_ns: float  # at the pivot [ns]
    pivot_ns: int  # [ns]
    drift: float  # [1]
    drift_sd: float
    spread_ns: float  # deviation of one pair of ends [ns]
    pairs: int


def align_ranks(sources: Sequence[Source], clock: dict[str, Any]) -> list[str]:
    """Put the traces of several ranks on the first one's clock, in place, and return what to know of it.

    Parameters
    ----------
    sources : sequence of Source
        Through ``align_sources``.
    clock : dict
        What that returned: entries of the ranks say how they were moved and how well they agree, logs of the
        GPUs of a rank that was moved go with it.

    Notes
    -----
    No rank leaves a collective before the last has come and its data has moved, so that its ends on all
    ranks lie microseconds apart, while its starts differ by what they waited. The difference of two clocks
    is the median difference of the ends of what both ran: the n-th collective of a process group where the
    profiler numbers them, else equal collectives in their order, whose ends agree under one difference only.
    """
    ranks = [i for i, source in enumerate(sources) if source.trace.activities.height]
    if len(ranks) < 2:
        return []
    ends = {i: _collective_ends(sources[i]) for i in ranks}
    ranks = [i for i in ranks if ends[i].height]
    if len(ranks) < 2:
        return []
    place = place_devices([s.trace for s in sources])[1]
    placed, unplaced, moved = [ranks[0]], ranks[1:], {ranks[0]: 0}
    steps: dict[int, ClockStep] = {}
    while unplaced:
        fits = ((a, b, fit) for b in unplaced for a in placed if (fit := _fit(ends[a], ends[b])) is not None)
        first = next(fits, None)
        if first is None:
            break
        _, rank, step = first
        moved[rank] = _move(sources[rank], clock["alignment"][rank], step, sources[ranks[0]].path.name)
        ends[rank] = _moved_ends(ends[rank], step)
        steps[rank] = step
        placed.append(rank)
        unplaced.remove(rank)
    _move_logs(sources, clock["alignment"], place, moved)
    return [*_sentences(sources, ranks, steps), *(_unplaced(sources[i]) for i in unplaced)]


def _collective_ends(source: Source) -> pl.DataFrame:
    """Return the collectives of a trace's busiest GPU and when they ended, by their ends."""
    from tracetool.kernels.classify import classify_names

    activities = source.trace.activities
    distinct = activities.filter(pl.col("kind") == "kernel")["name"].cast(pl.String).unique().to_list()
    rows = classify_names(distinct)
    collective = rows.filter(pl.col("family") == names.COLLECTIVE)["name"]
    for column, kind in (("process_group", pl.String), ("collective_sequence", pl.Int64)):
        if column not in activities.columns:
            activities = activities.with_columns(pl.lit(None, dtype=kind).alias(column))
    chosen = activities.filter(pl.col("name").cast(pl.String).is_in(collective.implode())).select(
        "device",
        pl.concat_str(
            pl.col("name").cast(pl.String),
            pl.col("process_group").cast(pl.String).fill_null(""),
            separator="\0",
        ).alias("key"),
        pl.col("collective_sequence").alias("sequence"),
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
    )
    busiest = (
        chosen.group_by("device", maintain_order=True)
        .len()
        .sort("len", "device", descending=[True, False])
        .head(1)
    )
    return chosen.join(busiest.select("device"), on="device", how="semi").drop("device").sort("end_ns")


def _fit(reference: pl.DataFrame, rank: pl.DataFrame) -> ClockStep | None:
    """Return the lead of the second rank's clock over the first's; None where they share too little."""
    pairs = _by_number(reference, rank)
    if pairs is None:
        pairs = _by_order(reference, rank)
    if pairs is None:
        return None
    ends, later = pairs
    difference = (later - ends).astype(np.float64)
    offset = float(np.median(difference))
    pivot = int(np.median(later))
    at_s = np.asarray((later - pivot) * 1e-9, dtype=np.float64)
    slope, slope_sd = _drift(at_s, difference)
    residual = difference - offset - slope * at_s
    spread = _MAD * float(np.median(np.abs(residual - np.median(residual))))
    if spread > _APART_NS:
        return None
    return ClockStep(offset, pivot, slope * 1e-9, slope_sd * 1e-9, spread, len(ends))


def _drift(at_s: Floats, difference_ns: Floats) -> tuple[float, float]:
    """Return the slope of the differences where there surely is one, and its deviation. [ns/s]"""
    if len(at_s) < 20:
        return 0.0, 0.0
    from scipy.stats import theilslopes  # takes half a second

    chosen = np.linspace(0, len(at_s) - 1, min(len(at_s), _SLOPES)).astype(np.int64)
    slope, _, low, high = theilslopes(difference_ns[chosen], at_s[chosen], LEVEL)
    deviation = float(high - low) / (2.0 * Z90)  # of a normal distribution's 90 % interval
    drifts = abs(slope) > _SIGNIFICANT * deviation and abs(slope) * float(np.ptp(at_s)) > _SAME_NS
    return (float(slope), deviation) if drifts else (0.0, deviation)


def _by_number(reference: pl.DataFrame, rank: pl.DataFrame) -> tuple[Ints, Ints] | None:
    """Pair the ends of collectives that the profiler numbered."""
    keys = ["key", "sequence"]
    shared = reference.drop_nulls("sequence").unique(keys, keep="none").join(
        rank.drop_nulls("sequence").unique(keys, keep="none"), on=keys, how="inner", suffix="_later"
    ).sort("end_ns")  # fmt: skip
    if shared.height < _FEWEST:
        return None
    return shared["end_ns"].to_numpy(), shared["end_ns_later"].to_numpy()


def _by_order(reference: pl.DataFrame, rank: pl.DataFrame) -> tuple[Ints, Ints] | None:
    """Pair the ends of equal collectives, by the difference of clocks under which they agree best."""
    one, two = (dict(zip(*_grouped(frame), strict=True)) for frame in (reference, rank))
    shared = [k for k in one if k in two]
    if not shared:
        return None
    most = max(shared, key=lambda k: min(len(one[k]), len(two[k])))
    offsets = np.unique([0.0, *_shifts(one[most], two[most])])
    tried = [(_spread(one, two, shared, offset), offset) for offset in offsets]
    stated = tried[int(np.flatnonzero(offsets == 0.0)[0])][0]
    best, offset = min(tried, key=lambda pair: (pair[0], abs(pair[1])))
    if stated <= _BETTER * best:
        offset = 0.0
    ends, later = _paired(one, two, shared, offset)
    if len(ends):
        ends, later = _paired(one, two, shared, float(np.median(later - ends)))
    fewer = sum(min(len(one[k]), len(two[k])) for k in shared)
    if len(ends) < max(_FEWEST, _SHARE * fewer):
        return None
    order = np.argsort(ends, kind="stable")
    return ends[order], later[order]


def _grouped(frame: pl.DataFrame) -> tuple[list[str], list[Ints]]:
    groups = frame.group_by("key", maintain_order=True).agg("end_ns")
    return groups["key"].to_list(), [ends.to_numpy()[:_MOST_COMPARED] for ends in groups["end_ns"]]


def _shifts(one: Ints, two: Ints) -> list[float]:
    """Return the median difference of the ends for every shift of one numbering against the other."""
    most = min(_MISSED + abs(len(one) - len(two)), max(len(one), len(two)) - 1)
    shifts = []
    for k in range(-most, most + 1):
        first, second = one[max(0, -k) :], two[max(0, k) :]
        n = min(len(first), len(second))
        if n >= _FEWEST:
            shifts.append(float(np.median(second[:n] - first[:n])))
    return shifts


def _spread(one: dict[str, Ints], two: dict[str, Ints], keys: list[str], offset_ns: float) -> float:
    """Return the spread of matched ends under an offset, infinite where too few can be compared. [ns]"""
    ends, later = _paired(one, two, keys, offset_ns)
    difference = (later - ends).astype(np.float64)
    fewer = sum(min(len(one[k]), len(two[k])) for k in keys)
    if len(difference) < max(_FEWEST, _SHARE * fewer):
        return np.inf
    return float(np.median(np.abs(difference - np.median(difference))))


def _paired(
    one: dict[str, Ints], two: dict[str, Ints], keys: list[str], offset_ns: float
) -> tuple[Ints, Ints]:
    pairs = [_nearest(one[k], two[k], offset_ns) for k in keys]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _nearest(one: Ints, two: Ints, offset_ns: float) -> tuple[Ints, Ints]:
    """Pair each end with the nearest of the other rank under an offset, where their times overlap."""
    at = one + round(offset_ns)
    slack = round(_APART_NS)
    inside = (at >= two[0] - slack) & (at <= two[-1] + slack)
    place = np.clip(np.searchsorted(two, at[inside]), 1, max(len(two) - 1, 1))
    if len(two) == 1:
        return one[inside], np.repeat(two, int(inside.sum()))
    place -= at[inside] - two[place - 1] < two[place] - at[inside]
    return one[inside], two[place]


def _moved_ends(ends: pl.DataFrame, step: ClockStep) -> pl.DataFrame:
    by = step.offset_ns + step.drift * (ends["end_ns"].to_numpy() - step.pivot_ns)
    return ends.with_columns(pl.Series("end_ns", ends["end_ns"].to_numpy() - np.round(by).astype(np.int64)))


def _move(source: Source, entry: dict[str, Any], step: ClockStep, onto: str) -> int:
    """Move a trace onto the first rank's clock, note it, and return the shift: 0 where clocks agree. [ns]"""
    error_ns = step.spread_ns / np.sqrt(step.pairs)
    agrees = abs(step.offset_ns) <= max(_SAME_NS, _SIGNIFICANT * error_ns) and step.drift == 0.0
    entry["collectives"] = {
        "with": onto,
        "pairs": step.pairs,
        "ahead_ns": round(step.offset_ns),
        "spread_ns": round(step.spread_ns),
        "drift_ppm": round(1e6 * step.drift, 3),
        "moved": not agrees,
    }
    if agrees:
        return 0
    by = -round(step.offset_ns)
    shift_trace(source.trace, by)
    if step.drift:
        stretch_trace(source.trace, -step.drift, step.pivot_ns + by)
    entry["placed"] = True
    entry["offset_ns"] += by
    entry["error_ns"] = round(step.spread_ns)
    entry["basis"] += f"; then moved to where collectives end with those of {onto}"
    return by


def _move_logs(
    sources: Sequence[Source],
    entries: Sequence[dict[str, Any]],
    place: Sequence[dict[int, int]],
    moved: dict[int, int],
) -> None:
    """Move the logs of GPUs whose traces were moved: one host's clock stamped both."""
    by_gpu = {gpu: by for i, by in moved.items() for gpu in place[i].values()}
    for i, source in enumerate(sources):
        if source.trace.activities.height or not source.trace.telemetry.height or not entries[i]["placed"]:
            continue
        shifts = [by_gpu[gpu] for gpu in place[i].values() if gpu in by_gpu]
        if not shifts or max(shifts) - min(shifts) > _APART_NS or not any(shifts):
            continue
        by = round(float(np.median(shifts)))
        shift_trace(source.trace, by)
        entries[i]["offset_ns"] += by
        entries[i]["basis"] += "; moved with the traces of its GPUs"


def _sentences(sources: Sequence[Source], ranks: list[int], steps: dict[int, ClockStep]) -> list[str]:
    if not steps:
        return []
    first = sources[ranks[0]].path.name
    far = max(abs(s.offset_ns) for s in steps.values())
    spread = max(s.spread_ns for s in steps.values())
    pairs = min(s.pairs for s in steps.values())
    sentence = (
        f"{len(steps) + 1} ranks on the clock of {first}: clocks were up to {far / 1e3:,.1f} us apart, now"
        f" collectives end together within {spread / 1e3:.1f} us ({pairs} or more of each rank)"
    )
    return [sentence]


def _unplaced(source: Source) -> str:
    return (
        f"{source.path.name}: shares no collectives with the other ranks whose ends agree: its clock is left"
        " as it is, waits for other ranks may be wrong"
    )
