"""Rows in an order of their own: a profiler's tables promise none, and what is read must not depend on it."""

from __future__ import annotations

import polars as pl


def in_order(frame: pl.DataFrame, time: str, *unless: str) -> pl.DataFrame:
    """Return the rows by time, those of one time by their other columns; ``frame`` is emptied meanwhile.

    Parameters
    ----------
    frame : DataFrame
        The rows.
    time : str
        What they go by.
    unless : str
        Columns that do not count: row numbers, and names that other columns stand for.

    Notes
    -----
    Most tables lie in order of time, which is cheap to see; only rows that share a time are compared further,
    and few do. Names held as codes are compared as text, for codes are given in the order of appearance.
    """
    if not frame.height:
        return frame
    if not frame[time].is_sorted():
        frame = _gathered(frame, frame.select(pl.arg_sort_by(time, maintain_order=True)).to_series())
    same = frame.select((pl.col(time).diff() == 0).fill_null(value=False)).to_series()
    if not same.any():
        return frame
    tied = (same | same.shift(-1, fill_value=False)).arg_true()
    further = sorted(c for c in frame.columns if c not in (time, *unless))
    rows = frame.select(time, *further).select(pl.all().gather(tied))
    rows = rows.with_columns(pl.col(pl.Categorical).cast(pl.String))
    order = rows.select(pl.arg_sort_by(time, *further, nulls_last=True, maintain_order=True)).to_series()
    if order.is_sorted():
        return frame
    places = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return _gathered(frame, places.scatter(tied, tied.gather(order).cast(pl.UInt32)))


def _gathered(frame: pl.DataFrame, order: pl.Series) -> pl.DataFrame:
    """Return the rows in an order, column by column, so that no table is in memory twice."""
    return pl.DataFrame([frame.drop_in_place(name).gather(order) for name in frame.columns])
