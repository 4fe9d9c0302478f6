"""Chrome trace events (JSON): the timeline for viewers of that format."""

from __future__ import annotations

import json
from typing import BinaryIO, Final

import polars as pl

from tracetool.report.export.timeline import PLACE, Timeline
from tracetool.sources.pytorch.gather import PREDICTED

#: Events encoded at a time: what is held in memory.
_WINDOW: Final = 32_768


def write_chrome(timeline: Timeline, file: BinaryIO) -> None:
    """Write a timeline as Chrome trace events, in microseconds from ``baseTimeNanoseconds``.

    Parameters
    ----------
    timeline : Timeline
        What to write.
    file : binary file
        Where to.
    """
    head = {"displayTimeUnit": "ns", "baseTimeNanoseconds": timeline.origin_ns}
    file.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
    described = [_meta("process_name", i + 1, 0, name) for i, name in enumerate(timeline.processes)]
    for i, track in enumerate(timeline.tracks):
        if not track.unit:
            described.append(_meta("thread_name", track.process + 1, i + 1, track.name))
            described.append(_meta("thread_sort_index", track.process + 1, i + 1, i))
    file.write(",\n".join(json.dumps(event) for event in described).encode())
    for slices in timeline.slices:
        for window in slices.frame.iter_slices(_WINDOW):
            _write_rows(file, _complete_events(timeline, slices.category, window))
    for counter in timeline.counters:
        track = timeline.tracks[counter.track]
        rows = pl.DataFrame({"ts": _microseconds(pl.Series(counter.time_ns), timeline), "v": counter.value})
        for window in rows.iter_slices(_WINDOW):
            events = window.select(
                ph=pl.lit("C"),
                pid=pl.lit(track.process + 1),
                name=pl.lit(track.name),
                ts="ts",
                args=pl.struct(pl.col("v").alias(track.unit)),
            )
            _write_rows(file, events)
    file.write(b"\n]}\n")


def _meta(name: str, process: int, thread: int, value: str | int) -> dict[str, object]:
    key = "sort_index" if isinstance(value, int) else "name"
    return {"ph": "M", "name": name, "pid": process, "tid": thread, "args": {key: value}}


def _microseconds(time_ns: pl.Series, timeline: Timeline) -> pl.Series:
    return (time_ns - timeline.origin_ns) / 1e3


def _complete_events(timeline: Timeline, category: str, window: pl.DataFrame) -> pl.DataFrame:
    place = timeline.tracks[window["track"][0]].process
    marked = f"{PREDICTED}{category}" if place in timeline.predicted else category
    arguments = [c for c in window.columns if c not in PLACE]
    floats = [c for c in arguments if window.schema[c].is_float()]
    finite = window.with_columns(pl.when(pl.col(c).is_finite()).then(pl.col(c)).alias(c) for c in floats)
    return finite.select(
        ph=pl.lit("X"),
        cat=pl.lit(marked),
        name="name",
        pid=pl.lit(place + 1),
        tid=pl.col("track") + 1,
        ts=_microseconds(window["start_ns"], timeline),
        dur=pl.col("duration_ns") / 1e3,
        args=pl.struct(arguments) if arguments else pl.struct(pl.lit(category).alias("kind")),
    )


def _write_rows(file: BinaryIO, events: pl.DataFrame) -> None:
    if events.height:
        lines = events.write_ndjson().rstrip("\n")
        file.write(b",\n" + lines.replace("\n", ",\n").encode())
