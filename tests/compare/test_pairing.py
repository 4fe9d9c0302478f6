"""Every launch finds its place: the same, renamed, reshaped, fused, split, added or removed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare.sides import NO_CLOCKS, STEP, Kernel, make_run, side
from tracetool.compare.matched import matched_pairs
from tracetool.compare.pairing import pair_sides


def relations(
    base: Sequence[Kernel], head: Sequence[Kernel], *, ranges: bool = True, operators: bool = True
) -> list[tuple[str, str | None, str | None]]:
    left = side(make_run(base, ranges=ranges, operators=operators), per_step=ranges)
    right = side(make_run(head, ranges=ranges, operators=operators), per_step=ranges)
    pairs = matched_pairs(pair_sides(left, right), left, right, NO_CLOCKS)
    return sorted(pairs.select("relation", "name_base", "name_head").rows(), key=str)


def changed(found: list[tuple[str, str | None, str | None]]) -> list[tuple[str, str | None, str | None]]:
    return [row for row in found if row[0] != "same"]


def test_the_same_run_is_the_same() -> None:
    found = relations(STEP, STEP)
    assert [r[0] for r in found] == ["same"] * len(STEP)


def test_step_numbers_do_not_matter() -> None:
    left, right = side(make_run(STEP, 10)), side(make_run(STEP, 7))
    pairs = matched_pairs(pair_sides(left, right), left, right, NO_CLOCKS)
    assert set(pairs["relation"]) == {"same"}
    assert pairs["energy_j_base"].to_list() == pytest.approx(pairs["energy_j_head"].to_list())


@pytest.mark.parametrize("operators", [True, False])
def test_another_kernel_for_the_same_operator(operators: bool) -> None:
    head = [("sgemm_new", *STEP[0][1:]), *STEP[1:]]
    assert changed(relations(STEP, head, operators=operators)) == [("renamed", "gemm_qkv", "sgemm_new")]


@pytest.mark.parametrize(("ranges", "operators"), [(True, True), (True, False), (False, False)])
def test_two_kernels_fused_into_one(ranges: bool, operators: bool) -> None:
    fused: Kernel = ("triton_poi_fused_add_mul", "elementwise", "CompiledFunction", "", 12.0, 210.0)
    head = [*STEP[:3], fused, STEP[5]]
    found = changed(relations(STEP, head, ranges=ranges, operators=operators))
    assert [r[0] for r in found] == ["fused"]
    assert found[0][2] == "triton_poi_fused_add_mul"
    assert set(str(found[0][1]).split(" + ")) == {"add", "mul"}


def test_one_kernel_split_into_two() -> None:
    first: Kernel = ("norm_stats", "norm", "aten::layer_norm", "[[8]]", 10.0, 220.0)
    second: Kernel = ("norm_apply", "norm", "aten::layer_norm", "[[8]]", 10.0, 220.0)
    # both come from one operator call each in this fixture, so they are told by their place
    head = [*STEP[:5], first, second]
    found = changed(relations(STEP, head, operators=False))
    assert [r[0] for r in found] == ["split"]
    assert set(str(found[0][2]).split(" + ")) == {"norm_stats", "norm_apply"}


def test_other_shapes_of_the_same_kernel() -> None:
    head = [("gemm_qkv", "gemm", "aten::mm", "[[16,8]]", 190.0, 400.0), *STEP[1:]]
    assert changed(relations(STEP, head)) == [("reshaped", "gemm_qkv", "gemm_qkv")]


def test_added_and_gone() -> None:
    extra: Kernel = ("dropout", "rng", "aten::dropout", "[[8]]", 5.0, 150.0)
    assert changed(relations(STEP, [*STEP, extra])) == [("added", None, "dropout")]
    assert changed(relations([*STEP, extra], STEP)) == [("removed", "dropout", None)]


def test_unlike_work_in_one_place_is_not_paired() -> None:
    one: Kernel = ("dropout", "rng", "aten::dropout", "[[8]]", 5.0, 150.0)
    other: Kernel = ("all_reduce", "collective", "c10d::allreduce", "[[8]]", 5.0, 150.0)
    found = changed(relations([*STEP[:3], one, *STEP[3:]], [*STEP[:3], other, *STEP[3:]]))
    assert found == [("added", None, "all_reduce"), ("removed", "dropout", None)]


NAMES = st.sampled_from("abcdef")
KERNELS = st.tuples(
    NAMES, st.sampled_from(["gemm", "norm"]), st.sampled_from(["x", "y", ""]), st.sampled_from(["1", "2"]),
    st.just(10.0), st.just(100.0),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(KERNELS, min_size=1, max_size=8), st.lists(KERNELS, min_size=1, max_size=8), st.booleans())
def test_every_launch_is_in_exactly_one_pair(base: list[Kernel], head: list[Kernel], ranges: bool) -> None:
    # one name and shape is one kernel: the family follows from the name
    base, head = ([(k[0], "gemm" if k[0] < "d" else "norm", *k[2:]) for k in s] for s in (base, head))
    left, right = (side(make_run(s, 3, ranges=ranges), per_step=ranges) for s in (base, head))
    parts = pair_sides(left, right)
    for name, one in (("base", left), ("head", right)):
        sums = parts.filter(pl.col("side") == name).group_by("class").agg(pl.col("launches").sum())
        both = one.classes.join(sums, on="class", how="left", suffix="_paired")
        assert both["launches_paired"].to_list() == pytest.approx(both["launches"].to_list())
    pairs = matched_pairs(parts, left, right, NO_CLOCKS)
    for name, one in (("base", left), ("head", right)):
        assert pairs[f"energy_j_{name}"].sum() == pytest.approx(one.classes["energy_j"].sum())
    change = pairs["energy_j_head"].sum() - pairs["energy_j_base"].sum()
    causes = sum(float(pairs[c].sum()) for c in ("work_j", "duration_j", "power_j", "clock_j"))
    assert causes == pytest.approx(change, abs=1e-12)
