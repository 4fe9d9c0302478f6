"""GPUs and libraries nobody measured: what of others' coefficients holds there, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import implementations
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.candidates import candidates
from tracetool.model.implementations import coefficients_on, members
from tracetool.model.timing import time_rows

H100 = load_gpu("h100-sxm")


def latent_floor_us(**columns: str) -> float:
    """Return the time of one query of one head: nothing but launches, and the host's floor."""
    numbers = {"batch": 1.0, "heads": 1.0, "q_len": 1.0, "kv_len": 2.0, "kv_lora_rank": 512.0}
    texts = {"phase": "decode", "dtype": "bf16", "shape_source": "operator", **columns}
    rows = OperatorColumns(
        np.array(["attention"], dtype=object),
        {k: np.array([v]) for k, v in numbers.items()}
        | {k: np.array([v], dtype=object) for k, v in texts.items()},
    )
    return float(time_rows(rows, H100, np.array([H100.clock_boost_mhz])).duration_s[0, 0]) * 1e6


def test_a_library_nobody_measured_does_not_wait_for_anothers_host() -> None:
    # vLLM 0.14 was measured through its module, which issues kernel after kernel (docs/families/mla.md)
    assert latent_floor_us(stack="vllm 0.14.0") > 150.0
    assert latent_floor_us(stack="lmdeploy") < 50.0


def test_a_library_nobody_measured_meets_latents_as_its_source_says() -> None:
    law = laws()["mla_prefill"]
    every = tuple(one for one in implementations(law.name) if one.stack != "sglang")
    by_source = members(law, H100, "sglang", "flash_attention", every)
    assert {one.coefficients["absorbed_queries"] for one in by_source} == {1e9}
    # TensorRT-LLM's kernels do what they do whoever calls them
    borrowed = members(law, load_gpu("b200-sxm"), "sglang", "trtllm_mla", every)
    assert all(one.coefficients.get("absorbed_queries", 0.0) == 0.0 for one in borrowed)


def test_coefficients_of_an_architecture_nobody_measured_lie_halfway() -> None:
    law, fitted = laws()["gemm"], implementations("gemm")[0].laws["gemm"]
    halfway, ada = coefficients_on(law, fitted, "blackwell-gb20x"), fitted.on("blackwell-gb20x")
    changed = fitted.by_architecture["ada"]
    assert {**fitted.values, **changed} == ada
    for name, near in changed.items():
        prior = law.priors[name]
        center = fitted.values.get(name, prior.value)
        expected = np.sqrt(near * center) if prior.fitted else near
        assert halfway[name] == pytest.approx(expected)
    assert coefficients_on(law, fitted, "ada") == fitted.on("ada")


def test_a_kernel_of_several_matrix_instructions_keeps_its_name_anywhere() -> None:
    """CUTLASS products of vLLM ran on Hopper and Blackwell, FlashAttention 3 on Hopper alone."""
    products = candidates("gemm_fp8_block", "blackwell-gb20x", "vllm 0.24.0", "CutlassFp8BlockScaledMMKernel")
    assert [one.name for one in products] == ["vllm-cutlassfp8blockscaledmmkernel"]
    attention = candidates("decode", "blackwell-gb20x", "vllm 0.24.0", "vllm_flash_attn_fa3")
    assert "vllm-flash-attn-fa3" not in {one.name for one in attention}
