from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.calibrate.conformal import LEAST_GROUPS, band, bands, held_inside, percent


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 6), st.floats(0.01, 0.5))
def test_bands_hold_on_groups_they_were_not_made_of(seed: int, alike: int, noise: float) -> None:
    """Rows of a group share their error: what counts is how many groups there are, not how many rows."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(400), alike)
    error = np.repeat(rng.normal(0.0, noise, 400), alike) + rng.normal(0.0, noise / 20, len(group))
    inside = held_inside(error, group, np.zeros(len(group), np.int64), ())
    assert 84 < percent(inside) < 96


def test_a_kind_that_errs_more_has_a_wider_band() -> None:
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 500)
    error = rng.normal(0.0, np.where(kind == 0, 0.02, 0.2))
    found = bands(error, np.arange(1000), kind, ("calm", "wild"))
    assert found["wild"][1] > 5 * found["calm"][1]
    assert found["calm"][1] < found[""][1] < found["wild"][1]
    inside = held_inside(error, np.arange(1000), kind, ("calm", "wild"))
    assert percent(inside[kind == 0]) == pytest.approx(90, abs=4)
    assert percent(inside[kind == 1]) == pytest.approx(90, abs=4)


def test_few_groups_widen_a_band_and_share_one() -> None:
    error = np.linspace(-1.0, 1.0, 200)
    few, many = band(error, 8), band(error, 200)
    assert few[0] <= many[0]
    assert few[1] >= many[1]
    kind = np.zeros(200, np.int64)
    kind[: LEAST_GROUPS - 1] = 1
    assert set(bands(error, np.arange(200), kind, ("usual", "rare"))) == {"", "usual"}


def test_one_group_vouches_for_nothing() -> None:
    assert np.isnan(percent(held_inside(np.ones(5), np.zeros(5, np.int64), np.zeros(5, np.int64), ())))
