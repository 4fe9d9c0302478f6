"""Variable-length integers of Protocol Buffers, written and read apart from the tool's own code.

The encoding is that of https://protobuf.dev/programming-guides/encoding/#varints.
"""

from __future__ import annotations


def write_varint(value: int) -> bytes:
    """Return a number, taken modulo 2**64, in groups of seven bits, the lowest first."""
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, modulo 2**64, and the place of the byte after it."""
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value % 2**64, at
