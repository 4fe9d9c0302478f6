"""The posterior of a log's offset, against the product of two normal distributions."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.measure.align import align, join_parts

PRIOR_SD = 0.005


@pytest.mark.parametrize("place", np.linspace(-0.0079, 0.0079, 9).tolist())
@pytest.mark.parametrize("sd", [4e-4, 2e-3])
def test_an_offset_is_found_between_the_places_tried_first(place: float, sd: float) -> None:
    """Precisions add: the places tried first lie 1.7 ms apart, and rounds look closer on either side."""
    found = align(lambda x: -0.5 * ((x - place) / sd) ** 2, prior_sd_s=PRIOR_SD)
    precision = 1.0 / sd**2 + 1.0 / PRIOR_SD**2
    assert found.offset_s == pytest.approx(place / sd**2 / precision, abs=0.12 * sd)
    assert found.offset_sd_s == pytest.approx(precision**-0.5, rel=0.25)


def test_a_likelihood_of_two_peaks_keeps_its_spread() -> None:
    found = align(lambda x: float(np.logaddexp(*(-0.5 * ((x - p) / 3e-4) ** 2 for p in (-0.004, 0.004)))))
    assert abs(found.offset_s) < 3e-4
    assert found.offset_sd_s == pytest.approx(0.004, rel=0.1)


def test_parts_that_move_apart_tell_the_drift() -> None:
    """Offsets of 1, 2 and 3 ms at 0, 100 and 200 s: 10 ppm about the middle."""
    at = np.array([0.0, 100.0, 200.0])
    parts = [
        align(lambda x, p=p: -0.5 * ((x - p) / 1e-5) ** 2, around_s=p, prior_sd_s=1e-4)  # type: ignore[misc]
        for p in (0.001, 0.002, 0.003)
    ]
    joined = join_parts(parts, at, 1e-3)
    assert joined.drift == pytest.approx(1e-5, rel=0.02)
    assert joined.offset_s + joined.drift * (100.0 - joined.pivot_s) == pytest.approx(0.002, abs=2e-6)
