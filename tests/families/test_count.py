from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.operators import DECODE, PREFILL, SHAPES, every_family, rows_of
from tracetool.core.work import Work
from tracetool.families.attention.decode_hosts import XQA_HABITS
from tracetool.families.attention.problem import score_pairs
from tracetool.families.pricing import laws
from tracetool.families.registry import count_work, families, known_shape
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import NAMES

GPU = load_gpu("h100-sxm")


def test_every_family_of_the_closed_list_counts() -> None:
    assert set(families()) == NAMES | {"memcpy", "memset"}


@pytest.mark.parametrize("name", sorted(every_family()))
def test_counts_are_finite_and_useful_work_is_issued(name: str) -> None:
    rows = every_family()[name]
    assert known_shape(rows).all()
    work = count_work(rows, GPU)
    for f in fields(Work):
        values = getattr(work, f.name)
        assert np.isfinite(values).all(), f.name
        assert (values >= 0).all(), f.name
    assert (work.dram_bytes + work.link_bytes > 0).all()
    issued = work.tensor_flops + work.fp32_flops + work.fp64_flops
    assert (work.useful_flops <= issued * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", sorted(families()))
def test_shares_of_unknown_shapes_are_a_whole(name: str) -> None:
    assert sum(families()[name].shares) == pytest.approx(1.0)


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 32))
def test_a_product_is_two_flops_per_multiply(m: int, n: int, k: int, batch: int) -> None:
    work = count_work(rows_of("gemm", m=m, n=n, k=k, batch=batch), GPU)
    assert work.useful_flops[0] == 2.0 * m * n * k * batch
    assert work.dram_bytes[0] >= 0.9 * 2.0 * batch * ((m + n) * k + m * n)


def test_fp32_products_stay_off_the_matrix_units_and_fp8_moves_half_the_bytes() -> None:
    shape = SHAPES["gemm"]
    single, half, eighth = (count_work(rows_of("gemm", d, **shape), GPU) for d in ("fp32", "bf16", "fp8"))
    assert single.tensor_flops[0] == 0
    assert half.tensor_flops[0] > 0
    assert eighth.dram_bytes[0] < half.dram_bytes[0] < single.dram_bytes[0]


@pytest.mark.parametrize("dtype", ["fp8", "nvfp4", "fp8_block"])
@pytest.mark.parametrize("gpu", ["rx-7900-xtx", "a100-sxm", "v100-pcie"])
def test_narrow_weights_take_the_tensor_cores_of_16_bits_where_there_are_no_others(
    gpu: str, dtype: str
) -> None:
    """Also on RDNA 3, whose matrix instructions are no faster than its vectors."""
    work = count_work(rows_of("gemm", dtype, m=8192, n=8192, k=8192), load_gpu(gpu))
    half = count_work(rows_of("gemm", "fp16", m=8192, n=8192, k=8192), load_gpu(gpu))
    assert work.tensor_flops[0] == half.tensor_flops[0] > work.fp32_flops[0]


def test_vectors_that_take_two_products_of_fp16_at_once_work_half_as_long() -> None:
    """Where sums are kept in FP32, as on a P100, FP16 takes the lanes of FP32."""
    shape = {"m": 8192, "n": 8192, "k": 8192}
    for gpu, share in (("mi50", 0.5), ("rx-6900-xt", 0.5), ("p100-pcie", 1.0), ("gtx-1080", 1.0)):
        work = count_work(rows_of("gemm", "fp16", **shape), load_gpu(gpu))
        assert work.fp32_flops[0] == pytest.approx(share * work.useful_flops[0], rel=0.02), gpu
    layers = {"tokens": 4096, "hidden": 4096, "intermediate": 2048, "top_k": 2, "experts": 8}
    for family, columns in (("moe", layers), ("attention", {**PREFILL, "q_len": 8192, "kv_len": 8192})):
        phase = "prefill" if family == "attention" else ""
        half, single = (
            count_work(rows_of(family, dtype, phase, **columns), load_gpu("mi50"))
            for dtype in ("fp16", "fp32")
        )
        assert half.fp32_flops[0] == pytest.approx(0.5 * single.fp32_flops[0])


def test_only_matrix_instructions_take_rows_that_no_query_of_decode_fills() -> None:
    """Four heads share a key: matrix instructions take 16 rows, four times as many, lanes one at a time."""
    half, single = (count_work(rows_of("attention", d, "decode", **DECODE), GPU) for d in ("bf16", "fp32"))
    assert half.tensor_flops[0] == 4.0 * half.useful_flops[0]
    assert single.tensor_flops[0] == 0
    assert single.fp32_flops[0] == single.useful_flops[0]
    # TensorRT-LLM leaves heads that share none to a kernel without tensor cores
    rows = rows_of("attention", phase="decode", **{**DECODE, "kv_heads": 32})
    law = laws()["decode"]
    xqa, other = (law.pieces(rows, GPU, habits).work for habits in (XQA_HABITS, {}))
    assert (xqa.tensor_flops[0], xqa.fp32_flops[0]) == (0.0, xqa.useful_flops[0])
    assert other.tensor_flops[0] == 16.0 * other.useful_flops[0]


def test_the_diagonal_costs_as_much_of_few_keys_as_of_many() -> None:
    """Half of a tile of 64 keys a query, beside the 256 that 512 see in the mean, or 3840."""
    alone, behind = (
        count_work(rows_of("attention", phase="prefill", **{**PREFILL, "q_len": 512, "kv_len": keys}), GPU)
        for keys in (512, 4096)
    )
    in_vain = [work.tensor_flops[0] / work.useful_flops[0] - 1.0 for work in (alone, behind)]
    assert in_vain == pytest.approx([64.0 / (512 + 64), 32.0 / (3840 + 32)], rel=1e-3)


def test_a_convolution_is_an_implicit_product() -> None:
    conv = count_work(rows_of("conv", **SHAPES["conv"]), GPU)
    assert conv.useful_flops[0] == 2.0 * (8 * 56 * 56) * 128 * (64 * 9)
    grouped = count_work(rows_of("conv", **{**SHAPES["conv"], "groups": 64}), GPU)
    assert grouped.useful_flops[0] == conv.useful_flops[0] / 64


@given(st.integers(1, 60), st.integers(0, 60), st.one_of(st.just(np.inf), st.integers(1, 80).map(float)))
def test_causal_pairs_are_those_a_loop_counts(q_len: int, before: int, window: float) -> None:
    kv_len = q_len + before
    expected = sum(min(window, before + i + 1) for i in range(q_len))
    found = score_pairs(
        np.array([float(q_len)]), np.array([float(kv_len)]), np.array([True]), np.array([window])
    )
    assert found[0] == expected


def test_decode_reads_the_cache_once() -> None:
    work = count_work(rows_of("attention", phase="decode", **DECODE), GPU)
    cache = 2 * 16 * 8 * 4096 * 128 * 2
    assert cache <= work.dram_bytes[0] <= 1.02 * cache
    assert work.useful_flops[0] == 4 * 16 * 32 * 4096 * 128


def test_backward_attention_is_five_products_for_two() -> None:
    forward = count_work(rows_of("attention", phase="prefill", **PREFILL), GPU)
    backward = count_work(rows_of("attention", phase="backward", **PREFILL), GPU)
    assert backward.useful_flops[0] == 2.5 * forward.useful_flops[0]


def test_few_tokens_touch_few_experts() -> None:
    shape = {**SHAPES["moe"], "experts": 256, "top_k": 2}
    one, many = (count_work(rows_of("moe", **{**shape, "tokens": t}), GPU) for t in (1, 4096))
    expert = 3 * 2048 * 1024 * 2.0
    assert expert < one.dram_bytes[0] < 3 * expert
    assert many.dram_bytes[0] > 250 * expert


def test_skewed_routing_touches_fewer_experts() -> None:
    rows = rows_of("moe", **{**SHAPES["moe"], "experts": 256, "tokens": 64})
    skewed = rows_of("moe", **{**SHAPES["moe"], "experts": 256, "tokens": 64})
    skewed.columns["distribution"] = np.array(["power_law_1.2"], dtype=object)  # type: ignore[index]
    assert count_work(skewed, GPU).dram_bytes[0] < count_work(rows, GPU).dram_bytes[0]


def test_gathers_pay_whole_sectors() -> None:
    narrow = count_work(rows_of("gather_scatter", elements=1e6, cols=4), GPU)
    wide = count_work(rows_of("gather_scatter", elements=1e6, cols=512), GPU)
    assert narrow.dram_bytes[0] > wide.dram_bytes[0]


@pytest.mark.parametrize(
    ("kind", "factor"),
    [("all_reduce", 14 / 8), ("AllGather", 7 / 8), ("reduce-scatter", 7 / 8), ("broadcast", 1.0)],
)
def test_wire_bytes_by_algorithm(kind: str, factor: float) -> None:
    rows = rows_of("collective", bytes=1e6, ranks=8)
    rows.columns["kind"] = np.array([kind], dtype=object)  # type: ignore[index]
    assert count_work(rows, GPU).link_bytes[0] == pytest.approx(factor * 1e6)


def test_rows_without_a_shape_count_nothing() -> None:
    rows = rows_of("gemm", m=np.nan, n=128, k=128)
    assert not known_shape(rows).any()
    assert count_work(rows, GPU).useful_flops[0] == 0


def test_shares_that_are_no_whole_are_refused() -> None:
    gemm = families()["gemm"]
    assert replace(gemm) == gemm
    with pytest.raises(ValueError, match=r"sum to 0\.9"):
        replace(gemm, shares=(0.5, 0.3, 0.1))


@pytest.mark.parametrize("family", ["gemm", "conv", "elementwise", "reduction", "softmax", "fft"])
def test_operations_of_64_bits_are_those_of_their_pipe(family: str) -> None:
    """On a GPU without tensor cores of 64 bits: all that FP32 rows count for the FP32 pipe."""
    counts = {}
    for dtype in ("fp32", "fp64"):
        rows = every_family()[family]
        columns = {**rows.columns, "dtype": np.full(len(rows), dtype, dtype=object)}
        counts[dtype] = count_work(replace(rows, columns=columns), load_gpu("rtx-4090"))
    assert (counts["fp32"].fp64_flops == 0.0).all()
    assert (counts["fp64"].fp32_flops == 0.0).all()
    assert (counts["fp64"].fp64_flops > 0.0).any()


@pytest.mark.parametrize(
    ("gpu", "pipe"), [("rtx-5090", "tensor"), ("rtx-3090", "tensor"), ("gtx-1660-ti", "fp32")]
)
def test_tf32_asks_for_tensor_cores_where_there_are_any(gpu: str, pipe: str) -> None:
    """Those of GeForce cards are as fast as FP32, and run it all the same; a card without has FP32 alone."""
    rows = rows_of("gemm", m=4096.0, n=4096.0, k=4096.0, dtype="tf32")
    work = count_work(rows, load_gpu(gpu))
    counts = {"tensor": work.tensor_flops[0], "fp32": work.fp32_flops[0]}
    assert max(counts, key=lambda name: counts[name]) == pipe
