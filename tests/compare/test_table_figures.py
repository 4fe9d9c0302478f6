"""Figures of tables of measured runs, worked out from a few rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.compare.test_run_tables import WATTS, planted
from tracetool.compare.run_tables.columns import read_runs
from tracetool.compare.run_tables.contrasts import generations
from tracetool.compare.run_tables.factors import log_factors
from tracetool.compare.run_tables.findings import growth_statement
from tracetool.compare.run_tables.latent import latent_factors
from tracetool.compare.run_tables.shared_fit import rank_left_out
from tracetool.hardware.load import load_gpu


def test_each_two_gpus_of_a_table_are_compared_with_one_another() -> None:
    """Energies as 4 to 1 to 2: of each pair the later name is the base, at three latencies."""
    worse = {"A100": 4.0, "B200": 1.0, "H100": 2.0}
    energy = planted()["energy_per_token_joules"].to_numpy()
    table = pl.concat(
        [planted(gpu_model=gpu, energy_per_token_joules=by * energy) for gpu, by in worse.items()]
    )
    found = generations(read_runs(table).frame)
    assert [(c.base, c.head) for c in found] == [("B200", "A100"), ("H100", "A100"), ("H100", "B200")]
    for contrast, ratio in zip(found, (4.0, 2.0, 0.5), strict=True):
        assert contrast.pairs["ratio"].to_list() == pytest.approx([ratio] * 3)
        names = [table["gpu_model"].gather(contrast.pairs[f"{side}_row"]) for side in ("base", "head")]
        assert [set(of_side) for of_side in names] == [{contrast.base}, {contrast.head}]


def test_a_factor_of_zero_is_one_that_is_not_stated() -> None:
    """600 J at 600 W on two GPUs: a second of both, whatever a table writes as no steps and no pixels."""
    rows = pl.DataFrame({"units_per_request": [1.0], "steps": [0.0], "pixels": [-1.0],
                         "active_billions": [0.0], "energy_j": [600.0], "power_w": [600.0],
                         "gpus": [2.0]})  # fmt: skip
    for stated in (None, rows):
        factors = log_factors(rows, stated).row(0, named=True)
        assert factors.pop("power per GPU") == pytest.approx(np.log(300.0))
        assert factors.pop("GPU time") == pytest.approx(np.log(2.0))
        assert set(factors.values()) == {0.0}


def test_growth_with_length_is_told_in_millijoules() -> None:
    growth = pl.DataFrame({"growth_j": [0.05, 0.01, 0.02], "longest": [2000.0, 8000.0, 500.0]})
    (statement,) = growth_statement(growth)
    ends = ("growth_mj", "growth_low_mj", "growth_high_mj", "longest", "configurations")
    assert [statement.figures[name] for name in ends] == pytest.approx([20.0, 10.0, 50.0, 8000.0, 3])
    assert "add 20.0 mJ to each token (median of 3 models and GPUs; 10.0 to 50.0;" in statement.text


@pytest.mark.parametrize(
    ("batch", "total", "read"), [(1.0, 80.0, 8.0), (2.0, 80.0, 15.2), (3.0, 80.0, 21.68), (2.0, 8.0, 8.0)]
)
def test_a_step_reads_the_experts_that_one_of_its_tokens_asks_for(
    batch: float, total: float, read: float
) -> None:
    """A tenth of 80 billion weights a token: of two tokens 1 - 0.9^2 = 19 %, of three 27.1 %; dense, all."""
    runs = planted((batch,), total_params_billions=total)
    (row,) = latent_factors(read_runs(runs)).to_dicts()
    gpu = load_gpu("h100-sxm")
    step_s = batch * runs["energy_per_token_joules"][0] / WATTS
    assert row["memory_pct"] == pytest.approx(100.0 * read * 1e9 * 2.0 / step_s / gpu.dram_bytes_per_s)
    assert row["weights_pct"] == pytest.approx(100.0 * total * 1e9 * 2.0 / gpu.memory_bytes)
    # a product and a sum for each of the 8 billion that a token asks for; 4096 a clock of an SM
    rate, peak = WATTS / runs["energy_per_token_joules"][0], 4096 * 132 * 1980e6
    assert row["compute_pct"] == pytest.approx(100.0 * 16e9 * rate / peak)


def test_a_model_of_images_left_out_is_met_by_the_physics_of_the_others() -> None:
    """Four models, each at five batches on one and on two GPUs: work, base power of steps, and one image."""
    rows = []
    for size, steps, pixels in ((2.0, 50.0, 1e6), (5.0, 28.0, 1e6), (8.0, 30.0, 5e5), (12.0, 50.0, 2e6)):
        for gpus in (1.0, 2.0):
            for batch in (1.0, 2.0, 4.0, 8.0, 16.0):
                volume = size * steps * pixels / 1e6
                joules = 3.0 * volume + 0.5 * gpus * steps / batch + 2.0 * gpus * pixels / 1e6
                rows.append({
                    "family": f"m{size:g}", "gpu": "H100", "unit": "image", "gpus": gpus, "batch": batch,
                    "active_billions": size, "steps": steps, "pixels": pixels, "energy_j": joules,
                })  # fmt: skip
    ranked = rank_left_out(pl.DataFrame(rows))
    assert ranked["model"].to_list() == ["m12", "m2", "m5", "m8"]
    assert ranked["unit"].to_list() == ["picture"] * 4
    assert ranked["configurations"].to_list() == [10] * 4
    assert ranked["spearman"].to_numpy() == pytest.approx(1.0, abs=1e-9)
    assert ranked["scale"].to_numpy() == pytest.approx(1.0, abs=1e-6)
