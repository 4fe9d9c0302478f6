"""Bytes of a file, unpacked where it is gzip, of no more than its size and the memory allow."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from tracetool.core.errors import BadInput
from tracetool.tables.memory import HARMLESS_BYTES, available_bytes, ratio_cap

GZIP_MAGIC = b"\x1f\x8b"
#: The length of the content at the end of a gzip file, modulo 4 GiB. Source: RFC 1952, section 2.3.1. [bytes]
_LENGTH_BYTES = 4


def decode(raw: bytes) -> str:
    r"""Return text from bytes: byte-order marks honored, broken UTF-8 replaced.

    >>> decode("a,b".encode("utf-16")), decode(b"a\xffb")
    ('a,b', 'a\ufffdb')
    """
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", errors="replace")
    if raw[:3] == b"\xef\xbb\xbf":
        raw = raw[3:]
    return raw.decode("utf-8", errors="replace")


def unpacked_chunks(path: Path, max_ratio: float | None = None, chunk: int = 1 << 20) -> Iterator[bytes]:
    """Yield the unpacked bytes of a gzip file (all its members), or of a plain one, in chunks.

    Raises
    ------
    BadInput
        If it is cut short, corrupt, or grows beyond ``max_ratio`` times its size.
    """
    cap = max(HARMLESS_BYTES, ratio_cap(max_ratio or 200.0) * path.stat().st_size)
    total = 0
    with path.open("rb") as f:
        first = f.read(2)
        f.seek(0)
        if first != GZIP_MAGIC:
            while block := f.read(chunk):
                yield block
            return
        unpack = zlib.decompressobj(wbits=31)
        block = f.read(chunk)
        while block:
            try:
                out = unpack.decompress(block, chunk * 4)
            except zlib.error as error:
                raise BadInput.in_file(path, f"is corrupt gzip near byte {f.tell()}: {error}") from error
            total += len(out)
            if total > cap:
                raise BadInput.in_file(
                    path,
                    f"unpacks to more than {cap / 1e6:.0f} MB",
                    "set TRACETOOL_MAX_GZ_RATIO higher if it is real",
                )
            if out:
                yield out
            if unpack.eof:
                block = unpack.unused_data.lstrip(b"\0") or f.read(chunk)
                if not block:
                    return
                unpack = zlib.decompressobj(wbits=31)
            else:
                block = unpack.unconsumed_tail or f.read(chunk)
        if not unpack.eof:
            raise BadInput.in_file(path, "is gzip cut short", "copy the file again")


def content_bytes(path: Path) -> int:
    """Return how many bytes a file unpacks to; of gzip as its end states, which readers check as they go."""
    size = path.stat().st_size
    with path.open("rb") as f:
        if f.read(2) != GZIP_MAGIC or size < _LENGTH_BYTES:
            return size
        f.seek(-_LENGTH_BYTES, 2)
        return max(size, int.from_bytes(f.read(_LENGTH_BYTES), "little"))


def unpacked_bytes(path: Path, max_ratio: float | None = None) -> bytes:
    """Return the whole file, unpacked if it is gzip.

    Raises
    ------
    BadInput
        As :func:`unpacked_chunks`; if it does not fit into memory.
    """
    chunks = []
    total = 0
    most = max(HARMLESS_BYTES, available_bytes() // 2)  # the pieces, and the whole they are joined to
    for chunk in unpacked_chunks(path, max_ratio):
        chunks.append(chunk)
        total += len(chunk)
        if total > most:
            raise BadInput.in_file(
                path, f"holds more than the {most / 2**30:.1f} GiB that fit into memory", "split the file"
            )
    return b"".join(chunks)
