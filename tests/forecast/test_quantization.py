"""Number formats of products by what a configuration states."""

from __future__ import annotations

from typing import Any

import pytest

import tracetool as tt
from tests.forecast.test_llama import llama
from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel


def formats(**settings: Any) -> dict[str, set[str]]:
    """Formats of each module's products."""
    model = read_model(llama(quantization_config=settings, num_hidden_layers=4))
    found: dict[str, set[str]] = {}
    for row in model.operators(Forward(4, 100), Parallel()):
        if row["op"] == "gemm":
            found.setdefault(str(row["module"]).split(".")[-1], set()).add(str(row["dtype"]))
    return found


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4_wo"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
            },
            "int4_wo",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "weights": {"num_bits": 8, "type": "float"},
                "input_activations": {"num_bits": 8},
            },
            "fp8",
        ),
    ],
)
def test_a_method_is_a_format_of_every_layer_but_not_of_logits(settings: dict[str, Any], dtype: str) -> None:
    found = formats(**settings)
    assert found.pop("lm_head") == {"bf16"}
    assert set(found) == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    assert all(of == {dtype} for of in found.values())


@pytest.mark.parametrize(
    "left",
    [
        ["model.layers.*.self_attn", "model.layers.0", "model.layers.3"],
        ["re:.*self_attn.*", "model.layers.0", "model.layers.3"],
        ["self_attn", "re:model.layers.0.mlp.*", "model.layers.3"],
        [f"model.layers.{n}.self_attn.{p}_proj" for n in range(4) for p in "qkvo"]
        + ["model.layers.0.mlp", "layers.3"],
    ],
)
def test_modules_that_are_not_converted_stay(left: list[str]) -> None:
    found = formats(quant_method="fp8", modules_to_not_convert=left)
    assert found["qkv_proj"] == found["o_proj"] == {"bf16"}
    assert found["down_proj"] == {"bf16", "fp8"}  # two of the four layers


def test_blocks_of_8_bits_quantize_their_input_in_a_kernel_of_its_own() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    rows = read_model(llama(quantization_config=block)).operators(Forward(4, 100), Parallel())
    quantized = [r for r in rows if str(r["module"]).endswith(".quantize")]
    assert sum(float(r["count"]) for r in quantized) == 4 * 32


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"quant_method": "unheard of"}, "quantization_config.quant_method"),
        ({"quant_method": "awq", "bits": 3}, "quantization_config.bits"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quantization_config.quant_algo"),
        ({"quant_method": "compressed-tensors"}, "quantization_config.weights"),
        ({}, "quantization_config.quant_method"),
    ],
)
def test_a_fault_names_its_field(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput, match=field):
        read_model(llama(quantization_config=settings))


@pytest.mark.parametrize(
    ("settings", "noted"),
    [({"quant_method": "mxfp4"}, True), ({"quant_method": "fp8"}, False), (None, False)],
)
def test_a_format_that_no_module_takes_is_noted(settings: dict[str, Any] | None, noted: bool) -> None:
    config = llama(num_hidden_layers=4, **({"quantization_config": settings} if settings else {}))
    notes = tt.forecast(config, gpu="h100-sxm", mode="decode").notes
    assert any("quantization_config (w4a16_mxfp4, a format of experts" in n for n in notes) == noted
    experts = tt.forecast("gpt-oss-20b", gpu="h100-sxm", mode="decode").notes
    assert not [note for note in experts if "quantization_config" in note]
