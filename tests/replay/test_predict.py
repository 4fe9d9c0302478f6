"""Predictions of tables: rows, totals, launches and anchors."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.replay.predict import parse_factors, predict, predict_table

LAYER = pl.DataFrame(
    {
        "op": ["gemm", "attention", "gemm", "elementwise"],
        "dtype": ["bf16"] * 4,
        "m": [2048, None, 2048, None],
        "n": [4096, None, 4096, None],
        "k": [4096, None, 4096, None],
        "batch": [None, 2, None, None],
        "q_len": [None, 1024, None, None],
        "kv_len": [None, 1024, None, None],
        "heads": [None, 32, None, None],
        "head_dim": [None, 128, None, None],
        "elements": [None, None, None, 1 << 22],
        "count": [3, 1, 2, 5],
    }
)


def test_one_row_per_input_row_and_clock_in_input_order() -> None:
    made = predict_table(LAYER, "a100-sxm", [900, 1200])
    assert made.frame["op"].to_list() == [o for o in LAYER["op"] for _ in range(2)]
    assert made.frame["clock_mhz"].to_list() == [900.0, 1200.0] * 4
    for column in ("duration_us", "power_w", "energy_mj"):
        stem, unit = column.rsplit("_", 1)
        assert (made.frame[f"{stem}_low_{unit}"] <= made.frame[column]).all()
        assert (made.frame[column] <= made.frame[f"{stem}_high_{unit}"]).all()


@pytest.mark.parametrize("launch", ["eager", "graph"])
def test_totals_are_the_sum_of_rows_and_gaps(launch: str) -> None:
    made = predict_table(LAYER, "a100-sxm", [900, 1410], launch=launch)  # type: ignore[arg-type]
    for total in made.totals:
        rows = made.frame.filter(pl.col("clock_mhz") == total["clock_mhz"])
        energy = float((rows["energy_mj"] * rows["count"]).sum()) * 1e-3
        time = float((rows["duration_us"] * rows["count"]).sum()) * 1e-3
        assert total["kernel_energy_j"] == pytest.approx(energy, rel=1e-9)
        assert total["kernel_time_ms"] == pytest.approx(time, rel=1e-9)
        assert total["energy_j"] == pytest.approx(energy + total["gap_energy_j"], rel=1e-9)
        assert sum(total["energy_parts_j"].values()) == pytest.approx(total["energy_j"], rel=1e-6)
        assert total["makespan_ms"] >= total["kernel_time_ms"] * (1 - 1e-9)
        assert total["mean_power_w"] == pytest.approx(
            total["energy_j"] / total["makespan_ms"] * 1e3, rel=1e-9
        )
        assert total["energy_low_j"] <= total["energy_j"] <= total["energy_high_j"]
        assert total["makespan_low_ms"] <= total["makespan_ms"] <= total["makespan_high_ms"]


def test_a_host_bound_table_hardly_feels_the_clock_and_a_graph_frees_it() -> None:
    tiny = pl.DataFrame({"op": ["elementwise"], "dtype": ["bf16"], "elements": [1024], "count": [500]})
    slow, fast = predict_table(tiny, "a100-sxm", [600, 1410], launch="eager").totals
    assert slow["makespan_ms"] < 1.02 * fast["makespan_ms"]
    assert slow["energy_j"] < fast["energy_j"]
    graph = predict_table(tiny, "a100-sxm", [1410], launch="graph").totals[0]
    assert graph["makespan_ms"] < 0.7 * fast["makespan_ms"]


def test_an_anchored_kernel_is_itself_at_its_own_clock() -> None:
    kernels = pl.DataFrame(
        {
            "kernel": ["a", "b"],
            "duration_us": [50.0, 700.0],
            "power_w": [120.0, 180.0],
            "clock_mhz": [1200, 1200],
        }
    )
    made = predict_table(kernels, "v100-sxm2-16gb", [900, 1200])
    here = made.frame.filter(pl.col("clock_mhz") == 1200)
    np.testing.assert_allclose(here["duration_us"], [50.0, 700.0], rtol=1e-6)
    np.testing.assert_allclose(here["power_w"], [120.0, 180.0], rtol=1e-6)
    assert here["measured_duration_us"].to_list() == [50.0, 700.0]
    slower = made.frame.filter(pl.col("clock_mhz") == 900)
    assert (slower["duration_us"].to_numpy() >= here["duration_us"].to_numpy()).all()


def test_words_are_checked(tmp_path: object) -> None:
    with pytest.raises(BadInput, match="--launch"):
        predict("x.csv", "a100-sxm", launch="lazy")
    with pytest.raises(BadInput, match="--anchor"):
        predict("x.csv", "a100-sxm", anchor="yes")
    for anchor in ("measured", "others"):
        with pytest.raises(BadInput, match=f"--anchor {anchor} needs measured kernels"):
            predict(
                pl.DataFrame({"op": ["gemm"], "dtype": ["bf16"], "m": [64], "n": [64], "k": [64]}),
                "a100-sxm",
                anchor=anchor,
            )
    with pytest.raises(BadInput, match="--scale"):
        parse_factors(["gemm"])
    with pytest.raises(BadInput, match="GPU"):
        predict_table(LAYER, "no-such-gpu")
