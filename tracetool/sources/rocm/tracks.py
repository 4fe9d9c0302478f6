"""Tracks of a Perfetto trace and the values of its counters.

Source: Perfetto's ``track_descriptor.proto`` and ``counter_descriptor.proto``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Numbers
from tracetool.sources.io.protobuf_columns import Fields, Texts, Wholes, joined, signed_wholes
from tracetool.sources.last_definitions import Latest


@dataclass(frozen=True)
class Described:
    """Descriptions of tracks, in the trace's order; names and units by the numbers of their texts.

    Parameters
    ----------
    packet : array of int
        Where each stands.
    track : array of uint64
        Which track it describes.
    name, unit : array of int
        Numbers of texts.
    step : array of int
        What one step of a counter is.
    adds : array of bool
        Whether each of its values counts from the one before.
    """

    packet: Ints
    track: Wholes
    name: Ints
    unit: Ints
    step: Ints
    adds: Bools

    def only(self, rows: Ints | Bools) -> Described:
        """Return some of them."""
        name, unit = self.name[rows], self.unit[rows]
        return Described(self.packet[rows], self.track[rows], name, unit, self.step[rows], self.adds[rows])


@dataclass
class Tracks:
    """Descriptions of tracks while a trace is read."""

    _parts: list[Described] = field(default_factory=list)

    def learn(self, packet: Ints, tracks: Fields, texts: Texts) -> None:
        """Take in the descriptions in some packets."""
        named = tracks.last(tracks.are(2) | tracks.are(10))
        name, unit = np.zeros((2, tracks.messages), np.int64)
        name[named >= 0] = texts.of(tracks, named[named >= 0])
        step, adds = np.ones(tracks.messages, np.int64), np.zeros(tracks.messages, np.bool_)
        rows = np.flatnonzero(tracks.are(8, varint=False))
        rows = rows[np.argsort(tracks.message[rows], kind="stable")]
        counters = tracks.inner(rows).in_order()
        of = tracks.message[rows][counters.message]
        units = np.flatnonzero(counters.are(6))
        unit[of[units]] = texts.of(counters, units)
        steps, added = (np.flatnonzero(counters.are(n, varint=True)) for n in (4, 5))
        step[of[steps]] = signed_wholes(counters.value[steps])
        adds[of[added]] = counters.value[added] != 0
        step[step == 0] = 1
        self._parts.append(Described(packet, tracks.wholes(1), name, unit, step, adds))

    def in_force(self, counted: Wholes, packet: Ints) -> Described:
        """Return the descriptions in force: a track may be described again, with less.

        Parameters
        ----------
        counted, packet : array
            The track of each counter's value, and where it stands: from there on there is the track.
        """
        parts: list[tuple[Numbers, ...]] = [
            (d.packet, d.track, d.name, d.unit, d.step, d.adds) for d in self._parts
        ]
        described = Described(*joined(parts, np.int64, np.uint64, np.int64, np.int64, np.int64, np.bool_))
        met = Latest(np.zeros(len(counted), np.int64), counted, packet)
        no_writer = np.zeros(len(described.packet), np.int64)
        new = met.find(no_writer, described.track, described.packet - 1) < 0
        first = np.zeros(len(no_writer), np.bool_)
        first[np.unique(described.track, return_index=True)[1]] = True
        return described.only((new & first) | (described.name != 0))


def shown(described: Described, track: Wholes, packet: Ints, stated: Floats) -> Floats:
    """Return the values of counters: those stated, or their sums, in the steps of their tracks."""
    latest = Latest(np.zeros(len(described.packet), np.int64), described.track, described.packet)
    rows = latest.find(np.zeros(len(track), np.int64), track, packet)
    total = stated + 0.0  # no negative zero
    if not len(described.packet):
        return total
    adding = np.flatnonzero((rows >= 0) & described.adds[rows])
    adding = adding[np.argsort(rows[adding], kind="stable")]
    borders = np.flatnonzero(np.diff(rows[adding])) + 1
    with np.errstate(over="ignore", invalid="ignore"):  # of a damaged file
        for of_track in np.split(adding, borders):
            total[of_track] = np.cumsum(total[of_track])
        return total * np.where(rows >= 0, described.step[rows], 1)
