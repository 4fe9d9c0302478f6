"""The shape of a plug-in: what one file of ``sources/formats`` defines, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from tracetool.core.progress import Progress, Silent

if TYPE_CHECKING:
    from tracetool.sources.spill import Spill

Domain = Literal["utc", "local", "boot", "session", "none"]
#: Start of 2015 (UTC): nanoseconds before it are not since 1970. [ns] A prior: no trace read is older.
NS_2015: Final = 1_420_070_400_000_000_000


@dataclass(frozen=True)
class Clock:
    """Clock of a source's times, and what it states of the others.

    Parameters
    ----------
    domain : str
        ``utc`` (since 1970), ``local`` (wall clock without a zone, as if it were UTC), ``boot``
        (since the host booted), ``session`` (since the profiler started) or ``none`` (no times at all).
    to_utc_ns : int, optional
        What to add to reach UTC, where the source states it. [ns]
    error_ns : float
        Typical error of the step to UTC, one standard deviation. [ns]
    local_offset_ns : int, optional
        Local wall clock of the recording host minus UTC, where the source states it. [ns]
    basis : str
        Where this knowledge comes from, for ``run.json``.
    """

    domain: Domain
    to_utc_ns: int | None = None
    error_ns: float = 0.0
    local_offset_ns: int | None = None
    basis: str = ""


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading that the user may state.

    Parameters
    ----------
    nsys : Path, optional
        The ``nsys`` program to use for reports.
    max_ratio : float
        Highest ratio of unpacked to packed size taken for real; see ``TRACETOOL_MAX_GZ_RATIO``.
    progress : Progress
        Told what is being read.
    scratch : Path, optional
        A folder for intermediate files, removed by the caller.
    """

    nsys: Path | None = None
    max_ratio: float = 200.0
    progress: Progress = field(default_factory=Silent)
    scratch: Path | None = None


@dataclass(frozen=True)
class Probe:
    """A file as the sniffers see it.

    Parameters
    ----------
    path : Path
        The file or folder.
    head : bytes
        Its first 64 KiB, unpacked if it is gzip.
    packed : bool
        Whether it is gzip.
    tables : mapping of str to set of str
        Tables and their columns if it is an SQLite database, else empty.
    size : int
        Bytes on disk.
    """

    path: Path
    head: bytes
    packed: bool = False
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    size: int = 0

    @cached_property
    def text(self) -> str:
        """The head as text; broken bytes become replacement characters."""
        from tracetool.sources.io.text import decode

        return decode(self.head)

    def lines(self, count: int = 50) -> list[str]:
        """Return the first lines that are not blank, stripped."""
        return self._stripped[:count]

    @cached_property
    def _stripped(self) -> list[str]:
        stripped = [line.strip() for line in self.text.splitlines()]
        return [line for line in stripped if line]


@dataclass
class Trace:
    """Content of one file, on its own clock.

    Tables have the columns of ``schemas/``, with these differences: ``device`` in ``activities`` and
    ``telemetry`` counts rows of ``devices`` of this trace; ``operators``, ``ranges`` and ``modules`` need no
    row numbers, parents or depths; ``counted`` has counters of launches, ``stated`` shapes of operators,
    neither has times; ``activities`` may carry ``external_id`` (joins to ``operators``) and
    ``thread`` (of the launch). Absent columns are null. Linking is done once, in ``assemble``.
    """

    profiler: str
    clock: Clock
    profiler_version: str | None = None
    schema_version: str | None = None
    activities: pl.DataFrame = field(default_factory=pl.DataFrame)
    host_calls: pl.DataFrame = field(default_factory=pl.DataFrame)
    operators: pl.DataFrame = field(default_factory=pl.DataFrame)
    ranges: pl.DataFrame = field(default_factory=pl.DataFrame)
    modules: pl.DataFrame = field(default_factory=pl.DataFrame)
    devices: pl.DataFrame = field(default_factory=pl.DataFrame)
    telemetry: pl.DataFrame = field(default_factory=pl.DataFrame)
    counted: pl.DataFrame = field(default_factory=pl.DataFrame)
    stated: pl.DataFrame = field(default_factory=pl.DataFrame)
    rejected: list[pl.DataFrame] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """One file format.

    Parameters
    ----------
    title : str
        Name for people, e.g. ``Nsight Systems SQLite export``.
    holds : str
        ``trace``, ``telemetry`` or ``counters`` (of launches, to be read beside a trace).
    made_by : str
        The command that writes such a file.
    tried : str
        Versions it has been tried on.
    checked : str
        What its reading is compared with, in the tests where nothing else is said.
    sniff : callable
        Probe to a score: 0 not mine, 1 surely mine; in between where others may claim it too.
    read : callable
        Path and options to a :class:`Trace`; raises ``BadInput`` for anything it cannot use.
    suffixes : sequence of str
        Usual endings, for the listing only: files are recognized by content.
    extra : str
        Extra to install, where one is needed.
    beside : bool
        Whether it states something of a trace and holds no timeline of its own, as counters do too.
    memory_ratio : float
        Memory that reading takes for each byte of content, as measured; 0 where the reader itself checks
        what a file declares.
    """

    title: str
    holds: Literal["trace", "telemetry", "counters"]
    made_by: str
    tried: str
    sniff: Callable[[Probe], float]
    read: Callable[[Path, ReadOptions], Trace]
    checked: str = ""
    suffixes: Sequence[str] = ()
    extra: str = ""
    beside: bool = False
    memory_ratio: float = 5.0
    spill: Callable[[Path, ReadOptions, Spill[Trace]], bool] | None = None

    @property
    def kind(self) -> Literal["trace", "telemetry", "beside"]:
        """What a file of it is to a run: its trace, its log, or read beside a trace."""
        if self.holds == "telemetry":
            return "telemetry"
        return "beside" if self.beside or self.holds == "counters" else "trace"
