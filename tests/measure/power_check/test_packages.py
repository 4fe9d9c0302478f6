"""Packages of two GPUs whose power one reading holds: MI250 and MI250X."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.measure.attributed_work import Work
from tracetool.measure.power_check.check import CheckedPower, check_telemetry
from tracetool.tables.schema import load_schema

TIME_S = np.arange(0.0, 40.0, 0.1)
#: Bursts of the GPUs, not at the log's pace. [s]
START_S = np.cumsum(np.random.default_rng(3).uniform(1.0, 3.0, 15))


def _checked(
    first_w: float, second_w: float | None, ran: Collection[int], *, gpu: str = "mi250x"
) -> CheckedPower:
    """Return the checks of a log of two GPUs: the first reads up to a power, the second one value."""
    fine_s = TIME_S[:, None] - 0.1 * (np.arange(20) + 0.5) / 20
    on = ((fine_s[..., None] > START_S) & (fine_s[..., None] < START_S + 0.7)).any(axis=2).mean(axis=1)
    power = np.round(90.0 + (first_w - 90.0) * on + np.random.default_rng(1).normal(0.0, 1.0, len(on)), 1)
    logged = {0: power} if second_w is None else {0: power, 1: np.full(len(on), second_w)}
    frames = [
        pl.DataFrame({"time_ns": (TIME_S * 1e9).astype(np.int64), "power_w": watts, "source": "rocm-smi.csv"})
        .with_columns(pl.lit(device, pl.Int32).alias("device"), pl.lit("average socket power").alias("field"))
        for device, watts in logged.items()
    ]  # fmt: skip
    telemetry = load_schema("telemetry").conform(pl.concat(frames))
    start_ns = (START_S * 1e9).astype(np.int64)
    work = Work(["k"], ["gemm"], [0], np.zeros(15, np.int64), start_ns, start_ns + 700_000_000, 0.0)
    of_logged = {device: work for device in ran if device in logged}
    return check_telemetry(telemetry, of_logged, dict.fromkeys(of_logged, load_gpu(gpu)), ran=ran)


@pytest.mark.parametrize("second_w", [None, 0.0])
def test_two_gpus_of_a_package_at_once_are_refused_with_the_fix(second_w: float | None) -> None:
    checked = _checked(525.0, second_w, (0, 1))
    assert 0 in checked.unusable
    assert "one reading holds the power of the 2 GPUs of a package of mi250x" in checked.unusable[0]
    assert "ROCR_VISIBLE_DEVICES" in checked.unusable[0]
    assert "another GPU's log" not in checked.sentence()


@pytest.mark.parametrize("second_w", [None, 0.0])
def test_one_gpu_of_a_package_is_measured(second_w: float | None) -> None:
    assert _checked(330.0, second_w, (0,)).unusable == {}


def test_the_gpu_whose_package_reads_elsewhere_says_so() -> None:
    checked = _checked(330.0, 0.0, (1,))
    assert "reads no power: one GPU of each package of mi250x reads that of all 2" in checked.unusable[1]


def test_gpus_with_readings_of_their_own_may_work_at_once() -> None:
    assert _checked(250.0, None, (0, 1), gpu="mi210").unusable == {}
