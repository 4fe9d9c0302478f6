"""What elementwise kernels and norms compute costs power, by counts of compiled formulas."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.core.operators import OperatorColumns
from tracetool.families.operations import instructions_of, operations
from tracetool.families.registry import count_work
from tracetool.hardware.load import load_gpu
from tracetool.kernels.classify import classify_names
from tracetool.kernels.elementwise_operations import computed
from tracetool.kernels.structure import describe

ROOT = Path(__file__).resolve().parents[2]
GPUS = ("h100-sxm", "a100-sxm", "l40s", "mi300x")
ATEN = "void at::native::vectorized_elementwise_kernel<4, at::native::{}, std::array<char*, {}> >"
LAYER_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, {}>(int)"


@pytest.mark.parametrize(
    ("name", "computes"),
    [
        (ATEN.format("GeluCUDAKernelImpl(at::TensorIteratorBase&)::call", 2), "gelu"),
        (ATEN.format("GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)", 3), "gelu_backward"),
        (ATEN.format("tanh_backward_kernel_cuda(at::TensorIteratorBase&)", 3), "tanh_backward"),
        (ATEN.format("CUDAFunctor_add<float>", 3), "add"),
        (ATEN.format("AUnaryFunctor<float, float, float, binary_internal::MulFunctor<float> >", 2), "mul"),
        (ATEN.format("masked_scale_of_nobody", 2), None),
        ("triton_poi_fused__to_copy_gelu_mul_3", "mul+gelu"),
        ("triton_poi_fused_gelu_backward_2", "gelu_backward"),
        ("triton_poi_fused_convolution_23", None),
        ("void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel(float const&))>", "mul+silu"),
        ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)", "rms_norm"),
        (LAYER_NORM.format("false"), "layer_norm"),
        (LAYER_NORM.format("true"), "rms_norm"),
        ("ampere_sgemm_128x64_tn", None),
    ],
)  # fmt: skip
def test_a_name_tells_what_is_computed(name: str, computes: str | None) -> None:
    assert computed(classify_names([name]))["computes"].to_list() == [computes]


def test_every_operation_that_names_tell_is_counted() -> None:
    from tracetool.kernels import elementwise_operations as module

    told = {*module._WORDS, *(operation for _, operation in module._NORMS)}
    assert told <= set(operations())
    spec = importlib.util.spec_from_file_location("counts", ROOT / "benchmarks/instruction_counts.py")
    assert spec is not None
    assert spec.loader is not None
    counts = importlib.util.module_from_spec(spec)
    sys.modules["counts"] = counts
    spec.loader.exec_module(counts)
    formulas = {*counts.FORMULAS, *counts.OF_TWO, "layer_norm", "rms_norm"}
    assert set(operations()) == formulas | {"copy", "cast"}


def test_operations_add_up() -> None:
    known = operations()
    assert instructions_of("silu+mul") == known["silu"] + known["mul"]
    assert np.isnan(instructions_of("silu+nothing known"))
    assert np.isnan(instructions_of(""))


def _rows(dtype: str, *kinds: str) -> OperatorColumns:
    n = len(kinds)
    columns: dict[str, np.ndarray] = {
        "elements": np.full(n, 1e8),
        "dtype": np.array([dtype] * n, dtype=object),
        "kind": np.array(kinds, dtype=object),
    }
    return OperatorColumns(np.array(["elementwise"] * n, dtype=object), columns)


def test_counts_by_hand() -> None:
    gpu = load_gpu("h100-sxm")
    fp32 = count_work(_rows("fp32", "", "copy", "cast", "gelu"), gpu)
    assert (fp32.fp32_flops / 1e8).tolist() == [2.0, 0.0, 0.0, 0.0]
    assert (fp32.instructions / 1e8).tolist() == [0.0, 0.0, 0.0, 26.0]
    # of 16 bits one element is loaded and one stored, both changed; a copy moves it as it is
    bf16 = count_work(_rows("bf16", "", "copy", "cast", "gelu"), gpu)
    assert (bf16.instructions / 1e8).tolist() == [0.0, 0.0, 2.0, 28.0]


@pytest.mark.parametrize("gpu", GPUS)
def test_more_work_costs_more_energy_and_little_more_time(gpu: str) -> None:
    table = pl.DataFrame({
        "op": "elementwise", "dtype": "bf16", "elements": 1e8, "kind": ["copy", "relu", "exp", "gelu"]
    })  # fmt: skip
    found = tt.predict(table, gpu=gpu, clock=1200).rows(None)
    assert found["energy_mj"].is_sorted()
    assert found["energy_mj"][3] > 1.2 * found["energy_mj"][0]
    assert 1.0 <= found["duration_us"][3] / found["duration_us"][0] < 1.7


def test_a_norm_of_a_trace_is_that_of_a_table() -> None:
    row = describe(pl.DataFrame({"name": [LAYER_NORM.format("false")]}))
    assert row["computes"].to_list() == ["layer_norm"]
    table = pl.DataFrame(
        {"op": "norm", "dtype": "fp32", "rows": 16384, "cols": 4096, "kind": [None, "rms_norm", "layer_norm"]}
    )
    power = tt.predict(table, gpu="h100-sxm", clock=1700).rows(None)["power_w"]
    assert power[1] < power[2]


def test_recorded_streams_draw_what_their_arithmetic_says() -> None:
    """Loops of 50 us and more on an H100: copies, sums, activations and norms."""
    loops = pl.read_csv(ROOT / "sample_traces/recorded/h100_operators.csv").filter(
        pl.col("op").is_in(["elementwise", "norm"]) & (pl.col("duration_us") > 50)
    )
    assert loops.height >= 18
    table = loops.drop("duration_us", "power_w", "clock_mhz", "temperature_c")
    found = tt.predict(table, gpu="h100-sxm", clock=1980).rows(None)
    ratio = found["power_w"] / loops["power_w"]
    assert 0.8 < ratio.min() < ratio.max() < 1.1
    assert abs(np.log(ratio.to_numpy())).mean() < 0.12
    heavy = loops["kind"].is_in(["gelu", "silu", "layer_norm"])
    without = tt.predict(table.with_columns(kind=None), gpu="h100-sxm", clock=1980).rows(None)["power_w"]
    assert (without.filter(heavy) / loops["power_w"].filter(heavy)).mean() < 0.75


def test_a_kind_nobody_knows_is_named() -> None:
    table = pl.DataFrame(
        {"op": "elementwise", "dtype": "bf16", "elements": 1e8, "kind": ["gelu", "gleu", None]}
    )
    found = tt.predict(table, gpu="h100-sxm", clock=1200)
    assert [n for n in found.notes if n.startswith("kind")] == [
        "kind not known, counted as two FLOPs an element: gleu (did you mean gelu?)"
    ]
    power = found.rows(None)["energy_mj"]
    assert power[1] == power[2] < power[0]
