"""Files named more than once: their kernels and readings would be counted as often."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tracetool.tables.run import file_sha256

_Named = TypeVar("_Named")


def without_repeats(
    named: Sequence[_Named], path_of: Callable[[_Named], Path]
) -> tuple[list[_Named], list[str]]:
    """Return the files named, without repeats of an earlier one, and a sentence on each left out.

    Sentences name the file that counts: a redacted run knows no other. Only files of one size are summed.
    Folders count as repeated where they are the same.

    >>> without_repeats([Path("a.csv"), Path("b.csv")], Path)[1]
    []
    """
    earlier: dict[tuple[object, ...], Path] = {}
    sizes = [path.stat().st_size if (path := path_of(one)).is_file() else 0 for one in named]
    repeated = {size for size in sizes if size and sizes.count(size) > 1}
    first_named, sentences = [], []
    for one, size in zip(named, sizes, strict=True):
        path = path_of(one)
        if path.is_fifo():  # two reads of a pipe differ
            first_named.append(one)
            continue
        key = (size, file_sha256(path)) if size in repeated else (os.path.realpath(path),)
        if (first := earlier.setdefault(key, path)) is path:
            first_named.append(one)
        elif os.path.realpath(first) == os.path.realpath(path):
            sentences.append(f"{first} is named more than once: it counts once")
        else:
            sentences.append(f"{first}: another file holds the same: it counts once")
    return first_named, sentences
