from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import (
    CHUNK,
    PATTERNS,
    access_patterns,
    block_rounds,
    chain,
    chunk_steps,
    kept_share,
    of_a_trace,
    steps_of,
)
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import classify_names
from tracetool.model.timing import time_rows


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("", "other"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >", "wide"),
        ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast>", "offsets"),
        ("void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl>", "offsets"),
        ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>", "cast"),
        ("void at::native::elementwise_kernel<512, 1, at::native::gpu_kernel_impl>", "cast"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<int, unsigned int, 3>", "cat"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float>", "other"),
        ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>", "index"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >", "tree"),
        ("void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>", "pool"),
        ("triton_poi_fused_add_mul_3", "wide"),
        ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >", "chunks"),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "other"),
    ],
)
def test_a_name_tells_how_its_kernel_accesses_its_tensors(name: str, pattern: str) -> None:
    stated = classify_names([name])["access_pattern"]
    assert stated.to_list() == [pattern]
    rows = OperatorColumns(
        np.array(["copy"], dtype=object), {"access_pattern": stated.to_numpy().astype(object)}
    )
    assert [PATTERNS[place] for place in access_patterns(rows)] == [pattern]
    assert of_a_trace(rows).all()


def test_rows_without_a_pattern_are_of_tables() -> None:
    rows = OperatorColumns(np.full(3, "copy", dtype=object), {"elements": np.ones(3)})
    assert access_patterns(rows).tolist() == [0, 0, 0]
    assert not of_a_trace(rows).any()
    assert chain(rows, np.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert (steps_of(rows) > 0).all()


@given(st.floats(1.0, 1e12))
def test_less_of_more_traffic_stays_in_the_cache(moved: float) -> None:
    more, less = kept_share(np.array([moved, 2.0 * moved]), load_gpu("h100-sxm"))
    assert 0.0 <= less <= more <= 1.0


def test_a_compute_unit_issues_to_half_the_lanes_of_an_sm() -> None:
    assert load_gpu("mi300x").lanes_per_clock_sm * 2 == load_gpu("h100-sxm").lanes_per_clock_sm


def _foreach(blocks: float, lists: int = 1) -> OperatorColumns:
    name = f"void at::native::multi_tensor_apply_kernel<TensorListMetadata<{lists}>, AdamFunctor<float> >"
    stated = classify_names([name])
    numbers = {"blocks": blocks, "threads": 512.0, "elements": blocks * CHUNK, "reads": lists, "writes": 1.0}
    texts = {"dtype": "fp32", "shape_source": "grid", "access_pattern": stated["access_pattern"][0]}
    return OperatorColumns(
        np.array(["optimizer"], dtype=object),
        {k: np.array([v], dtype=np.float64) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )


@pytest.mark.parametrize("gpu", ["a100-sxm", "mi300x"])
def test_few_chunks_take_as_long_as_one_block_steps_through_its_own(gpu: str) -> None:
    sheet = load_gpu(gpu)
    boost = np.array([sheet.clock_boost_mhz])

    def seconds(rows: OperatorColumns) -> float:
        return float(time_rows(rows, sheet, boost).duration_s[0, 0])

    one, few, many = (seconds(_foreach(blocks)) for blocks in (1, 16, 2000))
    assert few < 1.3 * one  # 16 times the work on other SMs
    assert many > 3.0 * few  # where memory sets the time
    assert seconds(_foreach(4, lists=3)) > 1.3 * seconds(_foreach(4))


def _reduction(blocks: float, along_y: float = 1.0, outputs: int = 1) -> OperatorColumns:
    stated = classify_names([
        f"void at::native::reduce_kernel<{512 // outputs}, {outputs}, at::native::ReduceOp<float> >"
    ])  # fmt: skip
    numbers = {"blocks": blocks, "threads": 512.0, "grid_y": along_y, "out_vec": float(stated["out_vec"][0])}
    numbers |= {"elements": 2048.0 * 512.0, "reads": 1.0, "writes": 0.0}
    texts = {"dtype": "fp32", "shape_source": "grid", "access_pattern": stated["access_pattern"][0]}
    return OperatorColumns(
        np.array(["reduction"], dtype=object),
        {k: np.array([v], dtype=np.float64) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )


@pytest.mark.parametrize("gpu", ["v100-sxm2-16gb", "a100-sxm", "mi300x"])
def test_a_reduction_takes_what_its_launch_tells(gpu: str) -> None:
    sheet = load_gpu(gpu)

    def seconds(rows: OperatorColumns) -> float:
        return float(time_rows(rows, sheet, np.array([sheet.clock_boost_mhz])).duration_s[0, 0])

    alone, sharing = seconds(_reduction(32.0)), seconds(_reduction(32.0, along_y=32.0))
    assert sharing > alone + 1e-6  # the last block reads what the others left, and reduces it again
    assert seconds(_reduction(32.0, outputs=4)) < alone  # four results of a thread are loaded at once
    resident = sheet.sm_count * sheet.max_threads_per_sm / 512.0
    assert block_rounds(_reduction(3.0 * resident), sheet).tolist() == [3.0]
    assert seconds(_reduction(20.0 * resident)) > seconds(
        _reduction(2.0 * resident)
    )  # one round after another


def test_a_launch_of_small_tensors_steps_no_further_than_they_reach() -> None:
    rows = _foreach(48)
    steps = chunk_steps(rows, np.array([48 * 1000.0]))
    assert steps.tolist() == [1.0]
    assert chunk_steps(rows, np.array([48 * CHUNK])).tolist() == [32.0]


def test_a_single_thread_works_through_all_elements() -> None:
    """Of one block with one thread: seven elements one after another; of two threads half of them each."""
    columns = {"blocks": np.array([1.0, 1.0, 2.0]), "threads": np.array([1.0, 2.0, 1.0])}
    rows = OperatorColumns(np.full(3, "copy", dtype=object), columns)
    assert chain(rows, np.full(3, 7.0)).tolist() == [7.0, 3.5, 3.5]
