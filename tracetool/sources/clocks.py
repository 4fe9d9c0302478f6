"""One clock for a run: which one, and the shift of each source's times to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.assemble import shift_trace
from tracetool.sources.format import Clock, Trace
from tracetool.sources.telemetry.localtime import local_to_utc
from tracetool.sources.telemetry.readings import without_times

#: A log that misses less of the work than this misses nothing worth a word: sensors are that slow.
_MISSED_NS = 500_000_000


@dataclass
class Source:
    """A file, its content and its format."""

    path: Path
    format: str
    trace: Trace


def run_domain(clocks: Sequence[Clock]) -> str:
    """Return ``utc`` if any source can be put on UTC, else the domain of the first."""
    if any(c.domain in ("utc", "local") or c.to_utc_ns is not None for c in clocks):
        return "utc"
    return clocks[0].domain if clocks else "session"


def offset_text(offset_ns: int) -> str:
    """Return an offset from UTC as people write it.

    >>> offset_text(-4 * 3600 * 10**9), offset_text(19800 * 10**9)
    ('-04:00', '+05:30')
    """
    minutes = abs(offset_ns) // (60 * 10**9)
    return f"{'-' if offset_ns < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def align_sources(sources: Sequence[Source], tz: str | None) -> dict[str, Any]:
    """Put all sources on one clock, in place, as far as they state theirs.

    Parameters
    ----------
    sources : sequence of Source
        In the order given; times still on their own clocks.
    tz : str, optional
        Zone of logs in local time. Without it the zone a trace of the same host states is used.

    Returns
    -------
    dict
        ``clock`` of ``run.json``: ``domain`` and ``alignment``, one entry per source; ``fitted`` is
        false where a source could not be placed.

    Raises
    ------
    BadInput
        If a log in local time has no zone, or has no times.
    """
    domain = run_domain([s.trace.clock for s in sources])
    host_zone = next(
        (
            (s.trace.clock.local_offset_ns, s.path.name)
            for s in sources
            if s.trace.clock.local_offset_ns is not None
        ),
        None,
    )
    entries = []
    lent = {id(s): _lent_offset(s, sources) for s in sources}
    for source in sources:
        clock = source.trace.clock
        entry: dict[str, Any] = {
            "source": source.path.name, "domain": clock.domain, "offset_ns": 0, "error_ns": clock.error_ns,
            "basis": clock.basis, "placed": True,
        }  # fmt: skip
        if clock.domain == "none":
            raise without_times(source.path)
        if clock.domain == "local":
            zone, basis = _zone(source, tz, host_zone)
            before = source.trace.telemetry["time_ns"]
            after = pl.Series("time_ns", local_to_utc(before.to_numpy(), zone))
            source.trace.telemetry = source.trace.telemetry.with_columns(after)
            entry |= {"zone": zone, "basis": f"{clock.basis}; {basis}"}
            entry["offset_ns"] = int(after[0]) - int(before[0]) if len(before) else 0
            if changed := _changes(before, after):
                entry["clock_changes"] = changed
                source.trace.warnings.append(
                    f"the clocks of {zone} change within the log ({changed} times): read as UTC on both sides"
                )
        elif domain == "utc" and clock.to_utc_ns is not None:
            shift_trace(source.trace, clock.to_utc_ns)
            entry["offset_ns"] = clock.to_utc_ns
        elif domain == "utc" and (loan := lent[id(source)]) is not None:
            shift_trace(source.trace, loan[0])
            entry |= {
                "offset_ns": loan[0],
                "basis": f"{clock.basis}; tied to UTC by {loan[1]}, same boot clock",
            }
        elif clock.domain != domain:
            entry |= {"placed": False, "basis": f"{clock.basis}; nothing ties it to the other sources"}
        entries.append(entry)
    return {"domain": domain, "alignment": entries}


def _changes(local: pl.Series, utc: pl.Series) -> int:
    """Return how often a log's offset from UTC changes."""
    step = (utc - local).drop_nulls().diff().drop_nulls()
    return int((step != 0).sum())


def _span(trace: Trace) -> tuple[int, int] | None:
    """Return the first and last time of a source's activities and readings."""
    times = [
        frame[column]
        for frame, column in ((trace.activities, "start_ns"), (trace.telemetry, "time_ns"))
        if frame.height and column in frame.columns
    ]
    spans = [(int(t.min()), int(t.max())) for t in times if t.drop_nulls().len()]  # type: ignore[arg-type]
    return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None


def uncovered(sources: Sequence[Source], entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return sentences on logs that miss some of the work: they start late or end early.

    Both must be placed on the run's clock; a log counts against the activities of all sources.
    """
    placed = [s.trace for s, e in zip(sources, entries, strict=True) if e["placed"]]
    ran = [t.activities for t in placed if t.activities.height]
    if not ran:
        return []
    first = min(int(a["start_ns"].min()) for a in ran)  # type: ignore[arg-type]
    last = max(int((a["start_ns"] + a["duration_ns"]).max()) for a in ran)  # type: ignore[arg-type]
    sentences = []
    for source, entry in zip(sources, entries, strict=True):
        times = source.trace.telemetry["time_ns"] if source.trace.telemetry.height else None
        if times is None or source.trace.activities.height or not entry["placed"]:
            continue
        begin, end = int(times.min()), int(times.max())  # type: ignore[arg-type]
        if end < first or begin > last:
            sentences.append(
                f"{source.path.name}: no reading falls into the time of the trace: wrong log or wrong zone?"
            )
            continue
        missed = [
            f"{what} {gap / 1e9:.1f} s {where}"
            for gap, what, where in (
                (begin - first, "starts", "after the first kernel"),
                (last - end, "ends", "before the last one"),
            )
            if gap > _MISSED_NS
        ]
        if missed:
            sentences.append(
                f"{source.path.name}: the log {' and '.join(missed)}: energy there is not measured"
            )
    return sentences


def _lent_offset(source: Source, sources: Sequence[Source]) -> tuple[int, str] | None:
    """Return the offset from boot time to UTC of another source of the same boot, and its name.

    Two hosts' boot clocks hardly ever show the same time: sources whose times overlap share one.
    """
    clock, span = source.trace.clock, _span(source.trace)
    if clock.domain != "boot" or clock.to_utc_ns is not None or span is None:
        return None
    for candidate in sources:
        lender, theirs = candidate.trace.clock, _span(candidate.trace)
        if lender.domain != "boot" or lender.to_utc_ns is None or theirs is None:
            continue
        if theirs[0] <= span[1] and span[0] <= theirs[1]:
            return lender.to_utc_ns, candidate.path.name
    return None


def _zone(source: Source, tz: str | None, host_zone: tuple[int | None, str] | None) -> tuple[str, str]:
    if tz is not None:
        return tz, "zone given with --tz"
    if host_zone is not None and host_zone[0] is not None:
        return offset_text(host_zone[0]), f"zone of the recording host, as {host_zone[1]} states it"
    raise BadInput.in_file(
        source.path,
        "is in local time and no trace states the zone",
        "give it with --tz, e.g. --tz +02:00 or --tz Europe/Berlin",
    )
