"""What a launch can keep busy: a kernel of unknown work is bounded by its blocks and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.unknown_shapes import launch_limits

MODELS = [n for n in gpu_names() if load_gpu(n, part="sensor").scope == "model"]
FAMILIES = ("unknown", "other", "stencil", "elementwise", "gemm", "sparse", "reduction")
#: Units inside the SMs: they do nothing on an SM without a block.
INSIDE = ("tensor", "fp32", "fp64", "int", "sfu", "shared")


def _rows(family: str, blocks: np.ndarray, threads: float, gpu: Gpu) -> OperatorColumns:
    n = len(blocks)
    numbers = {
        "grid_x": blocks.astype(np.float64),
        "grid_y": np.ones(n),
        "grid_z": np.ones(n),
        "block_x": np.full(n, threads),
        "duration_us": np.full(n, 61.0),
        "recorded_clock_mhz": np.full(n, gpu.clock_boost_mhz),
    }
    texts = {"shape_source": np.full(n, "none", dtype=object)}
    return OperatorColumns(np.full(n, family, dtype=object), {**numbers, **texts})


def _predicted(rows: OperatorColumns, gpu: Gpu, cap_w: float | None = None) -> Prediction:
    return predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz]), anchor=True, power_cap_w=cap_w)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    family=st.sampled_from(FAMILIES),
    blocks=st.lists(st.integers(1, 3000), min_size=2, max_size=12),
    threads=st.integers(1, 1024),
)
def test_no_unit_is_busier_than_the_blocks_allow(
    name: str, family: str, blocks: list[int], threads: int
) -> None:
    gpu = load_gpu(name)
    counts = np.sort(np.array(blocks))
    rows = _rows(family, counts, float(threads), gpu)
    got = _predicted(rows, gpu, np.inf)
    share = np.minimum(1.0, counts / gpu.sm_count)
    lanes = np.minimum(1.0, counts * threads / (gpu.sm_count * gpu.schedulers_per_sm * gpu.warp_size))
    duration = got.timing.duration_s[:, 0]
    assert (got.timing.sm_active[:, 0] <= share * (1 + 1e-9)).all()
    for unit in INSIDE:
        busy = got.timing.busy_s[unit][:, 0] / duration
        assert (busy <= np.minimum(share, lanes) * (1 + 1e-9)).all(), unit
    # memory delivers no more than the SMs with a block draw
    drawn = got.timing.work.dram_bytes / duration
    port = launch_limits(rows, gpu).bytes_per_clock * gpu.clock_boost_mhz * 1e6
    assert (drawn <= port * (1 + 1e-9)).all()
    assert (np.diff(got.power_w[:, 0]) >= -1e-9).all()
    assert np.allclose(duration, 61e-6)


@pytest.mark.parametrize("threads", [32.0, 256.0, 1024.0])
def test_seven_blocks_do_not_throttle_a_t4(threads: float) -> None:
    gpu = load_gpu("t4")
    few, many = _rows("unknown", np.array([7]), threads, gpu), _rows("unknown", np.array([4000]), 256.0, gpu)
    got = _predicted(few, gpu, gpu.power_limit_w)
    assert not got.throttled.any()
    assert got.timing.sm_active[0, 0] <= 7 / 40
    # and it draws no more above an idle GPU than half of what a full one does
    full, idle = _predicted(many, gpu, np.inf).power_w[0, 0], got.idle_w[0]
    assert got.power_w[0, 0] - idle < 0.5 * (full - idle)


def test_a_launch_that_is_not_stated_bounds_nothing() -> None:
    gpu = load_gpu("t4")
    rows = OperatorColumns(np.array(["unknown"], dtype=object), {"duration_us": np.array([10.0])})
    limits = launch_limits(rows, gpu)
    assert (limits.sms == 1.0).all() and (limits.lanes == 1.0).all()
    assert np.isinf(limits.bytes_per_clock).all()
