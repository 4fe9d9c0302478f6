"""Protocol buffer messages written column by column: one message a row, no loop over rows.

A part of a message is a matrix of bytes and the mask of those that are there: rows of different length
come out of the matrix in one selection. Wire format: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracetool.core.arrays import Bools, Floats, Ints

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
#: Bytes of the longest varint: 64 bits, seven a byte.
_LONGEST: Final = 10
#: Messages put together at a time.
_ROWS: Final = 2_048

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Piece:
    """Bytes of n messages, each at most w of them.

    Parameters
    ----------
    raw : array of uint8, shape (n, w)
        The bytes.
    present : array of bool, shape (n, w) or (n, 1), or None
        Which of them are there; None where all are.
    """

    raw: Bytes
    present: Bools | None = None

    def of(self, rows: slice) -> Piece | None:
        """Return the bytes of some rows; None where none of them is there."""
        raw = self.raw[rows]
        if self.present is None:
            return Piece(raw)
        present = self.present[rows]
        if present.all():
            return Piece(raw)
        return Piece(raw, present) if present.any() else None


@dataclass(frozen=True)
class Part:
    """Pieces one behind the other, and the bytes of each row in them: one number where all rows are equal."""

    pieces: tuple[Piece, ...]
    length: Ints | int

    def written(self) -> bytes:
        """Return the messages one behind the other."""
        rows = len(self.pieces[0].raw)
        return b"".join(self._rows(slice(at, at + _ROWS)) for at in range(0, rows, _ROWS))

    def _rows(self, rows: slice) -> bytes:
        """Return the messages of some rows: few enough for their bytes to stay in the processor's cache."""
        pieces = [piece for piece_of_all in self.pieces if (piece := piece_of_all.of(rows)) is not None]
        line = np.concatenate([piece.raw[:1] for piece in pieces], axis=1)
        raw = np.empty((len(pieces[0].raw), line.shape[1]), np.uint8)
        raw[:] = line  # what all rows have in common is copied at once
        optional = any(piece.present is not None for piece in pieces)
        present = np.ones(raw.shape, np.bool_) if optional else None
        first = 0
        for piece in pieces:
            last = first + piece.raw.shape[1]
            if piece.raw.strides[0]:
                _copy(piece.raw, raw, first)
            if present is not None and piece.present is not None:
                present[:, first:last] = piece.present
            first = last
        return raw.tobytes() if present is None else raw[present].tobytes()

    def only(self, rows: Bools) -> Part:
        """Return the part, absent where ``rows`` is false."""
        if rows.all():
            return self
        each = rows[:, None]
        pieces = (Piece(p.raw, each if p.present is None else p.present & each) for p in self.pieces)
        return Part(tuple(pieces), np.where(rows, self.length, 0))


def _copy(columns: Bytes, into: Bytes, first: int) -> None:
    """Copy columns of bytes into a matrix, each row's as one item: short rows take far longer."""
    n, width = columns.shape
    item = np.dtype(f"<u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
    if not (n and width and columns.flags.c_contiguous):
        into[:, first : first + width] = columns
        return
    places = np.ndarray((n,), item, into.data, first, (into.strides[0],))
    places[:] = columns.view(item)[:, 0]


def constant(rows: int, raw: bytes) -> Part:
    """Return the same bytes for every row."""
    line = np.frombuffer(raw, np.uint8)
    return Part((Piece(np.broadcast_to(line, (rows, len(line)))),), len(line))


def joined(*parts: Part) -> Part:
    """Return parts one behind the other."""
    length: Ints | int = 0
    for part in parts:
        length = length + part.length
    return Part(tuple(piece for part in parts for piece in part.pieces), length)


def varints(values: Ints | NDArray[Any]) -> Part:
    """Return whole numbers as varints, all as long as the longest; negative ones take ten bytes.

    Notes
    -----
    A varint may end in groups of zeros: readers take it for the same number. Perfetto's own writer makes
    lengths so, to write them before they are known. Rows of one length need no selection of bytes.
    """
    bits = np.ascontiguousarray(values, np.int64).view(np.uint64)
    if not len(bits):
        return constant(0, b"")
    lowest, highest = int(bits.min()), int(bits.max())
    if lowest == highest:
        return constant(len(bits), varint(highest))
    width = min((highest.bit_length() + 6) // 7, _LONGEST)
    raw = np.empty((len(bits), width), np.uint8)
    for i in range(width):
        raw[:, i] = (bits >> np.uint64(7 * i)) & np.uint64(0x7F)
    raw[:, :-1] |= np.uint8(0x80)
    return Part((Piece(raw),), width)


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def varint(value: int) -> bytes:
    """Return one varint.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def whole_field(number: int, values: Ints | NDArray[Any]) -> Part:
    """Return a field of whole numbers."""
    return joined(constant(len(values), _tag(number, _VARINT)), varints(values))


def double_field(number: int, values: Floats) -> Part:
    """Return a field of doubles."""
    raw = np.ascontiguousarray(values, "<f8").view(np.uint8).reshape(len(values), 8)
    return joined(constant(len(values), _tag(number, _FIXED64)), Part((Piece(raw),), 8))


def fixed_field(number: int, values: NDArray[Any]) -> Part:
    """Return a field of whole numbers of eight bytes each."""
    raw = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(len(values), 8)
    return joined(constant(len(values), _tag(number, _FIXED64)), Part((Piece(raw),), 8))


def message_field(number: int, *parts: Part) -> Part:
    """Return a field that holds a message made of parts."""
    body = joined(*parts)
    rows = len(body.pieces[0].raw)
    tag = _tag(number, _LENGTH)
    if isinstance(body.length, int):
        return joined(constant(rows, tag + varint(body.length)), body)
    return joined(constant(rows, tag), varints(body.length), body)


def one_whole(number: int, value: int) -> bytes:
    """Return a field with one whole number."""
    return _tag(number, _VARINT) + varint(value)


def one_bytes(number: int, raw: bytes | str) -> bytes:
    """Return a field with one text or message."""
    body = raw.encode("utf-8", "replace") if isinstance(raw, str) else raw
    return _tag(number, _LENGTH) + varint(len(body)) + body
