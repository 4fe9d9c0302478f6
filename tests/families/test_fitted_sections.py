"""Files of implementations and distances between architectures, from a few numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tracetool.families.implementations import _fitted, architecture_distance
from tracetool.hardware.architecture import generations_apart


def _number(value: float) -> dict[str, object]:
    return {"value": value, "unit": "1", "kind": "fitted", "source": "a table"}


def test_a_section_is_its_coefficients_its_gpus_and_what_differs_elsewhere() -> None:
    entry: dict[str, Any] = {
        "gpus": {"h100-sxm": 120, "a100-sxm": 80},
        "versions": ["vLLM 0.24.0"],
        "launch_us": _number(3.5),
        "spread_low": _number(-0.2),
        "spread_high": _number(0.3),
        "on": {"ampere-ga100": {"launch_us": _number(4.5)}},
        "in": {"vLLM 0.14.0": {"hopper": {"launch_us": _number(5.5), "spread_low": _number(-0.4),
                                           "spread_high": _number(0.5)}}},
    }  # fmt: skip
    fitted = _fitted(entry)
    assert dict(fitted.values) == {"launch_us": 3.5}
    assert dict(fitted.gpus) == {"h100-sxm": 120, "a100-sxm": 80}
    assert fitted.on("hopper") == {"launch_us": 3.5}
    assert fitted.on("ampere-ga100") == {"launch_us": 4.5}
    assert fitted.on("hopper", "vllm 0.14.0") == {"launch_us": 5.5}
    assert fitted.band_on("hopper") == (-0.2, 0.3)
    assert fitted.band_on("hopper", "vllm 0.14.0") == (-0.4, 0.5)


@pytest.mark.parametrize(
    ("one", "other", "more"),
    [
        ("ampere-ga100", "ada", 0.0),
        ("hopper", "blackwell", 0.0),
        ("ampere-ga100", "hopper", 3.0),
        ("blackwell", "ada", 3.0),
    ],
)
def test_matrix_instructions_of_warpgroups_put_architectures_further_apart(
    one: str, other: str, more: float
) -> None:
    """Libraries build other kernels for Hopper and for Blackwell's tensor memory than for those before."""
    expected = (True, generations_apart(one, other) + more)
    assert architecture_distance(one, other) == architecture_distance(other, one) == expected
    assert architecture_distance(one, one) == (False, 0.0)
