"""Rows that refer to rows of other tables: in a run whose tables were edited they may point nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

#: The column that numbers the rows of a table.
KEYS: Final = {
    "signatures": "signature",
    "devices": "device",
    "operators": "operator",
    "ranges": "range",
}
#: The table each column of a table refers to.
_REFERENCES: Final = {
    "kernels": {"signature": "signatures", "device": "devices", "operator": "operators", "range": "ranges"},
    "telemetry": {"device": "devices"},
}


def broken_reference(name: str, frame: pl.DataFrame, keys: Callable[[str], pl.Series | None]) -> str:
    """Return what does not fit in a table of a run, nothing where all does.

    Parameters
    ----------
    name : str
        The table.
    frame : DataFrame
        Its rows, or some of its columns.
    keys : callable
        Table to its numbers, None for one that the run was written without.
    """
    key = KEYS.get(name)
    if key in frame.columns and not frame[key].is_unique().all():
        return f"two rows have one {key}"
    for column, table in _REFERENCES.get(name, {}).items():
        if column not in frame.columns:
            continue
        known = keys(table)
        if known is not None and not _all_known(frame[column], known):
            return f"holds a {column} that {table}.parquet does not have"
    return ""


def _all_known(column: pl.Series, keys: pl.Series) -> bool:
    low, high = column.min(), column.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return True  # no row refers to any
    # Tables as written count their rows from 0: no look at each of millions of rows is needed.
    if keys.min() == 0 and keys.max() == len(keys) - 1 and keys.n_unique() == len(keys):
        return low >= 0 and high < len(keys)
    return bool(column.drop_nulls().is_in(keys.cast(column.dtype).implode()).all())
