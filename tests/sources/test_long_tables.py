"""Long tables are worked on in blocks: the blocks must not show."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracetool.sources import columns, linking, signatures
from tracetool.sources.columns import each_distinct, look_up, narrow
from tracetool.sources.nesting import last_not_after, nest

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
    monkeypatch.setattr(columns, "BLOCK_ROWS", 7)
    for one, other in zip(whole, work(), strict=True):
        assert_frame_equal(one, other, check_row_order=one is whole[0])
    inside = whole[0].filter(pl.col("thread") == 1, pl.col("process") == 0, pl.col("launch_ns") <= 900)
    assert inside["range"].null_count() == 0


def test_signatures_that_tie_have_the_same_numbers_every_time() -> None:
    rows = _launches(30).select(
        "device",
        "operator",
        "duration_ns",
        name=pl.lit("k"),
        kind=pl.Series(["kernel", "memcpy", "memset"] * 10),
    )
    rows = rows.with_columns(duration_ns=7, device=0)
    devices = pl.DataFrame({"device": [0], "name": ["A"]})
    found = [signatures.number_signatures(rows, pl.DataFrame(), devices)[1] for _ in range(9)]
    assert all(table["kind"].to_list() == ["kernel", "memcpy", "memset"] for table in found)


def test_narrow_keeps_every_value() -> None:
    wide = pl.DataFrame({"a": [0, 127], "b": [-129, None], "c": [1 << 40, 0], "d": [None, None]}).cast(
        pl.Int64
    )
    made = narrow(wide, wide.columns)
    assert made.dtypes == [pl.Int8, pl.Int16, pl.Int64, pl.Int8]
    assert_frame_equal(made.cast(pl.Int64), wide)


_WHOLE = st.one_of(st.none(), st.integers(0, 3), st.integers(-(2**63), 2**63 - 1), st.just(2**62))
_ROWS = st.lists(st.tuples(_WHOLE, _WHOLE, _WHOLE, st.sampled_from([None, "a", "b", ""])), max_size=30)


@settings(max_examples=60, deadline=None)
@given(rows=_ROWS)
def test_equal_rows_have_equal_numbers_and_no_others(rows: list[tuple[int | None, ...]]) -> None:
    kinds = {"a": pl.Int64(), "b": pl.Int64(), "c": pl.Int64(), "t": pl.String()}
    code, distinct = signatures.number_distinct(pl.DataFrame(rows, schema=kinds, orient="row"))
    told = dict(zip(distinct["#code"], distinct.drop("#code").rows(), strict=True))
    assert [told[c] for c in code] == rows
    assert len(told) == len(set(rows))


@settings(max_examples=60, deadline=None)
@given(
    known=st.lists(st.integers(-9, 9), max_size=12).map(sorted),
    asked=st.lists(st.one_of(st.none(), st.integers(-11, 11)), max_size=12),
    in_order=st.booleans(),
)
def test_the_last_that_is_no_later(known: list[int], asked: list[int | None], in_order: bool) -> None:
    told = sorted(a for a in asked if a is not None) if in_order else asked
    found = last_not_after(*(pl.Series(values, dtype=pl.Int64) for values in (known, told)))
    earlier = [[i for i, k in enumerate(known) if a is not None and k <= a] for a in told]
    assert found.to_list() == [places[-1] if places else None for places in earlier]


@pytest.mark.parametrize("kind", [pl.String(), pl.Categorical()])
def test_each_distinct_text_is_looked_at_once(kind: pl.DataType) -> None:
    asked: list[str] = []

    def length(distinct: pl.Series) -> pl.Series:
        asked.extend(distinct)
        return distinct.str.len_bytes()

    column = pl.Series("name", ["aa", None, "b", "aa"], dtype=kind)
    assert each_distinct(column, length).to_list() == [2, None, 1, 2]
    assert sorted(asked) == ["aa", "b"]
    assert each_distinct(column.filter(column.is_null()), length).to_list() == [None]


_KEYS = st.one_of(st.none(), st.integers(-3, 6), st.integers(2**40, 2**40 + 2))


@settings(max_examples=80, deadline=None)
@given(
    asked=st.lists(_KEYS, max_size=20),
    alike=st.booleans(),
    known=st.lists(_KEYS, unique=True, max_size=8),
    nulls_equal=st.booleans(),
)
def test_a_look_up_is_a_join(
    asked: list[int | None], alike: bool, known: list[int | None], nulls_equal: bool
) -> None:
    asked = asked[:1] * len(asked) if alike else asked
    frame = pl.DataFrame(
        {"key": asked, "other": range(len(asked))}, schema={"key": pl.Int64, "other": pl.Int32}
    )
    table = pl.DataFrame(
        {"key": known, "said": [f"{k}" for k in known]}, schema={"key": pl.Int64, "said": pl.String}
    )
    expected = frame.join(table, on="key", how="left", nulls_equal=nulls_equal, maintain_order="left")
    assert_frame_equal(look_up(frame, table, "key", nulls_equal=nulls_equal), expected)
    both = [f.with_columns(more=pl.lit(1)) for f in (frame, table)]
    found = look_up(*both, "key", "more", nulls_equal=nulls_equal)
    assert_frame_equal(found, expected.with_columns(more=pl.lit(1)), check_column_order=False)
