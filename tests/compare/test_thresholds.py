"""Thresholds as people write them, and as people mistype them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.compare.thresholds import METRICS, Threshold, parse_threshold, parse_thresholds
from tracetool.core.errors import BadInput


@pytest.mark.parametrize(
    "text",
    ["", "energy", "energy=", "energy=nan%", "energy=inf%", "energy=-1%", "energy=5", "joules=5%",
     "energy=5%%", "energy=1e999%", "=5%", "energy=0x5%", "energy= %", "energy=٣%"],
)  # fmt: skip
def test_a_slip_is_a_fault_not_a_pass(text: str) -> None:
    with pytest.raises(BadInput, match="--fail-on"):
        parse_threshold(text)


def test_several_in_one_text_and_commas_in_names() -> None:
    found = parse_thresholds(["energy=2%, time=5%", "gemm<float, 128>*:power=1%"])
    assert [t.text() for t in found] == ["energy=2%", "time=5%", "gemm<float, 128>*:power=1%"]


def test_scope_is_a_family_or_a_pattern_on_names() -> None:
    assert Threshold("energy", 0.1, "gemm").covers("gemm", "anything")
    assert Threshold("energy", 0.1, "flash_*").covers("attention", "flash_fwd")
    assert not Threshold("energy", 0.1).covers("gemm", "anything")


@given(
    st.sampled_from(METRICS),
    st.integers(0, 10_000).map(lambda i: i / 100),
    st.text("abcXYZ_*<>:, ", max_size=12).filter(lambda s: s == s.strip()),
)
def test_what_is_printed_parses_to_itself(metric: str, percent: float, scope: str) -> None:
    made = parse_threshold(f"{scope + ':' if scope else ''}{metric}={percent:g}%")
    assert parse_threshold(made.text()) == made
