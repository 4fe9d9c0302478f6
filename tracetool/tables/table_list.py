"""The list of tables in ``run.json``, and the checks that a run's tables match it and one another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.paths import regular_file
from tracetool.tables.library_output import muted_panics
from tracetool.tables.run_folder import RUN_TABLES

#: The column that numbers the rows of a table.
KEYS: Final = {
    "signatures": "signature",
    "devices": "device",
    "operators": "operator",
    "ranges": "range",
    "modules": "module",
}
#: The table each column of a table refers to.
_REFERENCES: Final = {
    "kernels": {
        "signature": "signatures",
        "device": "devices",
        "operator": "operators",
        "range": "ranges",
        "module": "modules",
    },
    "telemetry": {"device": "devices"},
    "measured_work": {"signature": "signatures"},
}


@dataclass(frozen=True)
class RowNumbers:
    """The numbers of a table's rows, small where they count from 0 as in every table this tool wrote."""

    count: int
    #: None where they count from 0 without a gap: no look at each of millions of rows is needed.
    listed: pl.Series | None

    @classmethod
    def of(cls, keys: pl.Series) -> RowNumbers:
        """Return the numbers in a table's key column."""
        dense = keys.min() == 0 and keys.max() == len(keys) - 1 and keys.n_unique() == len(keys)
        return cls(len(keys), None if dense else keys)

    def hold(self, column: pl.Series) -> bool:
        """Return whether every number of a column that refers to the table is there."""
        low, high = column.min(), column.max()
        if not isinstance(low, int) or not isinstance(high, int):
            return True  # no row refers to any
        if self.listed is None:
            return low >= 0 and high < self.count
        return bool(column.drop_nulls().is_in(self.listed.cast(column.dtype).implode()).all())


#: Longest duration a run may hold. [ns] A prior: three years.
LONGEST_NS = 10**17


#: Largest power, energy, clock, count or time that a table may hold. [W], [J], [MHz], [1], [s] A prior: a
#: counter of joules that ran for thirty years at a megawatt.
LARGEST_FIGURE = 1e15


def impossible_figure(name: str, frame: pl.DataFrame) -> str:
    """Return a figure in a table of a run that cannot have been measured, empty where all may be.

    Parameters
    ----------
    name : str
        The table.
    frame : DataFrame
        Its rows, or some of its columns.
    """
    longest = frame["duration_ns"].max() if "duration_ns" in frame.columns else None
    if isinstance(longest, int) and longest > LONGEST_NS:
        return f"holds a duration of {longest} ns"
    for column, dtype in frame.schema.items() if name == "signatures" else ():
        if dtype == pl.Float64 and column.startswith("duration") and frame[column].is_infinite().any():
            return f"holds a {column} without end"
    for column, dtype in frame.schema.items() if name == "telemetry" else ():
        largest = frame[column].abs().max() if dtype == pl.Float64 else None
        if isinstance(largest, float) and largest > LARGEST_FIGURE:
            return f"holds a {column} of {largest:g}, which nobody measures"
    return ""


def broken_reference(name: str, frame: pl.DataFrame, row_numbers: Callable[[str], RowNumbers | None]) -> str:
    """Return the broken reference in a table of a run, empty without one.

    Parameters
    ----------
    name : str
        The table.
    frame : DataFrame
        Its rows, or some of its columns.
    row_numbers : callable
        Table to its numbers, None for one that the run was written without.
    """
    key = KEYS.get(name)
    if key in frame.columns and not frame[key].is_unique().all():
        return f"two rows have one {key}"
    for column, table in _REFERENCES.get(name, {}).items():
        if column not in frame.columns:
            continue
        numbers = row_numbers(table)
        if numbers is not None and not numbers.hold(frame[column]):
            return f"holds a {column} that {table}.parquet does not have"
    return ""


_FIX = "ingest the trace again"
#: What shows that a file was replaced or changed since it was checked: inode, bytes, change time.
Stamp = tuple[int, int, int]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in chunks."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def listed_table(file: Path, tag: str, rows: int) -> dict[str, Any]:
    """Return the entry of one table in ``run.json``: schema, rows, bytes and SHA-256 of its file."""
    return {"schema": tag, "rows": rows, "bytes": file.stat().st_size, "sha256": file_sha256(file)}


def row_count(file: Path) -> int:
    """Return the rows of a Parquet file, from its footer."""
    return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())


def stamp_of(file: Path) -> Stamp:
    """Return a stamp that changes when a file is replaced or written."""
    stat = file.stat()
    return stat.st_ino, stat.st_size, stat.st_ctime_ns


def check_tables(folder: Path, listed: object) -> dict[str, Stamp]:
    """Check every table of a run against the list and return their stamps.

    Parameters
    ----------
    folder : Path
        The run.
    listed : mapping
        ``tables`` of its ``run.json``.

    Raises
    ------
    BadInput
        If the list is broken, or a table is missing, changed, of another run or not on the list.

    Notes
    -----
    The whole checksum each time: a run of a million kernels is 19 MB and takes 15 ms, one hundredth of the
    quickest command that reads it.
    """
    if not isinstance(listed, Mapping) or not all(isinstance(v, Mapping) for v in listed.values()):
        raise BadInput.in_file(folder / "run.json", "holds no list of tables", _FIX)
    stamps = {}
    for name in RUN_TABLES:
        file = folder / f"{name}.parquet"
        if name in listed:
            stamps[name] = _checked(file, listed[name])
        elif file.exists():
            raise BadInput.in_file(
                file, "is not a table of this run (run.json does not list it)", "remove it"
            )
    return stamps


def _checked(file: Path, expected: Mapping[str, Any]) -> Stamp:
    try:
        if file.exists():
            regular_file(file, _FIX)
        stamp = stamp_of(file)
        if stamp[1] == expected.get("bytes") and file_sha256(file) == expected.get("sha256"):
            return stamp
    except FileNotFoundError as error:
        raise BadInput.in_file(file, "is missing: run.json lists it", _FIX) from error
    except OSError as error:
        raise BadInput.in_file(file, f"cannot be read: {error.strerror or error}", _FIX) from error
    raise BadInput.in_file(file, _difference(file, expected), _FIX)


def _difference(file: Path, expected: Mapping[str, Any]) -> str:
    try:
        with muted_panics():
            rows = row_count(file)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return "is cut short or damaged (not a whole Parquet file)"
    if rows != expected.get("rows"):
        return f"holds {rows} rows, run.json lists {expected.get('rows')}: cut short or of another run"
    return "was changed or is of another run (its checksum is not the one run.json lists)"
