"""The tables of a rocpd database, joined as its views would join them: a view is a program and is never run.

Every process has tables of its own, their names ending in its id; a merged file holds those of several. Rows
of two tables belong together by number and process. Source: the schema of rocprofiler-sdk, versions 3 and 4.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracetool.sources.io.sqlite_file import read_spelled, refuse_view

_I, _S = pl.Int64(), pl.String()
Wanted = Mapping[str, tuple[Sequence[str], pl.DataType]]
_PLACE: Wanted = {
    "guid": (["guid"], _S), "pid": (["pid"], _I), "tid": (["tid"], _I), "event_id": (["event_id"], _I),
    "stream": (["stream_id"], _I), "queue": (["queue_id"], _I),
    "start_ns": (["start"], _I), "end_ns": (["end"], _I),
    "track_id": (["track_id"], _I), "start_id": (["start_id"], _I), "end_id": (["end_id"], _I),
}  # fmt: skip
_DISPATCHES: Wanted = {
    **_PLACE, "kernel_id": (["kernel_id"], _I), "agent_id": (["agent_id"], _I),
    "shared_dynamic_bytes": (["group_segment_size"], _I),
    **{f"grid_{a}": ([f"grid_size_{a}"], _I) for a in "xyz"},
    **{f"block_{a}": ([f"workgroup_size_{a}"], _I) for a in "xyz"},
}  # fmt: skip
_COPIES: Wanted = {
    **_PLACE, "name_id": (["name_id"], _I), "bytes": (["size"], _I), "to_id": (["dst_agent_id"], _I),
    "from_id": (["src_agent_id"], _I),
}  # fmt: skip
_REGIONS: Wanted = {**_PLACE, "name_id": (["name_id"], _I)}


@dataclass(frozen=True)
class Database:
    """An open database and its plain tables."""

    path: Path
    db: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def parts(self, name: str, wanted: Wanted) -> pl.DataFrame:
        """Return a table of all processes.

        Raises
        ------
        BadInput
            If that of a process is a view: its rows would be missed without a word.
        """
        for view in self._views(f"{name}_"):
            refuse_view(self.path, self.db, view)
        own = [name] if name in self.tables else sorted(t for t in self.tables if t.startswith(f"{name}_"))
        found = [read_spelled(self.path, self.db, self.tables, t, wanted) for t in own or [name]]
        return pl.concat(found)

    def _views(self, prefix: str) -> list[str]:
        """Return the names of views and virtual tables that begin with ``prefix``."""
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, ?) = ?"
        names = (str(row[0]) for row in self.db.execute(query, (len(prefix), prefix)))
        return sorted(name for name in names if name not in self.tables)

    def joined(
        self, frame: pl.DataFrame, table: str, key: str, wanted: Mapping[str, tuple[str, pl.DataType]]
    ) -> pl.DataFrame:
        """Add columns of the row of another table that ``key`` is the number of; null where there is none.

        Parameters
        ----------
        frame : DataFrame
            With ``guid`` and ``key``.
        table, key : str
            The other table, and the column that refers to it.
        wanted : mapping of str to (column, type)
            What to add.
        """
        spelled: Wanted = {n: ([c], kind) for n, (c, kind) in wanted.items()}
        other = self.parts(table, {"guid": (["guid"], _S), key: (["id"], _I), **spelled}).drop("row")
        other = other.drop_nulls(key).unique(["guid", key], keep="first")
        return frame.join(other, on=["guid", key], how="left", nulls_equal=True, maintain_order="left")

    def _placed(self, name: str, wanted: Wanted) -> pl.DataFrame:
        """Return a table with the times, process, thread and stack of each row."""
        frame = self.parts(name, wanted)
        if frame["start_id"].count():  # schema 4 keeps times and places apart
            for end in ("start", "end"):
                frame = self.joined(frame, "rocpd_timestamp", f"{end}_id", {"#value": ("value", _I)})
                frame = frame.with_columns(pl.coalesce(f"{end}_ns", "#value").alias(f"{end}_ns")).drop(
                    "#value"
                )
        if frame["track_id"].count():
            told = {
                "pid": "pid",
                "tid": "tid",
                "stream": "stream_id",
                "queue": "queue_id",
                "agent_id": "agent_id",
            }
            told = {n: c for n, c in told.items() if n in frame.columns}
            frame = self.joined(frame, "rocpd_track", "track_id", {f"#{n}": (c, _I) for n, c in told.items()})
            frame = frame.with_columns(pl.coalesce(n, f"#{n}").alias(n) for n in told).drop(
                f"#{n}" for n in told
            )
        frame = self.joined(frame, "rocpd_info_process", "pid", {"process": ("pid", _I)})
        frame = self.joined(frame, "rocpd_info_thread", "tid", {"thread": ("tid", _I)})
        frame = frame.with_columns(process=pl.coalesce("process", "pid"), thread=pl.coalesce("thread", "tid"))
        return frame.drop("track_id", "start_id", "end_id", "pid", "tid")

    def _events(self, frame: pl.DataFrame, wanted: Mapping[str, tuple[str, pl.DataType]]) -> pl.DataFrame:
        return self.joined(frame, "rocpd_event", "event_id", wanted).drop("event_id")

    def kernels(self) -> pl.DataFrame:
        """Return the dispatches: names, times, agents, geometry, and the stack of the call behind each."""
        frame = self._placed("rocpd_kernel_dispatch", _DISPATCHES)
        symbol = {
            "name": ("display_name", _S),
            "vgpr": ("arch_vgpr_count", _I),
            "accum": ("accum_vgpr_count", _I),
        }
        frame = self.joined(frame, "rocpd_info_kernel_symbol", "kernel_id", symbol)
        frame = self.joined(frame, "rocpd_info_agent", "agent_id", {"agent": ("absolute_index", _I)})
        frame = self._events(frame, {"correlation": ("parent_stack_id", _I)})
        return frame.drop("kernel_id", "agent_id")

    def copies(self) -> pl.DataFrame:
        """Return the memory copies: direction, size, times, and the agents at both ends."""
        frame = self._placed("rocpd_memory_copy", _COPIES)
        frame = self.joined(frame, "rocpd_string", "name_id", {"said": ("string", _S)})
        ends = {"to": ("absolute_index", _I), "to_type": ("type", _S)}
        frame = self.joined(frame, "rocpd_info_agent", "to_id", ends)
        frame = self.joined(frame, "rocpd_info_agent", "from_id", {"from": ("absolute_index", _I)})
        frame = self._events(frame, {"correlation": ("parent_stack_id", _I)})
        return frame.drop("name_id", "to_id", "from_id")

    def regions(self) -> pl.DataFrame:
        """Return the calls and markers of the host: names, categories, times, stacks."""
        frame = self._placed("rocpd_region", _REGIONS)
        frame = self.joined(frame, "rocpd_string", "name_id", {"name": ("string", _S)})
        event = {
            "correlation": ("stack_id", _I),
            "extra": ("extdata", _S),
            "category_id": ("category_id", _I),
        }
        frame = self._events(frame, event)
        frame = self.joined(frame, "rocpd_string", "category_id", {"category": ("string", _S)})
        return frame.drop("name_id", "category_id")
