"""Positions of the messages of a file: those of its field 1, as traces contain their packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Ints
from tracetool.sources.io.protobuf import BYTES, VARINT, spans
from tracetool.sources.io.protobuf_columns import FEW, WINDOW_MESSAGES, varints

#: Bytes of messages read at once, unless one is longer. A prior. [bytes]
WINDOW_BYTES: Final = 1 << 22
#: Least and most bytes of a file searched for the keys of its messages at once. A prior. [bytes]
_STRETCH: Final = 1 << 14, 1 << 19
#: The key of the field that holds the messages: number 1, bytes. [1] By definition of the format.
_KEY: Final = 1 << 3 | BYTES


@dataclass(frozen=True)
class Window:
    """Messages of a file behind one another.

    Parameters
    ----------
    starts, ends : array of int
        Where their content lies.
    begin, finish : int
        The stretch of the file they are in, with what frames them.
    """

    starts: Ints
    ends: Ints
    begin: int
    finish: int


def windows(raw: bytes) -> Iterator[Window]:
    """Yield the messages in field 1 of a file, window by window.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    content = np.frombuffer(raw, np.uint8)
    at = begin = 0
    stretch = _STRETCH[0]
    while at < len(raw):
        spans: list[tuple[Ints, Ints]] = []
        count = 0
        while at < min(begin + WINDOW_BYTES, len(raw)) and count < WINDOW_MESSAGES:
            starts, ends = _chained(content, at, stretch)
            after = int(ends[-1]) if len(ends) else at
            stretch = min(max(2 * (after - at), _STRETCH[0]), _STRETCH[1])
            spans.append((starts, ends))
            at, count = after, count + len(starts)
            if len(starts) < FEW:
                starts, ends, at = _framed(raw, at)
                spans.append((starts, ends))
                count += len(starts)
        starts, ends = (np.concatenate(column) for column in zip(*spans, strict=True))
        yield Window(starts, ends, begin, at)
        begin = at


def _chained(content: NDArray[np.uint8], at: int, stretch: int) -> tuple[Ints, Ints]:
    """Return the spans of sound messages one behind the other from a place on, as far as nothing else comes.

    Every byte of the stretch that may be a message's key is taken for one; then one leads to the next.
    """
    keys = np.flatnonzero(content[at : at + stretch] == _KEY) + at
    if not len(keys) or keys[0] != at:
        return keys[:0], keys[:0]
    size, start, fault = varints(content, keys + 1, np.broadcast_to(len(content), len(keys)))
    broken = (fault > 0) | (size > np.maximum(len(content) - start, 0).astype(np.uint64))
    end = start + np.where(broken, np.uint64(0), size).astype(np.int64)
    place = np.minimum(np.searchsorted(keys, end), len(keys) - 1)
    follows = np.where((keys[place] == end) & ~broken, place, -1).tolist()
    met, message = [], 0
    while message >= 0:
        met.append(message)
        message = follows[message]
    chain = np.array(met[:-1] if broken[met[-1]] else met, np.int64)
    return start[chain], end[chain]


def _framed(raw: bytes, at: int) -> tuple[Ints, Ints, int]:
    """Return the spans of the next few messages, whatever is between them, and the place after them."""
    starts: list[int] = []
    ends: list[int] = []
    view = memoryview(raw)
    for _ in range(FEW):
        if at == len(raw):
            break
        number, kind, size, place = next(spans(view[at:]))
        start = at + place
        at = start if kind == VARINT else start + size
        if number == 1 and kind == BYTES:
            starts.append(start)
            ends.append(at)
    return np.array(starts, np.int64), np.array(ends, np.int64), at
