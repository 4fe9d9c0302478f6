"""Readings of sockets, memory and nodes, which are no GPU's; counters that wrap; GPUs of many hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.sources.columns import clean_text

#: Columns of a reading in the order of the telemetry schema.
_READING: Final = {
    "time_ns": pl.Int64(), "device": pl.Int32(), "power_w": pl.Float64(), "power_kind": pl.String(),
    "energy_j": pl.Float64(), "field": pl.String(), "scope": pl.String(),
}  # fmt: skip
#: A counter that fell by more than this share of its range has wrapped; one that fell by less was reset.
_WRAP_SHARE: Final = 0.5


def meter_rows(
    frame: pl.DataFrame,
    scope: str,
    field: str,
    *,
    power: str | pl.Expr | None = None,
    energy: str | pl.Expr | None = None,
    kind: str | None = None,
) -> pl.DataFrame:
    """Return readings of a meter that belongs to no GPU.

    Parameters
    ----------
    frame : DataFrame
        Holds ``time_ns`` and what ``power`` and ``energy`` name.
    scope : str
        One of :data:`tracetool.tables.scopes.SCOPES`.
    field : str
        Which meter it is: readings of one field of one log are one meter's.
    power, energy : str or expression, optional
        Power [W] and cumulative energy [J]; rows that have neither are left out.
    kind : str, optional
        ``instant`` or ``average``; a counter's rows say ``counter``.
    """
    nothing = pl.lit(None, dtype=pl.Float64)

    def value(of: str | pl.Expr | None) -> pl.Expr:
        if of is None:
            return nothing
        return (pl.col(of) if isinstance(of, str) else of).cast(pl.Float64)

    rows = frame.select(
        "time_ns",
        device=pl.lit(None, dtype=pl.Int32),
        power_w=value(power),
        power_kind=pl.lit(kind if power is not None else "counter", dtype=pl.String),
        energy_j=value(energy),
        field=pl.lit(field),
        scope=pl.lit(scope),
    ).filter(pl.col("power_w").is_not_null() | pl.col("energy_j").is_not_null())
    return rows.cast(dict(_READING))  # type: ignore[arg-type]


def unwrapped(counter: Floats, span: float | None) -> tuple[Floats, int]:
    """Return a counter that never falls by wrapping, and how often it wrapped.

    Parameters
    ----------
    counter : array, shape (n,)
        As read, in order.
    span : float or None
        Where it starts again from zero; None where the log does not say: then falls stay.

    >>> import numpy as np
    >>> unwrapped(np.array([90.0, 99.0, 8.0, 20.0]), 100.0)
    (array([ 90.,  99., 108., 120.]), 1)
    """
    fell = np.diff(counter, prepend=counter[:1]) < -_WRAP_SHARE * (span or np.inf)
    return counter + np.cumsum(fell) * (span or 0.0), int(fell.sum())


def gpus_of_hosts(rows: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """Number the GPUs of a log that several hosts wrote.

    Parameters
    ----------
    rows : DataFrame
        ``host``, ``index`` (Int64), ``uuid`` and ``name`` of each reading, null where the log has none.

    Returns
    -------
    device : Series, shape (n,)
        Which GPU each row is of; hosts in their order, then the driver's index.
    devices : DataFrame
        One row per GPU. The key of a GPU is its host and unique id; where a GPU has no unique id and the log
        has several hosts, host and index stand for it.
    """
    keyed = rows.select(
        pl.col("host").fill_null(""),
        pl.col("index").cast(pl.Int64),
        pl.col("uuid").replace("", None),
        pl.col("name").replace("", None),
    ).with_columns(pl.coalesce("uuid", pl.col("index").cast(pl.String), pl.lit("0")).alias("id"))
    gpus = keyed.group_by("host", "id").agg(
        pl.col("index").drop_nulls().first(), pl.col("uuid").first(), pl.col("name").drop_nulls().first()
    )
    gpus = gpus.sort("host", "index", "id", nulls_last=True).with_row_index("device")
    several = gpus["host"].n_unique() > 1
    named = pl.when(several).then(pl.concat_str("host", pl.lit("/"), "id"))
    device = keyed.join(
        gpus.select("host", "id", "device"), on=["host", "id"], how="left", maintain_order="left"
    )
    devices = gpus.select(
        pl.col("device").cast(pl.Int32),
        profiler_device="index",
        uuid=clean_text(pl.coalesce("uuid", named)),
        name=clean_text("name"),
    )
    return device["device"].cast(pl.Int32), devices


def readings(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the readings of several meters and GPUs as one table."""
    return pl.concat(
        [p for p in parts if p.height] or [pl.DataFrame(schema=_READING)], how="diagonal_relaxed"
    )
