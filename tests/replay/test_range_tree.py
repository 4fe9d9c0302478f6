"""Ranges as trees and iterations, with their energies."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.replay.iterations import iterations
from tracetool.replay.range_tree import Costs, tree

EMPTY = pl.DataFrame(
    schema={"name": pl.String, "parent": pl.Int64, "start_ns": pl.Int64, "duration_ns": pl.Int64}
)


def _costs(n: int) -> Costs:
    start = np.arange(n) * 100.0
    return Costs(start, start + 50.0, np.arange(1.0, n + 1))


def _ranges(rows: list[tuple[str, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "range": range(len(rows)),
            "name": [r[0] for r in rows],
            "parent": pl.Series([r[1] for r in rows], dtype=pl.Int64),
        }
    )


def test_paths_of_one_name_join_and_children_follow_their_parent() -> None:
    ranges = _ranges([("forward", None), ("layer.0", 0), ("layer.1", 0), ("forward", None), ("layer.0", 3)])
    made = tree(ranges, "range", pl.Series([1, 2, 4, 0, None], dtype=pl.Int64), _costs(5))
    assert made["path"].to_list() == ["forward", "forward / layer.0", "forward / layer.1", "(none)"]
    assert made["energy_j"].to_list() == [10.0, 4.0, 2.0, 5.0]
    assert made["self_energy_j"].to_list() == [4.0, 4.0, 2.0, 5.0]
    assert made["launches"].to_list() == [4, 2, 1, 1]
    assert made.filter(pl.col("depth") == 0)["share"].sum() == pytest.approx(1.0)


def test_what_else_is_added_up_stands_beside_energies_outside_ranges_too() -> None:
    more = pl.DataFrame({"tokens": [1.0, 2.0, 4.0], "flops": [10.0, 20.0, 40.0]})
    of = pl.Series([0, 1, None], dtype=pl.Int64)
    made = tree(_ranges([("forward", None), ("layer", 0)]), "range", of, _costs(3), more)
    assert made["path"].to_list() == ["forward", "forward / layer", "(none)"]
    assert made["tokens"].to_list() == [3.0, 2.0, 4.0]
    assert made["flops"].to_list() == [30.0, 20.0, 40.0]


def test_without_energy_there_are_no_shares() -> None:
    nothing = Costs(np.zeros(1), np.ones(1), np.zeros(1))
    made = tree(_ranges([("forward", None)]), "range", pl.Series([0], dtype=pl.Int64), nothing)
    assert made["share"].to_list() == [0.0]


def test_steps_join_in_the_tree_whatever_their_number() -> None:
    made = tree(
        _ranges([("ProfilerStep#3", None), ("ProfilerStep#4", None)]), "range", pl.Series([0, 1]), _costs(2)
    )
    assert made["path"].to_list() == ["ProfilerStep *"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20))), min_size=1, max_size=20
    ),
    st.lists(st.one_of(st.none(), st.integers(0, 25)), min_size=1, max_size=20),
)
@settings(deadline=None, max_examples=100)
def test_any_nesting_even_a_cycle_loses_no_energy(
    rows: list[tuple[str, int | None]], of: list[int | None]
) -> None:
    made = tree(_ranges(rows), "range", pl.Series(of, dtype=pl.Int64), _costs(len(of)))
    assert made["self_energy_j"].sum() == pytest.approx(_costs(len(of)).energy_j.sum(), rel=1e-9)


def _kernels(signatures: list[int]) -> pl.DataFrame:
    launch = [i * 10 for i in range(len(signatures))]
    return pl.DataFrame({"signature": signatures, "launch_ns": launch})


def test_named_steps_number_what_was_launched_in_them() -> None:
    ranges = pl.DataFrame(
        {"name": ["step 1", "inner", "step 2"], "start_ns": [0, 5, 30], "duration_ns": [25, 5, 20]}
    )
    made = iterations(ranges, EMPTY, _kernels([0, 1, 2, 3, 4, 5]), _costs(6))
    assert made["name"].to_list() == ["step 1", "step 2"]
    assert made["launches"].to_list() == [3, 2]
    assert made["energy_j"].to_list() == [6.0, 9.0]


def test_a_repeating_sequence_is_cut_where_it_begins_again() -> None:
    made = iterations(EMPTY, EMPTY, _kernels([0, 1, 1, 2] * 5), _costs(20))
    assert made.height == 5
    assert made["launches"].to_list() == [4] * 5


def test_nothing_repeats_in_a_random_sequence() -> None:
    assert iterations(EMPTY, EMPTY, _kernels(list(range(20))), _costs(20)).height == 0
