"""Kernels that were not measured, predicted from those of the same run that were."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.load import load_gpu
from tracetool.model.anchor import Anchor
from tracetool.model.anchor_groups import kernels as same_kernels
from tracetool.model.own_kernels import _Group, _levels, left_out, shrunk_variance
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows

GPU = load_gpu("h100-sxm")
CLOCK = np.array([GPU.clock_boost_mhz])
SIZES = np.array([2e7, 3e7, 5e7, 8e7, 1.3e8, 2e8])
#: What the machine takes of the model's time.
SLOWER = 1.25


def kernels(measured_share: np.ndarray) -> OperatorColumns:
    """Return elementwise kernels of a trace with these shares of the model's times; NaN where none."""
    rows = rows_of("elementwise", elements=SIZES, reads=1, writes=1)
    words = {
        "name": "void at::native::vectorized_elementwise_kernel<4, f>",
        "access_pattern": "wide",
    }
    columns = {c: np.full(len(rows), word, dtype=object) for c, word in words.items()}
    rows = replace(rows, columns={**rows.columns, **columns})
    model_us = time_rows(rows, GPU, CLOCK).duration_s[:, 0] * 1e6
    clock = np.full(len(rows), GPU.clock_boost_mhz)
    measured = {"duration_us": model_us * measured_share, "recorded_clock_mhz": clock}
    return replace(rows, columns={**rows.columns, **measured})


def all_but_last() -> np.ndarray:
    share = np.full(len(SIZES), SLOWER)
    share[-1] = np.nan
    return share


def us(predicted: Prediction) -> np.ndarray:
    return predicted.timing.duration_s[:, 0] * 1e6


def test_a_kernel_nobody_measured_takes_what_the_others_tell() -> None:
    rows = kernels(all_but_last())
    alone, beside = predict_rows(rows, GPU, CLOCK), predict_rows(rows, GPU, CLOCK, anchor=True)
    factor = us(beside)[-1] / us(alone)[-1]
    assert 1.0 + 0.5 * (SLOWER - 1.0) < factor < SLOWER
    width = [np.log(p.timing.high[-1, 0] / p.timing.low[-1, 0]) for p in (alone, beside)]
    assert width[1] < 0.8 * width[0]
    assert "own kernels" in str(beside.timing.basis[-1])


def test_measured_kernels_stay_as_measured() -> None:
    rows = kernels(all_but_last())
    anchored = us(predict_rows(rows, GPU, CLOCK, anchor=True))
    assert anchored[:-1] == pytest.approx(rows.number("duration_us")[:-1])


def test_a_kernel_left_out_does_not_tell_its_own_time() -> None:
    share = np.full(len(SIZES), SLOWER)
    usual = predict_rows(kernels(share), GPU, CLOCK, from_others=True)
    share[2] = 0.6
    other = predict_rows(kernels(share), GPU, CLOCK, from_others=True)
    assert us(other)[2] == pytest.approx(us(usual)[2])
    assert us(other)[1] < us(usual)[1]


def test_kernels_of_one_shape_are_left_out_together() -> None:
    rows = kernels(np.full(len(SIZES), SLOWER)).take(np.array([0, 0]))
    assert us(predict_rows(rows, GPU, CLOCK, from_others=True)) == pytest.approx(
        us(predict_rows(rows, GPU, CLOCK))
    )


def test_one_impossible_measurement_does_not_carry_the_others() -> None:
    share = all_but_last()
    share[0] = 1e4
    few, wild = (us(predict_rows(kernels(s), GPU, CLOCK, anchor=True))[-1] for s in (all_but_last(), share))
    assert wild < 2.0 * few


def test_the_more_rows_the_less_the_prior_says() -> None:
    assert shrunk_variance(1.0, 0.0, 0) == 1.0
    assert shrunk_variance(1.0, 10 * 0.04, 10) > shrunk_variance(1.0, 100 * 0.04, 100) > 0.04


def test_kernels_of_a_slow_machine_predict_each_other_better_than_the_model() -> None:
    share = SLOWER * np.array([1.0, 1.02, 0.98, 1.01, 0.99, 1.0])
    errors = left_out(kernels(share), GPU)
    assert errors is not None
    assert errors.kernels == len(SIZES)
    assert errors.model_error_pct == pytest.approx(100.0 * (1.0 - 1.0 / SLOWER), rel=0.05)
    assert errors.error_pct < 0.6 * errors.model_error_pct


def test_nothing_is_left_out_where_no_kernel_helps_another() -> None:
    assert left_out(kernels(np.full(len(SIZES), np.nan)), GPU) is None
    assert left_out(kernels(np.full(len(SIZES), SLOWER)).take(np.array([0, 0])), GPU) is None


def test_a_size_that_a_time_told_says_nothing_of_the_model() -> None:
    rows = kernels(all_but_last())
    told = replace(rows, columns={**rows.columns, "inferred_low": np.full(len(rows), 0.9)})
    alone, beside = predict_rows(told, GPU, CLOCK), predict_rows(told, GPU, CLOCK, anchor=True)
    assert us(beside)[-1] == pytest.approx(us(alone)[-1])
    assert left_out(told, GPU) is None


def test_kernels_nobody_measured_tell_one_another_nothing() -> None:
    rows = kernels(all_but_last())
    alone = predict_rows(rows, GPU, CLOCK, anchor=True)
    beside = predict_rows(rows.take(np.array([0, 1, 2, 3, 4, 5, 5, 5])), GPU, CLOCK, anchor=True)
    for name in ("duration_s", "low", "high"):
        one, more = (getattr(p.timing, name)[:, 0] for p in (alone, beside))
        assert more == pytest.approx(one[[0, 1, 2, 3, 4, 5, 5, 5]])


def test_a_single_measured_kernel_tells_of_the_others() -> None:
    share = np.full(len(SIZES), np.nan)
    share[0] = SLOWER
    rows = kernels(share)
    alone, beside = predict_rows(rows, GPU, CLOCK), predict_rows(rows, GPU, CLOCK, anchor=True)
    factor = us(beside)[1:] / us(alone)[1:]
    assert ((factor > 1.01) & (factor < SLOWER)).all()
    assert all("own kernels" in str(basis) for basis in beside.timing.basis[1:])


def test_a_mean_of_a_group_deviates_by_its_own_error_and_by_what_groups_differ_by() -> None:
    """Variances of 1/4 and 1/100 beside one of 1/4 between groups; nothing known stays nothing."""
    group = _Group(np.array([4.0, 100.0, 0.0]), np.zeros(3))
    assert group.within(0.25).tolist() == pytest.approx([1.0 / 0.5, 1.0 / 0.26, 0.0])


def test_one_long_name_takes_no_memory_of_the_others() -> None:
    """Names of templates have thousands of characters; groups are those of name and launch all the same."""
    n = 2000
    rows = rows_of("elementwise", elements=np.full(n, 1e7), reads=1, writes=1)
    names = [f"kernel_{i // 4}" for i in range(n)]
    names[-4:] = ["f<" + 20_000 * "x" + ">"] * 4
    columns = {
        "name": np.array(names, dtype=object),
        "threads": np.array([128.0, 128.0, 256.0, np.nan] * (n // 4)),
        "duration_us": np.full(n, 50.0),
        "recorded_clock_mhz": np.full(n, GPU.clock_boost_mhz),
    }
    rows = replace(rows, columns={**rows.columns, **columns})
    anchor = Anchor.of(rows, GPU)
    tracemalloc.start()
    group = same_kernels(rows, anchor)
    levels = _levels(rows, GPU, np.full(n, 5e-5))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1000 * n
    assert len(set(group.tolist())) == 3 * n // 4
    assert (group[0::4] == group[1::4]).all()
    assert levels.name.tolist() == levels.shape.tolist() == np.repeat(np.arange(n // 4), 4).tolist()
