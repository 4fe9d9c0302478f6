"""Scopes of power readings: what a sensor measures, so that powers of different things are never added."""

from __future__ import annotations

from typing import Final

import polars as pl

#: Scope to what its readings include.
SCOPES: Final = {
    "gpu": "the GPU",
    "gpu_memory": "the GPU's memory, a part of the GPU",
    "module": "the module: GPU and CPU together",
    "socket": "a CPU package",
    "host_memory": "the host's memory, beside the CPU package",
    "node": "the whole node",
}


def scope_of_field(field: str | None) -> str:
    """Return the scope of a power field, by its name.

    >>> scope_of_field("module.power.draw.instant"), scope_of_field("power.draw"), scope_of_field(None)
    ('module', 'gpu', 'gpu')
    """
    first = (field or "").split(".", 1)[0]
    return first if first in SCOPES else "gpu"


def gpu_readings(telemetry: pl.DataFrame) -> pl.DataFrame:
    """Return the readings of GPUs alone.

    Parameters
    ----------
    telemetry : DataFrame
        ``telemetry`` schema; of a table without ``scope``, as earlier versions wrote it, all readings count
        as the GPU's.
    """
    if "scope" not in telemetry.columns:
        return telemetry
    return rows_where(telemetry, pl.col("scope").fill_null("gpu") == "gpu")


def rows_where(table: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows of a table where a condition holds; the table itself, not a copy, where it always does.

    >>> table = pl.DataFrame({"device": [0, 0]})
    >>> rows_where(table, pl.col("device") == 0) is table
    True
    """
    holds = table.select(condition.fill_null(False).alias("holds"))["holds"]
    return table if holds.all() else table.filter(holds)


def device_readings(telemetry: pl.DataFrame, device: int | None) -> pl.DataFrame:
    """Return the readings of one GPU; the table itself where it holds no others."""
    return rows_where(telemetry, pl.col("device").eq_missing(pl.lit(device)))


def other_scopes_notes(telemetry: pl.DataFrame) -> list[str]:
    """Return a sentence on the readings of each scope but the GPU's, none where there are only the GPU's."""
    if "scope" not in telemetry.columns:
        return []
    other_readings = telemetry.filter(pl.col("scope").fill_null("gpu") != "gpu")
    if other_readings.is_empty():
        return []
    fields = other_readings.group_by("scope", "source", maintain_order=True).agg(
        pl.col("field").drop_nulls().unique(maintain_order=True)
    )
    return [
        f"{source}: {', '.join(names) or 'power'} measures {SCOPES.get(scope, scope)} (scope {scope}):"
        " kept in telemetry, not part of GPU energy"
        for scope, source, names in fields.iter_rows()
    ]
