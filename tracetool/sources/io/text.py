"""Bytes of a file as text, whatever wrote it: gzip, UTF-16, broken UTF-8, NULs."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from tracetool.tables.unpacked import GZIP_MAGIC, content_bytes, decode, unpacked_bytes, unpacked_chunks

__all__ = [
    "GZIP_MAGIC", "HEAD_BYTES", "content_bytes", "decode", "head_bytes", "read_text", "unpacked_bytes",
    "unpacked_chunks",
]  # fmt: skip

HEAD_BYTES = 65_536


def read_text(path: Path, max_ratio: float | None = None) -> str:
    """Return the whole file as text."""
    return decode(unpacked_bytes(path, max_ratio))


def head_bytes(path: Path) -> tuple[bytes, bool]:
    """Return the first bytes, unpacked, and whether the file is gzip. A torn gzip gives what there is."""
    with path.open("rb") as f:
        # a file of no size is empty, or a stream of the system's (/proc/kmsg) that waits for more
        raw = f.read(HEAD_BYTES) if os.fstat(f.fileno()).st_size else b""
    if raw[:2] != GZIP_MAGIC:
        return raw, False
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, HEAD_BYTES), True
    except zlib.error:
        return b"", True
