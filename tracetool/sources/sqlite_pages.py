"""SQLite tables as the pages of their file: where the rows of a table lie, found without reading a cell.

The layout is that of "Database File Format", sqlite.org/fileformat2.html, which is promised to stay.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracetool.vocabulary.arrays import Ints

Bytes = NDArray[np.uint8]
_INTERIOR, _LEAF = 0x05, 0x0D
#: No table is deeper: twenty levels of two children each outgrow the largest file.
_DEEPEST = 20
#: Bytes of pages decoded at once: they stay in the processor's cache.
BLOCK_BYTES = 4 << 20


class OddFile(Exception):  # noqa: N818 - not a fault: the file is then read by SQLite itself
    """The pages are not laid out as a sound file's are."""


@dataclass(frozen=True)
class Column:
    """One stored column: its place in the row, its declared type, whether it is another name of the rowid."""

    place: int
    affinity: str
    is_rowid: bool
    has_default: bool


@dataclass(frozen=True)
class Pages:
    """A database file.

    Parameters
    ----------
    path : Path
        The file.
    size, usable : int
        Bytes of a page, and without what extensions reserve. [B]
    count : int
        Whole pages in the file.
    """

    path: Path
    size: int
    usable: int
    count: int

    @classmethod
    def of(cls, path: Path) -> Pages:
        """Read the file's header."""
        with path.open("rb") as file:
            head = file.read(100)
        if len(head) < 100 or int.from_bytes(head[56:60], "big") not in (0, 1):  # text other than UTF-8
            raise OddFile
        size = int.from_bytes(head[16:18], "big")
        size = 65_536 if size == 1 else size
        if size < 512 or size & (size - 1):
            raise OddFile
        return cls(path, size, size - head[20], path.stat().st_size // size)

    def load(self, pages: Ints) -> Bytes:
        """Return pages one behind the other, with a few bytes to spare."""
        made = np.zeros(len(pages) * self.size + 16, dtype=np.uint8)
        view = made.data
        breaks = np.flatnonzero(np.diff(pages) != 1) + 1
        with self.path.open("rb", buffering=0) as file:
            for first, last in pairwise([0, *breaks.tolist(), len(pages)]):
                part = view[first * self.size : last * self.size]
                file.seek((int(pages[first]) - 1) * self.size)
                if file.readinto(part) != len(part):
                    raise OddFile
        return made

    def leaves(self, root: int) -> Ints:
        """Return the leaf pages of a table, in the order of its rows."""
        level = np.array([root], dtype=np.int64)
        for _ in range(_DEEPEST):
            if level.min() < 2 or level.max() > self.count or len(level) > self.count:
                raise OddFile
            kinds = self._kinds(level)
            if (kinds == _LEAF).all():
                if len(np.unique(level)) < len(level):
                    raise OddFile
                return level
            if not (kinds == _INTERIOR).all():
                raise OddFile
            below = []
            for block in self.blocks(level):
                raw = self.load(block)
                base, cell = cells_of(raw, len(block), self.size, header=12)
                children = np.concatenate([big_endian(raw, cell, 4), big_endian(raw, np.unique(base) + 8, 4)])
                # The last child stands in the page's header, behind those of its cells.
                order = np.argsort(np.concatenate([base, np.unique(base)]), kind="stable")
                below.append(children[order])
            level = np.concatenate(below)
        raise OddFile

    def _kinds(self, level: Ints) -> Bytes:
        """Return the kind of pages; those below the first are alike in sound files, so a few tell."""
        asked = level if len(level) < 64 else level[:: max(1, len(level) // 64)]
        with self.path.open("rb", buffering=0) as file:
            kinds = []
            for page in asked.tolist():
                file.seek((page - 1) * self.size)
                kinds.append(file.read(1))
        return np.frombuffer(b"".join(kinds), dtype=np.uint8)

    def blocks(self, pages: Ints) -> Iterator[Ints]:
        """Cut a list of pages into blocks."""
        many = max(1, BLOCK_BYTES // self.size)
        for at in range(0, len(pages), many):
            yield pages[at : at + many]


def cells_of(raw: Bytes, pages: int, size: int, header: int) -> tuple[Ints, Ints]:
    """Return of each cell where its page starts and where it starts itself.

    Parameters
    ----------
    raw : array of uint8
        From :meth:`Pages.load`.
    pages, size : int
        How many, and bytes of each.
    header : int
        Bytes of a page's header: 8 for leaves, 12 for pages above them.
    """
    start = np.arange(pages, dtype=np.int64) * size
    if (raw[start] != (_LEAF if header == 8 else _INTERIOR)).any():
        raise OddFile
    many = big_endian(raw, start + 3, 2)
    if (many * 2 + header > size).any():
        raise OddFile
    base = np.repeat(start, many)
    nth = np.arange(len(base), dtype=np.int64) - np.repeat(np.cumsum(many) - many, many)
    inside = big_endian(raw, base + header + 2 * nth, 2)
    if len(inside) and (inside.max() > size - 4 or inside.min() < header):
        raise OddFile
    return base, base + inside


def big_endian(raw: Bytes, at: Ints, width: int) -> Ints:
    """Return unsigned numbers of some bytes each."""
    made = raw.take(at, mode="clip").astype(np.int64)
    for more in range(1, width):
        made <<= 8
        made |= raw.take(at + more, mode="clip")
    return made


def varints(raw: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return SQLite's numbers of 1 to 9 bytes, and how many bytes each takes."""
    byte = raw.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.int64)
    length = np.ones(len(at), dtype=np.int64)
    more = np.flatnonzero(byte >= 0x80)
    for nth in range(1, 9):
        if not len(more):
            break
        byte = raw.take(at[more] + nth, mode="clip")
        last = nth == 8  # the ninth byte counts whole
        value[more] = (value[more] << (8 if last else 7)) | (byte if last else byte & 0x7F)
        length[more] += 1
        more = more[byte >= 0x80]
    return value, length


def table_layout(db: sqlite3.Connection, table: str) -> tuple[int, dict[str, Column]]:
    """Return the root page of a table and its columns by lower-case name.

    Raises
    ------
    OddFile
        If it is a view, has no row numbers or holds columns that are not stored.
    """
    found = db.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    try:
        db.execute(f'SELECT rowid FROM "{table}" LIMIT 0')  # noqa: S608 - a name from the catalogue
        rows = db.execute(
            "SELECT name, type, dflt_value, pk, hidden FROM pragma_table_xinfo(?)", (table,)
        ).fetchall()
    except sqlite3.OperationalError as error:
        raise OddFile from error
    if found is None or not isinstance(found[0], int) or any(hidden for *_, hidden in rows):
        raise OddFile
    keys = sum(bool(pk) for *_, pk, _ in rows)
    return found[0], {
        str(name).lower(): Column(
            place, str(kind).upper(), bool(pk) and keys == 1 and str(kind).upper() == "INTEGER",
            default not in (None, "NULL"),
        )
        for place, (name, kind, default, pk, _) in enumerate(rows)
    }  # fmt: skip
