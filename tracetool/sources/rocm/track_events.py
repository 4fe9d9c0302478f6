"""Slices, counters and tracks of a Perfetto trace, as columns.

Packets are read first, as far as they say something for others; then the events in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracetool.core.arrays import Ints
from tracetool.sources.io.protobuf_columns import Fields, Texts, read_fields
from tracetool.sources.rocm.event_rows import Counts, EventRows, Notes, Slices
from tracetool.sources.rocm.packet_times import Stamps
from tracetool.sources.rocm.packets import EVENT, STAGE, TRACK, Said, State, held, read_packets
from tracetool.sources.rocm.tracks import Described, Tracks, shown

#: Columns of slices, counters' values and tracks; ``track`` is the number the trace gives it.
SLICES = {"name": pl.String(), "category": pl.String(), "track": pl.UInt64()}
COUNTS = {"track": pl.UInt64(), "category": pl.String(), "time_ns": pl.Int64(), "value": pl.Float64()}
TRACKS = {"track": pl.UInt64(), "name": pl.String(), "unit": pl.String()}


@dataclass
class Events:
    """Content of a trace.

    Parameters
    ----------
    slices, counts, tracks : DataFrame
        With the columns of :data:`SLICES`, :data:`COUNTS` (times since boot, null where the trace does not
        tell) and :data:`TRACKS`, which lists undescribed counters too.
    notes : mapping of str to Notes
        Annotations of slices under the names asked for.
    texts : sequence of str
        Texts by their number.
    stages : int
        GPU work stated as render stages (Perfetto's ``GpuRenderStageEvent``), which are not read.
    """

    slices: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SLICES))
    counts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTS))
    tracks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TRACKS))
    notes: Mapping[str, Notes] = field(default_factory=dict)
    texts: Sequence[str] = ()
    stages: int = 0


def read_events(raw: bytes, notes: Sequence[str] = ()) -> Events:
    """Return the slices, counters and tracks of a trace.

    Parameters
    ----------
    raw : bytes
        The trace.
    notes : sequence of str
        Names of the annotations wanted, each once.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    zlib.error
        If packed packets in it are.
    """
    reader = _Reader(notes)
    for packets in read_packets(raw):
        reader.take(packets)
    return reader.events() if reader.said.count else Events()


@dataclass
class _Reader:
    """A trace while it is read."""

    notes: Sequence[str]
    texts: Texts = field(default_factory=Texts)
    said: Said = field(default_factory=Said)
    stamps: Stamps = field(default_factory=Stamps)
    tracks: Tracks = field(default_factory=Tracks)
    stages: int = 0
    #: Where events lie: bytes, packets, starts, ends.
    waiting: list[tuple[bytes, Ints, Ints, Ints]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts.add(name.encode() for name in self.notes)

    def take(self, packets: Fields) -> None:
        """Take in the next packets."""
        first = self.said.count
        self.stages += len(held(packets, STAGE))
        rows = held(packets, TRACK)
        if len(rows):
            self.tracks.learn(packets.message[rows] + first, packets.inner(rows), self.texts)
        self.stamps.take(packets)
        self.said.take(packets, self.texts)
        rows = held(packets, EVENT)
        end = packets.start[rows] + packets.value[rows].astype(np.int64)
        self.waiting.append((packets.raw, packets.message[rows] + first, packets.start[rows], end))

    def events(self) -> Events:
        """Return the content of the packets."""
        state = self.said.state()
        rows = EventRows(state, self.texts, len(self.notes))
        for raw, packet, start, end in self.waiting:
            rows.take(read_fields(raw, start, end).sound(), packet)
        self.waiting.clear()
        counts = rows.counts()
        described = self.tracks.in_force(counts.track, counts.packet)
        texts = pl.Series(self.texts.listed, dtype=pl.String)
        return Events(
            _slices(rows.slices(), texts),
            self._counts(counts, described, state, texts),
            _tracks(described, counts, texts),
            dict(zip(self.notes, rows.notes(), strict=True)),
            self.texts.listed,
            self.stages,
        )

    def _counts(self, counts: Counts, described: Described, state: State, texts: pl.Series) -> pl.DataFrame:
        if not len(counts.packet):
            return pl.DataFrame(schema=COUNTS)
        columns = {
            "track": counts.track,
            "category": texts.gather(counts.category),
            "time_ns": self.stamps.since_boot(state, counts.packet),
            "value": shown(described, counts.track, counts.packet, counts.value),
        }
        return pl.DataFrame(columns, schema=COUNTS)


def _slices(slices: Slices, texts: pl.Series) -> pl.DataFrame:
    spelled = {"name": texts.gather(slices.name), "category": texts.gather(slices.category)}
    return pl.DataFrame({**spelled, "track": slices.track}, schema=SLICES)


def _tracks(described: Described, counts: Counts, texts: pl.Series) -> pl.DataFrame:
    spelled = {"name": texts.gather(described.name), "unit": texts.gather(described.unit)}
    stated = pl.DataFrame({"track": described.track, **spelled}, schema=TRACKS)
    met = pl.DataFrame({"track": np.unique(counts.track)}, schema={"track": pl.UInt64()})
    bare = met.join(stated, on="track", how="anti").with_columns(name=pl.lit(""), unit=pl.lit(""))
    return pl.concat([stated.unique("track", keep="last", maintain_order=True), bare])
