"""A table whose makespan is nearly all the host's: a note says so, and what changes it."""

from __future__ import annotations

from typing import Literal

import polars as pl

from tracetool.replay.predict_table import predict_table


def _notes(size: int, count: int, launch: Literal["eager", "graph"] = "eager") -> list[str]:
    row = {"op": "gemm", "dtype": "bf16", "m": size, "n": size, "k": size, "count": count}
    predicted = predict_table(pl.DataFrame([row]), "h100-sxm", clocks_mhz=[1200, 1755], launch=launch)
    return [note for note in predicted.notes if note.startswith("gaps are")]


def test_one_small_product_waits_for_the_host() -> None:
    (note,) = _notes(64, 1)
    assert note.startswith("gaps are 99.7 % of the makespan: the host's start of a pass")
    assert "--launch graph" in note


def test_work_that_keeps_the_gpu_busy_gets_no_note() -> None:
    assert not _notes(8192, 100)
    assert not _notes(64, 1, "graph")  # 3 us of 15
    assert not _notes(64, 0)
