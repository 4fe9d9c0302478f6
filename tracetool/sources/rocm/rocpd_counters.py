"""Counters in a rocpd database: what a profiler polled, and what it counted for each dispatch.

A sample is a time on a track; a counter's value refers to the event that the sample refers to, and one event
holds all values of one poll. Values whose event no sample refers to belong to a dispatch. Source: the tables
``rocpd_sample``, ``rocpd_pmc_event`` and ``rocpd_info_pmc`` of rocprofiler-sdk, schemas 3 and 4, and
``rocpd_post_processing.cpp`` of rocprofiler-systems, which fills them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import polars as pl

from tracetool.core.number_text import counted
from tracetool.sources.columns import clean_text
from tracetool.sources.rocm.counters import SAMPLES

#: Tables of counters that are not those read here, as another release may call them.
_UNKNOWN: Final = re.compile(
    r"rocpd_(?!info_|pmc_event|sample(?:_|$)).*(?:counter|metric|pmc|sample|sensor|telemetry|monitor).*"
)
_I, _F, _S = pl.Int64(), pl.Float64(), pl.String()
Wanted = Mapping[str, tuple[Sequence[str], pl.DataType]]


class Tables(Protocol):
    """The tables of a database, those of all its processes together."""

    def parts(self, name: str, columns: Wanted) -> pl.DataFrame:
        """Return a table of all processes."""

    def joined(
        self, frame: pl.DataFrame, table: str, key: str, columns: Mapping[str, tuple[str, pl.DataType]]
    ) -> pl.DataFrame:
        """Add columns of the row of another table that ``key`` is the number of."""


def read_samples(base: Tables) -> pl.DataFrame:
    """Return every value of every counter, with the columns of :data:`counters.SAMPLES`.

    ``time_ns`` is null of values that belong to a dispatch, ``gpu`` (the agent's number) of other agents'.
    """
    values = base.parts("rocpd_pmc_event", {
        "guid": (["guid"], _S), "event_id": (["event_id"], _I), "pmc_id": (["pmc_id"], _I),
        "value": (["value"], _F),
    })  # fmt: skip
    if not values.height:
        return pl.DataFrame(schema=SAMPLES)
    info = {"name": ("name", _S), "unit": ("units", _S), "agent_id": ("agent_id", _I)}
    values = base.joined(values.drop("row"), "rocpd_info_pmc", "pmc_id", info)
    agent = {"agent": ("absolute_index", _I), "type": ("type", _S)}
    values = base.joined(values, "rocpd_info_agent", "agent_id", agent)
    values = values.join(_times(base), on=["guid", "event_id"], how="left", nulls_equal=True)
    is_gpu = pl.col("type").str.to_uppercase() == "GPU"
    return values.select(
        "time_ns",
        gpu=pl.when(is_gpu).then("agent"),
        name=clean_text("name"),
        unit=clean_text("unit"),
        value="value",
    )


def unread_tables(db: sqlite3.Connection, tables: Iterable[str]) -> list[str]:
    """Return a sentence for each table of counters that nothing here reads, with its rows."""
    sentences = []
    for table in sorted(t for t in tables if _UNKNOWN.fullmatch(t)):
        (rows,) = db.execute(f'SELECT count(*) FROM "{table}"').fetchone()  # noqa: S608 - a plain table
        if rows:
            sentences.append(f"{table} is not read: {counted(rows, 'sample')}")
    return sentences


def _times(base: Tables) -> pl.DataFrame:
    """Return the time of each polled event."""
    samples = base.parts("rocpd_sample", {
        "guid": (["guid"], _S), "event_id": (["event_id"], _I), "time_ns": (["timestamp"], _I),
        "timestamp_id": (["timestamp_id"], _I),
    })  # fmt: skip
    if samples["timestamp_id"].count():  # schema 4 keeps times apart
        samples = base.joined(samples, "rocpd_timestamp", "timestamp_id", {"#value": ("value", _I)})
        samples = samples.with_columns(time_ns=pl.coalesce("time_ns", "#value"))
    samples = samples.drop_nulls(["event_id", "time_ns"])
    return samples.group_by("guid", "event_id").agg(pl.col("time_ns").min())
