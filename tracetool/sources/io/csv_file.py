"""CSV files by column name: typed at full speed where they are clean, cell by cell where they are not."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.io.text import GZIP_MAGIC, decode, head_bytes, unpacked_bytes


def header_names(line: str) -> list[str]:
    r"""Return a header's column names, quotes stripped.

    >>> header_names('"Kind","Agent_Id", Queue_Id')
    ['Kind', 'Agent_Id', 'Queue_Id']
    """
    return [name.strip().strip('"').strip() for name in line.lstrip("\ufeff").split(",")]


def header_line(path: Path) -> str:
    """Return the first line of a file, in any encoding that :func:`read_csv` reads."""
    return next(iter(decode(head_bytes(path)[0]).splitlines()), "")


def has_columns(line: str, *names: str) -> bool:
    """Return whether a header line names all of these, in any case and order."""
    header = {name.lower() for name in header_names(line)}
    return all(name.lower() in header for name in names)


def read_csv(
    path: Path, columns: Mapping[str, tuple[Sequence[str], pl.DataType]], max_ratio: float | None = None
) -> pl.DataFrame:
    """Return columns of a CSV file, found by name in any case.

    Parameters
    ----------
    path : Path
        Plain or gzip.
    columns : mapping of str to (spellings, type)
        Column to make, the headers it may stand under, and its type.
    max_ratio : float, optional
        See :func:`tracetool.sources.io.text.unpacked_chunks`.

    Returns
    -------
    DataFrame
        ``line`` (number in the file, 1 for the header) and the requested columns, null where there is no
        such header or the cell is not of the type.

    Raises
    ------
    BadInput
        If it is no CSV at all.
    """
    plain = _is_plain(path)
    raw = b"" if plain else _bytes(path, max_ratio)
    head_raw = head_bytes(path)[0] if plain else raw[: 1 << 16]
    head = head_raw.split(b"\n", 1)[0].decode("utf-8", "replace")
    spelled = {name.lower(): at for at, name in reversed(list(enumerate(header_names(head))))}
    places = {
        column: next((spelled[s.lower()] for s in spellings if s.lower() in spelled), None)
        for column, (spellings, _) in columns.items()
    }
    frame = None
    if not _has_longer(path, raw, head.count(",")):
        frame = _typed(path if plain else raw, head_raw, places, columns)
    if frame is None:
        frame = _lenient(path, raw or _bytes(path, max_ratio), places, columns)
    absent = [pl.lit(None, dtype=columns[c][1]).alias(c) for c, at in places.items() if at is None]
    return (
        frame.with_columns(absent)
        .with_row_index("line", offset=2)
        .with_columns(pl.col("line").cast(pl.Int64))
    )


def _bytes(path: Path, max_ratio: float | None) -> bytes:
    raw = unpacked_bytes(path, max_ratio)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw = decode(raw).encode()
    if raw[:2] == GZIP_MAGIC:
        raise BadInput.in_file(path, "is gzip within gzip", "unpack it once")
    return raw.removeprefix(b"\xef\xbb\xbf")


#: Commas are counted in tables of at most this many bytes.
_COUNTED = 1 << 25
#: A quoted cell in one line.
_QUOTED = re.compile(r'"[^"\n]*"')
Wanted = Mapping[str, tuple[Sequence[str], pl.DataType]]


def _is_plain(path: Path) -> bool:
    """Return whether a file can be read in place: no gzip, no UTF-16."""
    with path.open("rb") as f:
        return f.read(2) not in (GZIP_MAGIC, b"\xff\xfe", b"\xfe\xff")


def _typed(
    source: Path | bytes, head: bytes, places: Mapping[str, int | None], columns: Wanted
) -> pl.DataFrame | None:
    """Return the columns at full speed, None where a row or cell is not what it should be."""
    present = {c: at for c, at in places.items() if at is not None}
    at_once = sorted(set(present.values()))
    if len(at_once) != len(present):
        return None
    try:
        frame = pl.read_csv(
            source, columns=at_once, infer_schema=False, has_header=True,
            schema_overrides=_by_place(head, present, columns), encoding="utf8-lossy",
        )  # fmt: skip
    except (pl.exceptions.PolarsError, ValueError, OSError):
        return None
    names = {at: c for c, at in present.items()}
    if frame.width != len(at_once):
        return None
    kinds = [columns[names[at]][1] for at in at_once]
    if any(frame.dtypes[i] != kind for i, kind in enumerate(kinds)):  # a header that can be read in two ways
        return None
    return frame.rename(dict(zip(frame.columns, [names[at] for at in at_once], strict=True)))


def _by_place(raw: bytes, present: Mapping[str, int], columns: Wanted) -> dict[str, pl.DataType]:
    head = pl.read_csv(raw.split(b"\n", 1)[0] + b"\n", infer_schema=False, encoding="utf8-lossy")
    return {head.columns[at]: columns[c][1] for c, at in present.items() if at < head.width}


def _lenient(path: Path, raw: bytes, places: Mapping[str, int | None], columns: Wanted) -> pl.DataFrame:
    """Return the columns of a file with torn or odd rows: cells that do not fit are null."""
    text = raw.replace(b"\0", b" ")
    try:
        with warnings.catch_warnings(record=True) as parser_warnings:
            warnings.simplefilter("always")
            frame = pl.read_csv(
                text, has_header=True, infer_schema=False, truncate_ragged_lines=True, ignore_errors=True,
                encoding="utf8-lossy", raise_if_empty=False,
            )  # fmt: skip
    except (pl.exceptions.PolarsError, ValueError, OSError):
        frame = _line_by_line(path, text)
    else:
        if parser_warnings:  # rows within a quote that never closes: it only warns of them
            frame = _line_by_line(path, text)
    longer = _longer(text, frame)
    if longer is not None:
        frame = frame.select(pl.when(~longer).then(pl.all()))
    cells = []
    for column, at in places.items():
        if at is None:
            continue
        if at >= frame.width:
            cells.append(pl.lit(None, dtype=columns[column][1]).alias(column))
            continue
        cell = pl.col(frame.columns[at]).str.strip_chars().str.strip_chars('"')
        cells.append(cell.cast(columns[column][1], strict=False).alias(column))
    return frame.select(cells) if cells else pl.DataFrame({"#": [None] * frame.height}).select()


def _has_longer(path: Path, raw: bytes, most: int) -> bool:
    """Return whether some row has more cells than the header; only for small tables without quotes."""
    if not raw and path.stat().st_size <= _COUNTED:
        raw = path.read_bytes()
    if not raw or len(raw) > _COUNTED or b'"' in raw:
        return False
    return raw.count(b",") > most * (raw.count(b"\n") + (not raw.endswith(b"\n")))


def _longer(text: bytes, frame: pl.DataFrame) -> pl.Series | None:
    """Return which rows have more cells than the header, as decimal commas make them; None where none has."""
    plain = pl.Series([_QUOTED.sub("", text.decode("utf-8", "replace"))]).str.split("\n").explode()
    cells = plain.str.strip_chars_end(", \t\r").str.count_matches(",", literal=True)
    rows = cells[1:]
    if len(rows) and not plain[-1]:
        rows = rows[:-1]
    more: pl.Series = rows > int(plain[0].count(","))
    return more if len(rows) == frame.height and more.any() else None


def _line_by_line(path: Path, text: bytes) -> pl.DataFrame:
    """Read what even the lenient reader refuses (a quote that never closes)."""
    import csv

    lines = io.StringIO(text.decode("utf-8", "replace"), newline="")
    limit = csv.field_size_limit(1 << 24)
    try:
        rows = []
        for line in lines:
            try:
                rows.append(next(csv.reader([line]), []))
            except csv.Error:
                rows.append([])
    finally:
        csv.field_size_limit(limit)
    if not rows or not rows[0]:
        raise BadInput.in_file(path, "is not a CSV table", "copy it again")
    width = len(rows[0])
    columns = {f"{i}": [r[i] if i < len(r) else None for r in rows[1:]] for i in range(width)}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
