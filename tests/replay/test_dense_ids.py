"""Identifiers become small integers without losing who is who."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.replay.dense_ids import dense, first_match

identifiers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))


@given(st.lists(st.tuples(identifiers, identifiers), min_size=1, max_size=30))
@settings(deadline=None)
def test_equal_numbers_for_equal_combinations_only(rows: list[tuple[int | None, int | None]]) -> None:
    columns = [pl.Series([r[i] for r in rows], dtype=pl.Int64) for i in (0, 1)]
    number = dense(columns).tolist()
    assert sorted(set(number)) == list(range(len(set(rows))))
    assert len(set(zip(number, rows, strict=True))) == len(set(rows))


@given(
    st.lists(st.integers(-1, 10**12) | st.integers(0, 5)),
    st.lists(st.integers(-1, 5) | st.integers(0, 10**12)),
)
@settings(deadline=None)
def test_the_first_row_of_a_key_is_found(key: list[int], wanted: list[int]) -> None:
    found = first_match(np.array(key, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [key.index(w) if w >= 0 and w in key else -1 for w in wanted]
