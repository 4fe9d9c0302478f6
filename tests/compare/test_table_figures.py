"""Figures of tables of measured runs, worked out from a few rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.compare.test_run_tables import WATTS, planted
from tracetool.compare.run_tables.columns import read_runs
from tracetool.compare.run_tables.contrasts import contrasts, generations, median_parts
from tracetool.compare.run_tables.diagnosis import diagnose_runs
from tracetool.compare.run_tables.factors import FACTORS, log_factors
from tracetool.compare.run_tables.findings import contrast_statement, growth_statement, task_means
from tracetool.compare.run_tables.latent import latent_factors
from tracetool.compare.run_tables.shared_fit import rank_left_out
from tracetool.core.number_text import number
from tracetool.hardware.load import load_gpu
from tracetool.report.pictures.run_table import factor_picture


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


def _task(model: str, task: str, joules: float) -> pl.DataFrame:
    """Return one run of 500 tokens a request that takes ``joules`` a token."""
    return planted(
        (8.0,), model_id=model, task=task, energy_per_token_joules=np.array([joules])
    )  # fmt: skip


def test_a_bar_of_factors_states_the_median_ratio_of_its_sentence() -> None:
    """Three models, 2, 3 and 100 times the energy: the median is 3, the sums of joules are 35 times apart."""
    worse = {"maker/a": 2.0, "maker/b": 3.0, "maker/c": 100.0}
    runs = [_task(m, t, j) for m, by in worse.items() for t, j in (("chat", 1.0), ("reason", by))]
    (task,) = (c for c in contrasts(read_runs(pl.concat(runs)).frame) if c.name == "task")
    assert sum(median_parts(task.pairs).values()) == pytest.approx(2.0)
    two = task.pairs.filter(pl.col("ratio") < 50)  # of an even number the mean of the middle two
    assert sum(median_parts(two).values()) == pytest.approx(1.5)
    told = f"x {number(3.0, 3)}"
    assert told in contrast_statement(task).text
    picture = factor_picture([task])
    assert picture is not None
    assert f">{told}<" in picture
    assert set(median_parts(task.pairs)) == set(FACTORS)


def test_tasks_are_compared_over_the_models_that_ran_both() -> None:
    """A model that only reasons, at 900 J a token, is no part of what reasoning takes of the others."""
    runs = [
        _task("maker/a", "chat", 1.0), _task("maker/a", "reason", 4.0), _task("maker/b", "reason", 900.0),
    ]  # fmt: skip
    (statement,) = task_means(read_runs(pl.concat(runs)).frame)
    assert statement.paired
    assert statement.figures["fold"] == pytest.approx(4.0)
    counts = [statement.figures[c] for c in ("models", "high_models", "low_models")]
    assert counts == [1, 1, 1]


def test_tasks_without_a_model_of_both_state_both_counts_and_come_last() -> None:
    runs = [
        _task("maker/a", "chat", 1.0), _task("maker/a", "reason", 4.0), _task("maker/b", "code", 0.01),
        _task("maker/c", "code", 0.03),
    ]  # fmt: skip
    found = diagnose_runs(pl.concat(runs)).statements
    (apart,) = (s for s in found if not s.paired)
    assert "2,000 J in the mean of 1 model, one of code 10.00 J in that of 2 other models" in apart.text
    assert [apart.figures[c] for c in ("models", "high_models", "low_models")] == [0, 1, 2]
    assert apart.fold > max(s.fold for s in found if s.paired)
    differences = [s for s in found if s.subject not in ("length", "ranking")]
    assert differences[-1] is apart
