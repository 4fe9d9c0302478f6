"""Memory of a read, predicted from what a file declares: a failed allocation ends the process."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput

#: Below this many bytes a high ratio or a low limit is no danger.
HARMLESS_BYTES: Final = 256 << 20
#: A read predicted to take less than this is never refused: the interpreter takes twice as much.
SMALL_BYTES: Final = 64 << 20
#: Taken for available where the system does not state it. [bytes]
UNKNOWN_BYTES: Final = 8 << 30
#: Address space the allocators and threads reserve beyond what they use, and what Arrow's SQLite driver adds;
#: counts only under a limit of the address space. Measured with ``benchmarks/ingest.py`` on Linux. [bytes]
RESERVED_BYTES, DRIVER_BYTES = 1 << 30, 768 << 20
#: Memory held for each byte of a decoded column while a table is made from it: the column and one copy.
COPIES = 2
_WIDTHS = {pl.Boolean: 1, pl.Int8: 1, pl.UInt8: 1, pl.Int16: 2, pl.UInt16: 2, pl.Int32: 4, pl.UInt32: 4,
           pl.Float32: 4, pl.Date: 4, pl.Categorical: 4, pl.Enum: 4}  # fmt: skip
#: A reference to a text, and any 8-byte number, rounded up. [bytes]
_TEXT_WIDTH, _WIDTH = 16, 8
_ARENAS = -8  # M_ARENA_MAX of the GNU C library


def ratio_cap(default: float = 200.0) -> float:
    """Return the highest ratio of unpacked to packed size that is accepted.

    ``TRACETOOL_MAX_GZ_RATIO`` overrides it.
    """
    text = os.environ.get("TRACETOOL_MAX_GZ_RATIO", "")
    try:
        return max(1.0, float(text)) if text else default
    except ValueError as error:
        raise BadInput(f"TRACETOOL_MAX_GZ_RATIO={text!r} is not a number", "give e.g. 500") from error


def share_arenas() -> None:
    """Let all threads allocate from two arenas: one each takes an eighth more memory and reserves 1 GiB."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems, other libraries
        ctypes.CDLL(None).mallopt(_ARENAS, 2)


def available_bytes(*, driver: bool = False) -> int:
    """Return the memory this process may still take: of the machine, its control group and its own limits.

    Parameters
    ----------
    driver : bool
        Whether the SQLite driver is going to be used, which reserves more address space.
    """
    limits = [*_machine(), *_groups(), *_limits(RESERVED_BYTES + (DRIVER_BYTES if driver else 0))]
    return max(0, min(limits, default=UNKNOWN_BYTES))


def _number(path: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(path).read_text("ascii"))
    return None


def _machine() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return


def _groups() -> Iterator[int]:
    """Yield what control groups leave, versions 2 and 1, as a container sees its own."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, now = _number(limit), _number(used)
        if most is not None and now is not None and most < 1 << 60:
            yield most - now


def _limits(reserved: int) -> Iterator[int]:
    """Yield what limits of the process leave (``ulimit -v``, ``ulimit -d``)."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    resident = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE")
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY:
            yield most - resident - reserved


def check_memory(path: str | os.PathLike[str], needed: float, what: str, *, driver: bool = False) -> None:
    """Refuse a read that would not fit.

    Parameters
    ----------
    path : path
        The file, for the message.
    needed : float
        Memory the read is predicted to take. [bytes]
    what : str
        What takes it, e.g. ``1,000,000 rows``.
    driver : bool
        See :func:`available_bytes`.

    Raises
    ------
    BadInput
        If less is available.
    """
    if needed <= SMALL_BYTES:
        return
    available = available_bytes(driver=driver)
    if needed > available:
        raise BadInput.in_file(
            path,
            f"{what} take about {needed / 2**30:.1f} GiB of memory,"
            f" {available / 2**30:.1f} GiB are available",
            "raise the limit, free memory, or split the file",
        )


def check_parquet(
    path: Path, columns: Sequence[str] | None = None, *, per_row: int = 0, max_ratio: float | None = None
) -> None:
    """Refuse a Parquet or Arrow file whose rows would not fit, from what it declares.

    Parameters
    ----------
    path : Path
        The file. One that is broken is left to its reader.
    columns : sequence of str, optional
        Those that are read; all by default.
    per_row : int
        Further memory each row takes in what is made of it. [bytes]
    max_ratio : float, optional
        Highest ratio of the columns' size to the file's; see :func:`ratio_cap`.

    Raises
    ------
    BadInput
        If it declares rows whose columns are larger than ``max_ratio`` times the file (and
        :data:`HARMLESS_BYTES`), or that need more memory than is available.
    """
    try:
        stat = path.stat()
        parquet, schema, rows = _declared(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        return
    read = {n: kind for n, kind in schema.items() if columns is None or n in columns}
    decoded = rows * sum(_width(kind) for kind in read.values())
    nested = {n for n, kind in read.items() if kind.is_nested()}
    if nested and parquet:
        decoded += _nested(path, nested)
    cap = max(HARMLESS_BYTES, ratio_cap(max_ratio or 200.0) * stat.st_size)
    if decoded > cap:
        raise BadInput.in_file(
            path,
            f"declares {rows:,} rows, {decoded / 2**30:.1f} GiB from {stat.st_size / 1e6:.1f} MB",
            "set TRACETOOL_MAX_GZ_RATIO higher if it is real",
        )
    check_memory(path, COPIES * decoded + rows * per_row, f"its {rows:,} rows")


@lru_cache(maxsize=64)
def _declared(path: Path, _version: tuple[int, ...]) -> tuple[bool, pl.Schema, int]:
    """Return whether a file is Parquet, its columns and rows: a run's tables are read in several parts."""
    parquet = _is_parquet(path)
    scan = pl.scan_parquet(path, glob=False) if parquet else pl.scan_ipc(path, glob=False)
    return parquet, scan.collect_schema(), int(scan.select(pl.len()).collect().item())


def _width(kind: pl.DataType) -> int:
    if isinstance(kind, pl.String | pl.Binary):
        return _TEXT_WIDTH
    return _WIDTHS.get(kind.base_type(), _WIDTH)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as f:
        return f.read(4) == b"PAR1"


def _nested(path: Path, names: Collection[str]) -> int:
    """Return the size of the content of lists and structures, which a count of rows omits. [bytes]"""
    # Takes a second to load, and tables hardly ever have such columns.
    import pyarrow.parquet as pq  # noqa: PLC0415

    footer = pq.ParquetFile(path).metadata
    values = 0
    for group in range(footer.num_row_groups):
        chunks = (footer.row_group(group).column(i) for i in range(footer.num_columns))
        values += sum(c.num_values for c in chunks if c.path_in_schema.split(".")[0] in names)
    return values * _TEXT_WIDTH
