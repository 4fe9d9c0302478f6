"""Rows that cannot be used, set aside and counted, never dropped in silence."""

from __future__ import annotations

import polars as pl

from tracetool.sources.columns import (
    DEVICE_LIMIT,
    DURATION_LIMIT_NS,
    GRID_LIMIT,
    KEPT_ROWS,
    TIME_LIMIT_NS,
    rejected_rows,
)  # fmt: skip
from tracetool.tables.table_list import LONGEST_NS

_GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_OPTIONAL = {
    "registers_per_thread": (0, 1 << 20), "shared_static_bytes": (0, 1 << 40),
    "shared_dynamic_bytes": (0, 1 << 40), "bytes": (0, 1 << 62),
    "ranks": (1, 1 << 30), "rank_stride": (1, 1 << 30),
}  # fmt: skip


def check_activities(
    activities: pl.DataFrame, source: str, latest_ns: int = TIME_LIMIT_NS
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Return the usable activities with ``duration_ns``, and the others as rows of ``rejected``.

    Parameters
    ----------
    activities : DataFrame
        As a reader made them.
    source : str
        The file.
    latest_ns : int
        Latest time on the file's clock that still is one once it is on the run's. [ns]

    Notes
    -----
    Rejected are rows without a time, a name or a device, that end before they start, last longer than
    30 days or lie outside the years 1970 to 2200. A number that cannot be (a grid of more than 2^40
    blocks, negative registers) is made null: the launch itself is real.
    """

    # Differences of absurd times overflow: only sane ones are subtracted.
    def sane(column: str) -> pl.Expr:
        return pl.col(column).is_between(-TIME_LIMIT_NS, latest_ns)

    frame = activities.with_columns(
        duration_ns=pl.when(sane("start_ns") & sane("end_ns")).then(pl.col("end_ns") - pl.col("start_ns"))
    )
    device = pl.col("device")
    reason = (
        pl.when(pl.col("start_ns").is_null() | pl.col("end_ns").is_null()).then(pl.lit("no start or end"))
        .when(pl.col("duration_ns").is_null()).then(pl.lit("time out of range"))
        .when(pl.col("duration_ns") < 0).then(pl.lit("ends before it starts"))
        .when(pl.col("duration_ns") > DURATION_LIMIT_NS).then(pl.lit("lasts more than 30 days"))
        .when(pl.col("name").is_null()).then(pl.lit("no name"))
        .when(device.is_null() | ~device.is_between(0, DEVICE_LIMIT)).then(pl.lit("no device"))
    )  # fmt: skip
    flagged = frame.select(reason.alias("reason"))["reason"]
    if flagged.null_count() == frame.height:
        return _bounded(frame), []
    bad = frame.filter(flagged.is_not_null()).with_columns(flagged.drop_nulls().alias("reason"))
    rejected = []
    for (why,), rows in bad.group_by("reason", maintain_order=True):
        examples = rows.head(KEPT_ROWS)
        texts = examples.select(
            pl.format(
                "{} start={} end={} device={}",
                *[pl.col(c).cast(pl.String).fill_null("?") for c in ("name", "start_ns", "end_ns", "device")],
            )
        ).to_series()  # fmt: skip
        rejected.append(rejected_rows(source, _places(examples), str(why), texts, rows.height))
    return _bounded(frame.filter(flagged.is_null())), rejected


def _places(rows: pl.DataFrame) -> pl.Series:
    """Return the place of each row, after the kind of place where a column states one."""
    place = pl.col("place").cast(pl.String).fill_null("?")
    if "place_of" in rows.columns:
        place = pl.concat_str(pl.col("place_of").fill_null(""), pl.lit(" "), place).str.strip_chars()
    return rows.select(place).to_series()


def _bounded(frame: pl.DataFrame) -> pl.DataFrame:
    limits = {
        **dict.fromkeys(_GEOMETRY[:3], (1, GRID_LIMIT)),
        **dict.fromkeys(_GEOMETRY[3:], (1, 1 << 20)),
        **_OPTIONAL,
    }
    bounded = [c for c in limits if c in frame.columns]
    if not bounded:
        return frame
    ends = frame.select(
        *[pl.col(c).min().alias(f"{c}<") for c in bounded], *[pl.col(c).max().alias(f"{c}>") for c in bounded]
    ).row(0, named=True)
    bad = [
        c for c in bounded
        if ends[f"{c}<"] is not None and (ends[f"{c}<"] < limits[c][0] or ends[f"{c}>"] > limits[c][1])
    ]  # fmt: skip
    return frame.with_columns(pl.when(pl.col(c).is_between(*limits[c])).then(pl.col(c)).alias(c) for c in bad)


def check_intervals(frame: pl.DataFrame, latest_ns: int = TIME_LIMIT_NS) -> pl.DataFrame:
    """Return host intervals (calls, operators, ranges) whose times make sense."""
    if not frame.height:
        return frame
    sane = (
        pl.col("start_ns").is_between(-TIME_LIMIT_NS, latest_ns)
        & pl.col("duration_ns").is_between(0, LONGEST_NS)
        & pl.col("name").is_not_null()
    )
    sane = sane.fill_null(value=False)
    if frame.select(sane.all()).item():
        return frame
    return frame.filter(sane)
