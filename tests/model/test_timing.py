from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.operators import DECODE, PREFILL, SHAPES, every_family, rows_of
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import BOUNDS, UNITS
from tracetool.families.pricing import laws
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.timing import time_rows

GPUS = ("h100-sxm", "a100-sxm", "b200-sxm", "t4", "mi300x")
CLOCKS = np.array([600.0, 900.0, 1200.0, 1500.0])
LOOSE = settings(deadline=None, max_examples=30)
gpus = st.sampled_from(GPUS)


def _modeled() -> list[str]:
    found = []
    for name in gpu_names():
        try:
            load_gpu(name)
        except BadInput:
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("name", _modeled())
def test_every_gpu_times_every_family(name: str) -> None:
    gpu = load_gpu(name)
    for family, rows in every_family().items():
        timing = time_rows(rows, gpu, gpu.supported_clocks_mhz()[[0, -1]])
        slow, fast = timing.duration_s[0]
        assert np.isfinite(slow), family
        assert 0 < fast <= slow < 10, family
        assert ((timing.low > 0) & (timing.low <= 1) & (timing.high >= 1)).all(), family
        for unit in UNITS:
            busy = timing.busy_s[unit] / timing.duration_s
            assert ((busy >= 0) & (busy <= 1)).all(), (family, unit)
        assert ((timing.sm_active >= 0) & (timing.sm_active <= 1)).all(), family
        assert ((timing.bound >= 0) & (timing.bound < len(BOUNDS))).all(), family
        assert (timing.fixed_s <= timing.duration_s.min(axis=1)).all(), family


@LOOSE
@given(gpus, st.sampled_from(sorted(every_family())), st.floats(300, 2500), st.floats(1.0, 3.0))
def test_time_never_rises_with_the_core_clock(gpu: str, family: str, clock: float, more: float) -> None:
    slow, fast = time_rows(every_family()[family], load_gpu(gpu), np.array([clock, clock * more])).duration_s[
        0
    ]
    assert fast <= slow
    assert slow <= fast * more * (1 + 1e-9)  # nothing gains more than the clock


@LOOSE
@given(gpus, st.sampled_from(sorted(every_family())), st.floats(400, 3000), st.floats(1.0, 3.0))
def test_time_never_rises_with_the_memory_clock(gpu: str, family: str, clock: float, more: float) -> None:
    target, rows = load_gpu(gpu), every_family()[family]
    slow, fast = (time_rows(rows, target, CLOCKS, m).duration_s for m in (clock, clock * more))
    assert (fast <= slow * (1 + 1e-12)).all()


@LOOSE
@given(gpus, st.sampled_from("mnk"), st.integers(1, 6000), st.integers(1, 6000), st.integers(1, 6000))
def test_products_grow_with_each_size_up_to_a_wave(gpu: str, axis: str, m: int, n: int, k: int) -> None:
    # operands of an odd K are loaded element by element: twice as many may be quicker
    size = {"m": float(m), "n": float(n), "k": 8.0 * np.ceil(k / 8.0)}
    larger = {**size, axis: 2.0 * size[axis]}
    small, large = (
        time_rows(rows_of("gemm", **s), load_gpu(gpu), CLOCKS).duration_s[0] for s in (size, larger)
    )
    # a library may find a better tile for the larger product
    assert (large >= 0.9 * small).all()


@LOOSE
@given(gpus, st.sampled_from(["batch", "q_len", "heads"]), st.integers(1, 12), st.integers(2, 4096))
def test_prefill_grows_with_each_size(gpu: str, axis: str, batch: int, q_len: int) -> None:
    # a single query may have a kernel of its own
    size = {**PREFILL, "batch": batch, "q_len": q_len, "kv_len": q_len}
    larger = {**size, axis: 2 * size[axis]}
    if axis == "q_len":
        larger["kv_len"] = larger["q_len"]
    small, large = (
        time_rows(rows_of("attention", phase="prefill", **s), load_gpu(gpu), CLOCKS).duration_s[0]
        for s in (size, larger)
    )
    assert (large >= 0.9 * small).all()


@LOOSE
@given(gpus, st.integers(1, 256), st.integers(1, 65536))
def test_decode_grows_with_the_cache_up_to_a_split(gpu: str, batch: int, kv_len: int) -> None:
    size = {**DECODE, "batch": batch, "kv_len": kv_len}
    small, large = (
        time_rows(
            rows_of("attention", phase="decode", **{**size, "kv_len": n}), load_gpu(gpu), CLOCKS
        ).duration_s[0]
        for n in (kv_len, 4 * kv_len)
    )
    # a longer cache may be worth a better kernel
    assert (large >= 0.75 * small).all()


@LOOSE
@given(gpus, st.sampled_from(sorted(every_family())))
def test_useful_flops_stay_below_the_peak(gpu: str, family: str) -> None:
    target, rows = load_gpu(gpu), every_family()[family]
    timing = time_rows(rows, target, CLOCKS)
    pipe = (
        "tensor_bf16"
        if family in {"gemm", "gemv", "conv", "moe", "attention", "attention decode"}
        else "fp32"
    )
    peak = target.peak_flops(pipe, CLOCKS) + target.peak_flops("fp32", CLOCKS)
    assert (timing.work.useful_flops[:, None] / timing.duration_s <= peak).all()


@LOOSE
@given(gpus, st.sampled_from(["tokens", "hidden", "intermediate", "top_k"]), st.integers(1, 4096))
def test_experts_grow_with_each_size(gpu: str, axis: str, tokens: int) -> None:
    size = {"tokens": tokens, "hidden": 2048, "intermediate": 1024, "top_k": 4, "experts": 32}
    chip = load_gpu(gpu)
    clocks = np.append(CLOCKS, chip.clock_boost_mhz)
    small, large = (
        time_rows(rows_of("moe", **s), chip, clocks).duration_s[0]
        for s in (size, {**size, axis: 2 * size[axis]})
    )
    # tiles are chosen by their time at the boost clock, and stay so where the clock is lower
    assert large[-1] >= 0.9 * small[-1]
    assert (large >= 0.5 * small).all()


@LOOSE
@given(gpus, st.sampled_from([64, 128, 256]), st.integers(1, 8192), st.integers(1, 4096))
def test_a_window_never_costs_more_than_all_keys_do(gpu: str, dim: int, q_len: int, window: int) -> None:
    size = {**PREFILL, "head_dim": dim, "q_len": q_len, "kv_len": q_len}
    whole, seen = (
        time_rows(rows_of("attention", phase="prefill", **s), load_gpu(gpu), CLOCKS).duration_s[0]
        for s in (size, {**size, "window": window})
    )
    # its mask costs something in each step and tile
    assert (seen <= 1.6 * whole).all()


@LOOSE
@given(
    gpus, st.sampled_from(["fp8", "bf16", "fp16"]), st.integers(1, 9000), st.integers(1, 9000),
    st.integers(1, 9000), st.floats(200, 2500),
)  # fmt: skip
def test_no_unit_is_busier_than_all_the_time(
    gpu: str, dtype: str, m: int, n: int, k: int, clock: float
) -> None:
    timing = time_rows(rows_of("gemm", dtype, m=m, n=n, k=k), load_gpu(gpu), np.array([clock]))
    for busy in timing.busy_s.values():
        assert (busy >= 0).all()
        assert (busy <= timing.duration_s * (1 + 1e-12)).all()
    assert (timing.sm_active >= 0).all()
    assert (timing.sm_active <= 1).all()


def test_a_launch_is_never_free() -> None:
    tiny = time_rows(rows_of("gemm", m=1, n=1, k=1), load_gpu("h100-sxm"), CLOCKS)
    assert (tiny.duration_s > 5e-7).all()
    assert BOUNDS[tiny.bound[0, -1]] in {"launch", "latency"}


def test_large_products_are_bound_by_the_matrix_units_and_streams_by_memory() -> None:
    target = load_gpu("h100-sxm")
    large = time_rows(rows_of("gemm", m=8192, n=8192, k=8192), target, np.array([1400.0]))
    assert BOUNDS[large.bound[0, 0]] == "tensor"
    assert large.busy_s["tensor"][0, 0] > 0.5 * large.duration_s[0, 0]
    stream = time_rows(rows_of("elementwise", elements=1e9, reads=2, writes=1), target, np.array([1980.0]))
    assert BOUNDS[stream.bound[0, 0]] == "dram"
    assert stream.memory_s[0, 0] > 0.9 * stream.duration_s[0, 0]


def test_a_measured_kernel_of_unknown_shape_keeps_its_duration() -> None:
    rows = OperatorColumns(
        np.array(["gemm", "unknown", "collective"], dtype=object),
        {
            "duration_us": np.array([100.0, 50.0, 20.0]),
            "recorded_clock_mhz": np.array([1000.0, 1200.0, 900.0]),
            "shape_source": np.array(["none"] * 3, dtype=object),
        },
    )
    clock = rows.number("recorded_clock_mhz")[:, None]
    target = load_gpu("a100-sxm")
    assert time_rows(rows, target, clock).duration_s[:, 0] == pytest.approx([1e-4, 5e-5, 2e-5])
    faster = time_rows(rows, target, clock * 1.4)
    assert (faster.duration_s[:, 0] < [1e-4, 5e-5, 2e-5]).all()
    assert set(faster.basis) == {"family rate"}


def test_one_clock_for_all_rows_is_the_same_as_one_each() -> None:
    rows = rows_of("gemm", m=np.array([64.0, 512.0, 4096.0]), n=1024, k=1024)
    target = load_gpu("h200-sxm")
    shared = time_rows(rows, target, CLOCKS).duration_s
    each = time_rows(rows, target, np.broadcast_to(CLOCKS, (3, len(CLOCKS)))).duration_s
    assert (shared == each).all()


def test_rows_do_not_depend_on_their_neighbors() -> None:
    sizes = np.array([1.0, 17.0, 300.0, 5000.0])
    target = load_gpu("h100-sxm")
    together = time_rows(rows_of("gemm", m=sizes, n=512, k=512), target, CLOCKS).duration_s
    alone = np.concatenate(
        [time_rows(rows_of("gemm", m=s, n=512, k=512), target, CLOCKS).duration_s for s in sizes]
    )
    assert (together == alone).all()


@pytest.mark.parametrize("name", sorted(laws()))
def test_priors_lie_within_their_bounds(name: str) -> None:
    law = laws()[name]
    # 47: decode has twelve habits of libraries to choose from beside what is fitted
    tried = [c for c in law.priors.values() if c.fitted or len(set(c.choices) - set(c.stated_choices)) > 1]
    assert len(tried) <= 47
    for key, c in law.priors.items():
        assert c.low <= c.value <= c.high, key
        assert not c.choices or c.value in c.choices, key


def test_a_calibration_is_used_and_named() -> None:
    rows, target = rows_of("gemm", **SHAPES["gemm"]), load_gpu("h100-sxm")
    slow = TimeCalibration({"gemm": {"launch_us": 50.0}}, {"gemm": (-0.1, 0.2)}, "prior", {"gemm": "mine"})
    timing = time_rows(rows, target, CLOCKS, calibration=slow)
    assert timing.basis[0] == "mine"
    assert timing.duration_s[0, 0] > 50e-6
    assert timing.low[0, 0] == pytest.approx(np.exp(-0.1))
    assert timing.high[0, 0] == pytest.approx(np.exp(0.2))


def test_an_unmeasured_board_takes_its_kins_coefficients_and_says_so() -> None:
    target = load_gpu("gb200")
    timing = time_rows(rows_of("gemm", **SHAPES["gemm"]), target, CLOCKS)
    assert timing.basis[0].startswith("transferred from b200-sxm")
    measured = time_rows(rows_of("gemm", **SHAPES["gemm"]), load_gpu("b200-sxm"), CLOCKS)
    assert measured.basis[0] == "calibrated"
    assert (timing.high / timing.low > measured.high / measured.low).all()


def test_copies_and_messages_are_bound_by_the_link() -> None:
    gpu = load_gpu("h100-sxm")
    for family, sizes in (("memcpy", {"bytes": 1e9}), ("collective", {"bytes": 1e9, "ranks": 8.0})):
        kind = "HtoD" if family == "memcpy" else "all_reduce"
        rows = OperatorColumns(
            np.array([family], dtype=object),
            {**{k: np.array([v]) for k, v in sizes.items()}, "kind": np.array([kind], dtype=object)},
        )
        assert BOUNDS[time_rows(rows, gpu, np.array([1980.0])).bound[0, 0]] == "link", family


def test_a_coefficients_name_ends_in_its_unit() -> None:
    for name, law in laws().items():
        for coefficient, stated in law.priors.items():
            ending = coefficient.rpartition("_")[2]
            if ending in {"us", "ns"}:
                assert stated.unit == ending, f"{name} {coefficient}"
            assert stated.low <= stated.value <= stated.high, f"{name} {coefficient}"
