"""Long tables are worked on in blocks: the blocks must not show."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tracetool.sources import columns, linking, signatures
from tracetool.sources.columns import narrow
from tracetool.sources.nesting import nest

_RANDOM = np.random.default_rng(7)


def _launches(rows: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "process": _RANDOM.integers(0, 2, rows),
            "thread": [None if t == 3 else t for t in _RANDOM.integers(0, 4, rows).tolist()],
            "launch_ns": _RANDOM.integers(0, 1000, rows),
            "correlation": _RANDOM.integers(0, 90, rows),
            "device": pl.Series(_RANDOM.integers(0, 2, rows), dtype=pl.Int32),
            "operator": pl.Series([None] * rows, dtype=pl.Int32),
            "kind": ["kernel"] * rows,
            "name": [f"k{i}" for i in _RANDOM.integers(0, 5, rows)],
            "grid_x": _RANDOM.integers(1, 4, rows),
            "duration_ns": _RANDOM.integers(1, 50, rows),
        }
    )


def test_innermost_is_what_a_search_through_all_intervals_finds() -> None:
    start = _RANDOM.integers(0, 50, 40) * 20
    end = start + _RANDOM.choice([9, 40, 400], 40)
    group = _RANDOM.integers(0, 3, 40)
    # Properly nested: an interval that would cross another is cut where that one ends.
    for i in np.lexsort((-end, start, group)):
        around = (group == group[i]) & (start <= start[i]) & (end > start[i]) & (np.arange(40) != i)
        end[i] = min([end[i], *end[around & (start < start[i])].tolist()])
    asked, time = _RANDOM.integers(-1, 4, 300), _RANDOM.integers(0, 1000, 300)
    tree = nest(*map(pl.Series, (group, start, end)))
    found = tree.innermost(pl.Series(asked), pl.Series(time))
    for g, t, row in zip(asked, time, found, strict=True):
        open_then = np.flatnonzero((group == g) & (start <= t) & (t <= end))
        if not len(open_then):
            assert row is None
        else:
            assert row in open_then
            assert start[row] == start[open_then].max()


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _launches(100)
    ranges = pl.DataFrame(
        {"process": [0, 0, 1], "thread": [1, 1, None], "name": ["a", "b", "c"], "start_ns": [0, 300, 0],
         "duration_ns": [900, 200, 999]}
    )  # fmt: skip
    devices = pl.DataFrame({"device": [0, 1], "name": ["A", "B"]})

    def work() -> tuple[pl.DataFrame, pl.DataFrame]:
        linked = linking.link_ranges(rows, linking.number_ranges(ranges)[1])
        return signatures.number_signatures(linked, pl.DataFrame(), devices)

    whole = work()
    for module in (columns,):
        monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    for one, other in zip(whole, work(), strict=True):
        assert_frame_equal(one, other, check_row_order=one is whole[0])
    inside = whole[0].filter(pl.col("thread") == 1, pl.col("process") == 0, pl.col("launch_ns") <= 900)
    assert inside["range"].null_count() == 0


def test_narrow_keeps_every_value() -> None:
    wide = pl.DataFrame({"a": [0, 127], "b": [-129, None], "c": [1 << 40, 0], "d": [None, None]}).cast(
        pl.Int64
    )
    made = narrow(wide, wide.columns)
    assert made.dtypes == [pl.Int8, pl.Int16, pl.Int64, pl.Int8]
    assert_frame_equal(made.cast(pl.Int64), wide)
