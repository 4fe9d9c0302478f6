"""Idle time lies between the activity that ended last and the one that starts next."""

from __future__ import annotations

import polars as pl

from tracetool.tables.idle_intervals import idle_intervals


def _kernels(*rows: tuple[int, str, int, int]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["device", "name", "start_ns", "end_ns"], orient="row")
    return frame.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))


def test_a_gap_begins_after_the_activity_that_ended_last() -> None:
    gaps = idle_intervals(
        _kernels(
            (0, "long", 0, 100), (0, "short", 10, 15), (0, "next", 200, 210), (0, "inside", 205, 207),
            (1, "whole", 50, 400),
        )
    )  # fmt: skip
    assert gaps.sort("device", "busy_until_ns").rows() == [
        (0, 100, 100, "long", "next"),
        (0, 210, 190, "next", None),
        (1, 0, 50, None, "whole"),
    ]
