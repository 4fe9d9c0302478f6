"""What a monitor's shares say: counts, and what runs beside them that no share counts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.gpu_data import monitored, operators
from tracetool.hardware.load import load_gpu
from tracetool.model.activity import fed_share, with_unseen, work_of_activity
from tracetool.model.predict import predict_rows

GPU = load_gpu("v100-pcie")


def costed(share: float) -> float:
    rows = monitored(1, act_fp32=[share])
    work = work_of_activity(rows, GPU, np.array([1e-3]), np.array([1000.0]))
    return float(with_unseen(work, rows).fp32_flops[0])


def test_a_pipe_busy_all_the_time_costs_its_counts_and_a_less_busy_one_more_per_count() -> None:
    assert costed(1.0) == pytest.approx(1e-3 * 1e9 * GPU.rate("fp32") * GPU.sm_count)
    assert costed(0.0) == 0.0
    assert 0.25 * costed(1.0) < costed(0.25) < costed(0.5) < costed(1.0)


def test_few_warps_cost_less_and_unknown_ones_the_usual() -> None:
    fed = fed_share(monitored(4, act_occupancy=[0.97, 0.3, 0.0, np.nan]))
    assert fed[0] == pytest.approx(1.0)
    assert fed[0] > fed[1] > fed[2] > 0
    assert fed[1] < fed[3] < 1.0


def test_rows_without_activity_are_left_alone() -> None:
    assert (fed_share(operators()) == 1.0).all()


def test_occupancy_changes_power_but_not_what_is_reported_of_the_pipes() -> None:
    rows = monitored(2, power_w=[np.nan, np.nan], act_occupancy=[0.9, 0.1])
    made = predict_rows(rows, GPU, np.array([1380.0]), anchor=True)
    assert made.power_w[0, 0] > made.power_w[1, 0]
    assert made.timing.busy_s["fp32"][0, 0] == pytest.approx(0.3 * 900e-6, rel=1e-6)
    assert made.timing.sm_active[:, 0] == pytest.approx(0.97)
