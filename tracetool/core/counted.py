"""Counts with their nouns."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "GPU"), counted(2, "GPU"), counted(1500, "signature"), counted(2, "copy", "copies")
    ('1 GPU', '2 GPUs', '1,500 signatures', '2 copies')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
