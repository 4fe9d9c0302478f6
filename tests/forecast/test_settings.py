"""A GPU with changed numbers: what changes, what stays, and how sure it is."""

from __future__ import annotations

from typing import Any

import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.hardware.load import load_gpu
from tracetool.hardware.modified_gpu import with_numbers

CASE: dict[str, Any] = {"mode": "decode", "isl": 1000, "bs": 16, "host_us": 0, "sampling": "greedy"}


def _one(gpu: str = "h100-sxm", **values: Any) -> dict[str, Any]:
    return tt.forecast(CONFIG, gpu=gpu, **{**CASE, **values}).frame.to_dicts()[0]


def test_spellings_of_one_number_are_one() -> None:
    for name, value in (
        ("dram_bytes_per_s", 6e12),
        ("dram_gbs", 6000),
        ("dram_tbs", 6),
        ("dram_gb_per_s", 6e3),
    ):
        assert with_numbers("h100-sxm", {name: value}).dram_bytes_per_s == pytest.approx(6e12)
    assert with_numbers("h100-sxm", {"memory_gib": 128}).memory_bytes == 128 * 2**30


def test_the_sheets_own_numbers_change_nothing() -> None:
    built = load_gpu("h100-sxm")
    assert with_numbers("h100-sxm", {"sm_count": 132, "dram_gbs": 3350}) is built
    assert _one(set="sm_count=132")["itl_ms"] == _one()["itl_ms"]


def test_bounds_move_with_what_they_bound() -> None:
    gpu = with_numbers("h100-sxm", {"clock_boost_mhz": 2200, "power_limit_max_w": 500})
    assert (gpu.clock_max_mhz, gpu.power_limit_w, gpu.sm_count) == (2200, 500, 132)


def test_one_gpu_with_the_memory_of_another_decodes_as_that_one() -> None:
    """H100 and H200 differ by their memory alone (NVIDIA's sheets: 3.35 and 4.8 TB/s)."""
    memory = load_gpu("h200-sxm").memory_bytes
    changed, real = _one(set={"dram_gbs": 4800, "memory_bytes": memory}), _one("h200-sxm")
    assert changed["itl_ms"] == pytest.approx(real["itl_ms"], rel=0.1)
    assert changed["largest_batch"] == pytest.approx(real["largest_batch"], rel=0.02)


def test_hardware_nobody_built_is_less_sure() -> None:
    result = tt.forecast(CONFIG, gpu="h100-sxm", set={"sm_count": 160}, **CASE)
    row, built = result.frame.to_dicts()[0], _one()

    def width(values: dict[str, Any]) -> float:
        return float((values["itl_ms_high"] - values["itl_ms_low"]) / values["itl_ms"])

    assert width(row) > 1.2 * width(built)
    assert row["covered"] == 0.0
    assert row["sm_count"] == 160
    assert any("sm_count 160 instead of 132" in note for note in result.notes)
    assert all("calibrated" not in basis for basis in result.parts["basis"])


def test_more_of_a_resource_is_no_slower_and_idles_at_more() -> None:
    rows = [_one(set={"dram_gbs": g}) for g in (2000, 3350, 6000)]
    assert [r["itl_ms"] for r in rows] == sorted((r["itl_ms"] for r in rows), reverse=True)
    few, many = (_one(set={"sm_count": n}, mode="prefill", isl=4000) for n in (100, 160))
    assert many["ttft_ms"] < few["ttft_ms"]
    idle = [_one(set={"sm_count": n}, host_us=1e6)["power_w"] for n in (132, 264)]
    assert idle[1] > idle[0]


def test_a_grid_over_numbers_has_a_column_each() -> None:
    result = tt.forecast(CONFIG, gpu="h100-sxm", set=["sm_count=100,160", "dram_gbs=3000:5000:1000"], **CASE)
    assert result.frame.height == 6
    assert sorted(set(result.frame["dram_gbs"])) == [3000, 4000, 5000]
    assert sorted(set(result.frame["sm_count"])) == [100, 160]
    assert any("never measured" in note for note in result.notes)


@pytest.mark.parametrize(
    ("text", "part"),
    [("smcount=3", "nearest: sm_count"), ("sm_count", "NAME=VALUE"), ("sm_count=1e7", "far from"),
     ("bs=3", "bs"), ("sm_count=0", "above zero"), ("sm_count=x", "sm_count"),
     ("dram_gbs=3000 dram_tbs=3", "twice")],
)  # fmt: skip
def test_what_cannot_be_set_is_named(text: str, part: str) -> None:
    with pytest.raises(tt.BadInput, match=part):
        _one(set=text)
