"""A power cap costs time and saves no more energy than the best clock; where none keeps it a note says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.hardware.load import load_gpu

#: Share by which a forecast between two priced clocks may miss the best one of a grid of clocks. [1]
_BETWEEN = 0.01
LLAMA = "llama-3.1-8b"
CASES: dict[str, dict[str, Any]] = {
    "decode": {"source": LLAMA, "gpu": "h100-sxm", "mode": "decode", "bs": 64},
    "serve": {"source": LLAMA, "gpu": "h100-sxm", "mode": "serve", "bs": 64},
    "serve on a card": {"source": LLAMA, "gpu": "rtx-4090", "mode": "serve", "bs": 4},
    "train": {
        "source": LLAMA, "gpu": "h100-sxm", "mode": "train", "gpus": 8, "zero": 3, "bs": 1, "gbs": 16,
    },
    "generate": {"source": "flux.1-dev", "gpu": "h100-sxm", "mode": "generate"},
}  # fmt: skip
_CAPS = [600, 450, 300, 250, 200, 160, 120, 100]


def _columns(case: dict[str, Any]) -> tuple[str, str]:
    if case["mode"] in {"decode", "serve"}:
        return "itl_ms", "energy_per_token_j"
    return "step_ms", "energy_per_item_j"


@pytest.mark.parametrize("name", CASES)
def test_no_cap_saves_more_than_the_best_clock(name: str) -> None:
    case = CASES[name]
    time, energy = _columns(case)
    gpu = load_gpu(case["gpu"])
    clocks = np.arange(gpu.clock_min_mhz, gpu.clock_boost_mhz, 60.0).tolist()
    free = tt.forecast(**case, clock_mhz=clocks)
    caps = [cap for cap in _CAPS if cap <= gpu.power_limit_w]
    capped = tt.forecast(**case, power_cap_w=caps)
    rows = capped.frame.filter(pl.col("error").is_null())
    times = rows[time].to_list()
    assert times == sorted(times)
    assert times[-1] > 1.3 * times[0]
    assert rows[energy].min() >= (1.0 - _BETWEEN) * free.frame[energy].min()  # type: ignore[operator]


@pytest.mark.parametrize("name", CASES)
def test_power_and_its_interval_stay_below_the_cap_or_a_note_says_why(name: str) -> None:
    for cap in (300.0, 200.0, 100.0):
        result = tt.forecast(**CASES[name], power_cap_w=cap)
        (row,) = result.frame.to_dicts()
        assert row["power_w_low"] <= row["power_w"] <= row["power_w_high"]
        gpus = CASES[name].get("gpus", 1)
        noted = any("is not kept" in note for note in result.notes)
        assert noted == (row["power_w"] > cap * gpus)
        assert noted or row["power_w_high"] <= cap * gpus * (1 + 1e-9)


def test_a_grid_and_a_table_tell_which_caps_are_not_kept() -> None:
    notes = tt.forecast(**CASES["decode"], power_cap_w=[100, 150, 400]).notes
    assert any(note.startswith("2 of 3 cases; the first: a cap of 100 W is not kept") for note in notes)
    table = pl.DataFrame([{"model": LLAMA, "gpu": "h100-sxm", "power_cap_w": cap} for cap in (100.0, 400.0)])
    assert any(
        note.startswith("1 of 2 cases; the first: a cap of 100 W") for note in tt.forecast(table).notes
    )
