"""The causes of a change sum to it, whatever the figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tracetool.compare.decomposition import Pairs, decompose, log_mean

positive = st.floats(1e-6, 1e6)
maybe = st.one_of(st.just(0.0), positive)


def column(n: int, values: st.SearchStrategy[float]) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, n, elements=values)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 6))
def test_causes_sum_to_the_change_with_no_residual(data: st.DataObject, n: int) -> None:
    draw = {name: data.draw(column(n, maybe)) for name in
            ("count_base", "count_head", "time_base", "time_head", "energy_base", "energy_head")}  # fmt: skip
    ratios = {name: data.draw(column(n, st.floats(0.2, 5.0))) for name in
              ("work_ratio", "clock_time_ratio", "clock_power_ratio")}  # fmt: skip
    pairs = Pairs(**draw, **ratios)
    made = decompose(pairs)
    change = pairs.energy_head - pairs.energy_base
    scale = np.maximum(np.maximum(pairs.energy_head, pairs.energy_base), 1e-300)
    assert np.abs(sum(made.values()) - change) / scale == pytest.approx(0.0, abs=1e-12)


def pairs(**changed: float) -> Pairs:
    names = ("count_base", "count_head", "time_base", "time_head", "energy_base", "energy_head",
             "work_ratio", "clock_time_ratio", "clock_power_ratio")  # fmt: skip
    return Pairs(**{n: np.array([changed.get(n, 1.0)]) for n in names})


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"count_head": 2.0, "time_head": 2.0, "energy_head": 2.0}, "more work"),
        ({"time_head": 1.5, "energy_head": 1.5}, "longer duration"),
        ({"energy_head": 1.3}, "higher power"),
        (
            {"time_head": 1.2, "energy_head": 1.2 * 0.7, "clock_time_ratio": 1.2, "clock_power_ratio": 0.7},
            "clock",
        ),
        ({"time_head": 1.4, "energy_head": 1.4, "work_ratio": 1.4}, "more work"),
        ({"count_base": 0.0, "time_base": 0.0, "energy_base": 0.0}, "more work"),
        ({"count_head": 0.0, "time_head": 0.0, "energy_head": 0.0}, "more work"),
    ],
)
def test_one_change_has_one_cause(changed: dict[str, float], cause: str) -> None:
    made = {k: float(v[0]) for k, v in decompose(pairs(**changed)).items()}
    change = changed.get("energy_head", 1.0) - changed.get("energy_base", 1.0)
    assert made.pop(cause) == pytest.approx(change)
    assert list(made.values()) == pytest.approx([0.0] * len(made), abs=1e-12)


@given(positive, positive)
def test_log_mean_lies_between_and_takes_no_side(a: float, b: float) -> None:
    one, other = np.array([a]), np.array([b])
    made = float(log_mean(one, other)[0])
    assert min(a, b) * (1 - 1e-9) <= made <= max(a, b) * (1 + 1e-9)
    assert made == pytest.approx(float(log_mean(other, one)[0]))
