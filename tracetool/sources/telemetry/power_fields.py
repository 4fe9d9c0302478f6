"""Power fields of loggers: what each one means, and one row per field in the telemetry table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

#: Field as nvidia-smi spells it to the kind of reading. ``power.draw`` is a one-second average on some
#: boards and instantaneous on others: its kind is left open, the board's sensor class tells.
POWER_FIELDS: Final[dict[str, str | None]] = {
    "power.draw": None,
    "gpu.power.draw": None,
    "power.draw.average": "average",
    "gpu.power.draw.average": "average",
    "power.draw.instant": "instant",
    "gpu.power.draw.instant": "instant",
    "module.power.draw.average": "average",
    "module.power.draw.instant": "instant",
    "module.power.draw": None,
}


def power_rows(
    frame: pl.DataFrame, powers: Mapping[str, str], kinds: Mapping[str, str | None] | None = None
) -> pl.DataFrame:
    """Return one row per reading and power field.

    Parameters
    ----------
    frame : DataFrame
        ``time_ns``, ``device``, other telemetry columns, and one column of watts per power field.
    powers : mapping of str to str
        Power column to the field's name.
    kinds : mapping, optional
        Field to ``instant``, ``average`` or None; nvidia-smi's fields by default.

    Notes
    -----
    Rows without any power (clock logs, energy counters) stay, once each. Rows that hold nothing at
    all are left out.
    """
    meaning = POWER_FIELDS if kinds is None else kinds
    rest = [c for c in frame.columns if c not in powers]
    parts = [
        frame.select(
            *rest,
            power_w=pl.col(column),
            power_kind=pl.lit(meaning.get(field), dtype=pl.String),
            field=pl.lit(field),
        ).filter(pl.col("power_w").is_not_null())
        for column, field in powers.items()
    ]
    if powers:
        dark = frame.filter(pl.all_horizontal(pl.col(c).is_null() for c in powers)).select(rest)
    else:
        dark = frame.select(rest)
    values = [c for c in rest if c not in ("time_ns", "device")]
    if values:
        kept = dark.filter(pl.any_horizontal(pl.col(c).is_not_null() for c in values))
        if "energy_j" in rest:
            counter = pl.when(pl.col("energy_j").is_not_null()).then(pl.lit("counter"))
            kept = kept.with_columns(power_kind=counter.otherwise(pl.lit(None, dtype=pl.String)))
        parts.append(kept)
    if not parts:
        return pl.DataFrame(schema={"time_ns": pl.Int64, "device": pl.Int32})
    return pl.concat(parts, how="diagonal")  # in the order logged: whoever reads it sees steps back
