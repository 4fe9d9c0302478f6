"""Clocks as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.replay.clocks import checked_cap, checked_clocks, checked_memory, parse_clocks


def test_values_lists_and_ranges() -> None:
    assert parse_clocks("") is None
    assert parse_clocks("1200") == [1200.0]
    assert parse_clocks("600:630:15,900") == [600.0, 615.0, 630.0, 900.0]
    assert parse_clocks("900,900") == [900.0]


@pytest.mark.parametrize(
    "text", ["x", "-5", "0", "nan", "inf", "1:2:3:4", "900:600:15", "1:90000:1", "900,,1"]
)
def test_nonsense_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(BadInput, match="--clock"):
        parse_clocks(text)


@given(st.text(max_size=12))
@settings(deadline=None)
def test_any_text_gives_clocks_or_bad_input(text: str) -> None:
    try:
        made = parse_clocks(text)
    except BadInput:
        return
    assert made is None or all(0 < c < 1e5 for c in made)


def test_a_cap_below_idle_is_refused_and_an_odd_one_noted() -> None:
    gpu = load_gpu("a100-sxm")
    with pytest.raises(BadInput, match="idle"):
        checked_cap(1.0, gpu)
    assert "outside" in checked_cap(0.5 * gpu.power_limit_min_w + 0.5 * gpu.idle_w, gpu)[0]
    assert checked_cap(gpu.power_limit_w, gpu) == checked_cap(None, gpu) == []


def test_a_memory_clock_no_board_has_is_noted() -> None:
    gpu = load_gpu("a100-sxm")
    assert checked_memory(None, gpu) == checked_memory(0.5 * gpu.memory_clock_mhz, gpu) == []
    assert "extrapolation" in checked_memory(3 * gpu.memory_clock_mhz, gpu)[0]


@pytest.mark.parametrize("value", [1.0, 1e6, float("inf"), float("nan"), -1.0])
def test_a_memory_clock_far_from_any_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match="memory clock"):
        checked_memory(value, load_gpu("a100-sxm"))


@pytest.mark.parametrize("value", [0.0, -1.0, 1e9, float("inf"), float("nan")])
def test_a_cap_that_binds_nothing_is_refused(value: float) -> None:
    with pytest.raises(BadInput, match=r"power cap.*W"):
        checked_cap(value, load_gpu("a100-sxm"))


def test_a_clock_far_below_the_gpu_is_refused() -> None:
    gpu = load_gpu("a100-sxm")
    with pytest.raises(BadInput, match="far below the lowest clock") as error:
        checked_clocks([1.0], gpu)
    assert f"{gpu.clock_min_mhz:g} to {gpu.clock_max_mhz:g} MHz" in error.value.line()


def test_a_clock_far_above_the_gpu_is_refused_and_a_low_one_noted() -> None:
    gpu = load_gpu("a100-sxm")
    with pytest.raises(BadInput, match="above the highest clock"):
        checked_clocks([3 * gpu.clock_max_mhz], gpu)
    clocks, notes = checked_clocks([100.0], gpu)
    assert clocks.tolist() == [100.0]
    assert "below the lowest clock" in notes[0]
    assert "boost clock" in checked_clocks(None, gpu)[1][0]
