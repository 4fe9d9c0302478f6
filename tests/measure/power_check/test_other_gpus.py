"""Work whose GPU the log numbers otherwise: another GPU's readings follow it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.measure.attributed_work import Work
from tracetool.measure.power_check.check import CheckedPower, check_telemetry
from tracetool.tables.schema import load_schema

TIME_S = np.arange(0.0, 40.0, 0.1)
START_S = np.cumsum(np.random.default_rng(3).uniform(1.0, 3.0, 15))


def _readings(start_s: np.ndarray | None, seed: int) -> np.ndarray:
    """Return 60 W, and 300 W for 0.7 s from each start on; means of 25 ms. [W]"""
    fine_s = TIME_S[:, None] - 0.025 * (np.arange(5) + 0.5) / 5
    on = np.zeros(len(TIME_S))
    if start_s is not None:
        on = ((fine_s[..., None] > start_s) & (fine_s[..., None] < start_s + 0.7)).any(axis=2).mean(axis=1)
    return np.round(60.0 + 240.0 * on + np.random.default_rng(seed).normal(0.0, 0.5, len(on)), 2)


def _checked(*power_w: np.ndarray) -> CheckedPower:
    """Return the checks of a log of as many GPUs, beside a trace of GPU 0."""
    frames = [
        pl.DataFrame({"time_ns": (TIME_S * 1e9).astype(np.int64), "power_w": watts, "source": "smi.csv"})
        .with_columns(pl.lit(device, pl.Int32).alias("device"), pl.lit("power.draw.instant").alias("field"))
        for device, watts in enumerate(power_w)
    ]  # fmt: skip
    telemetry = load_schema("telemetry").conform(pl.concat(frames))
    start_ns = (START_S * 1e9).astype(np.int64)
    work = Work(["k"], ["gemm"], [0], np.zeros(15, np.int64), start_ns, start_ns + 700_000_000, 0.0)
    return check_telemetry(telemetry, {0: work}, {0: load_gpu("a100-sxm")})


@pytest.mark.parametrize("others_start_s", [None, 7.0])
def test_the_gpu_that_did_the_work_is_named(others_start_s: float | None) -> None:
    """GPU 0 idles, or runs other work a while later; GPU 2 follows the trace."""
    other = None if others_start_s is None else START_S[:5] + others_start_s
    checked = _checked(_readings(other, 1), _readings(None, 2), _readings(START_S, 3))
    assert checked.verdict == "unusable"
    assert "the readings of GPU 2 follow this work" in checked.unusable[0]
    assert "CUDA_VISIBLE_DEVICES" in checked.reasons[0]


def test_no_other_gpu_is_named_where_its_own_readings_follow() -> None:
    checked = _checked(_readings(START_S, 1), _readings(START_S + 0.02, 2))
    assert checked.unusable == {}


def test_no_gpu_is_named_where_none_follows() -> None:
    checked = _checked(_readings(None, 1), _readings(START_S[::-1] % 7.0, 2))
    assert checked.unusable[0].startswith("idle")
