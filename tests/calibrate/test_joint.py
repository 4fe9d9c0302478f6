"""The joint fit: one set for several GPUs, near its center where rows say little."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.calibrate.few import fit_few
from tracetool.calibrate.joint import GpuRows, errors, fit_joint, fit_near
from tracetool.calibrate.time import LawRows
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import implementations
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu

LAW = laws()["decode"]
TRUTH = {"launch_us": 9.0, "step_clk": 900.0}


def measured(gpu: Gpu, count: int, seed: int, truth: dict[str, float] = TRUTH) -> GpuRows:
    """Return rows whose times are the law's with known coefficients, and one per cent of noise."""
    random = np.random.default_rng(seed)
    numbers = {
        "batch": random.choice([1.0, 8.0, 64.0], count),
        "kv_len": random.choice([128.0, 1024.0, 8192.0], count),
        "heads": np.full(count, 32.0), "kv_heads": np.full(count, 8.0), "head_dim": np.full(count, 128.0),
        "q_len": np.ones(count),
    }  # fmt: skip
    texts = {"phase": "decode", "dtype": "bf16"}
    rows = OperatorColumns(
        np.full(count, "attention", dtype=object),
        {**numbers, **{k: np.full(count, v, dtype=object) for k, v in texts.items()}},
    )
    hertz = np.full((count, 1), gpu.clock_boost_mhz * 1e6)
    exact = duration_s(LAW.pieces(rows, gpu, truth), hertz)[:, 0]
    noise = np.exp(random.normal(0.0, 0.01, count))
    return GpuRows(gpu, LawRows(rows, exact * noise, hertz, np.arange(count)))


@pytest.fixture(scope="module")
def gpus() -> tuple[Gpu, Gpu]:
    return load_gpu("h100-sxm"), load_gpu("h200-sxm")


def test_one_set_times_every_gpu(gpus: tuple[Gpu, Gpu]) -> None:
    parts = [measured(gpu, 200, seed) for seed, gpu in enumerate(gpus)]
    fit = fit_joint(LAW, parts)
    for part in parts:
        hertz = part.data.hertz
        time = duration_s(LAW.pieces(part.data.rows, part.gpu, fit.on(part.gpu)), hertz)[:, 0]
        assert np.median(np.abs(time / part.data.measured_s - 1.0)) < 0.02
    assert fit.by_architecture == {}  # both are of one


def test_an_architecture_keeps_what_it_alone_does(gpus: tuple[Gpu, Gpu]) -> None:
    other = load_gpu("a100-sxm")
    parts = [measured(gpus[0], 200, 1), measured(other, 200, 2, {**TRUTH, "launch_us": 30.0})]
    fit = fit_joint(LAW, parts)
    assert fit.on(other)["launch_us"] > 1.5 * fit.on(gpus[0])["launch_us"]


def test_few_rows_stay_near_the_center(gpus: tuple[Gpu, Gpu]) -> None:
    center = {name: one.value for name, one in LAW.priors.items()}
    few, many = (
        fit_near(LAW, [measured(gpus[0], 200, 3, {**TRUTH, "launch_us": 40.0})], center, center, sd)
        for sd in (0.02, 0.5)
    )
    assert abs(np.log(few["launch_us"] / center["launch_us"])) < abs(
        np.log(many["launch_us"] / center["launch_us"])
    )
    assert many["launch_us"] == pytest.approx(40.0, rel=0.15)


def test_ten_rows_of_a_new_gpu_are_worth_a_calibration(gpus: tuple[Gpu, Gpu]) -> None:
    truth = {**implementations("decode")[0].laws["decode"].values, "launch_us": 12.0}
    ten, rest = measured(gpus[0], 10, 4, truth), measured(gpus[0], 200, 5, truth)
    fit = fit_few(LAW, ten.data, gpus[0], {}, (-0.5, 0.5))
    error = np.abs(np.expm1(errors(LAW, rest, fit.values)))
    assert np.median(error) < 0.14
    assert fit.spread[""][0] < 0 < fit.spread[""][1]
    assert fit.spread[""][1] < 0.5  # what is known of the spread narrows with the rows
