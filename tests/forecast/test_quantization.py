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


CASE: dict[str, Any] = {"gpu": "h100-sxm", "mode": "serve", "bs": 16, "isl": 400, "osl": 100}
_STATED: dict[str, dict[str, Any]] = {
    "bf16": {"torch_dtype": "bfloat16"},
    "fp16": {"torch_dtype": "float16"},
    "fp8": {"quantization_config": {"quant_method": "fp8"}},
    "nvfp4": {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    "int4_wo": {"quantization_config": {"quant_method": "awq", "bits": 4}},
}


@pytest.mark.parametrize("dtype", _STATED)
def test_a_format_asked_for_is_as_one_the_configuration_states(dtype: str) -> None:
    asked = tt.forecast(llama(), **CASE, dtype=dtype)
    stated = tt.forecast(llama(**_STATED[dtype]), **CASE)
    assert asked.frame.drop("dtype").equals(stated.frame)
    assert not [note for note in asked.notes if "without effect" in note]


def test_formats_of_a_grid_differ() -> None:
    frame = tt.forecast(llama(), **CASE, dtype=["fp8", "bf16"]).frame
    narrow, wide = frame["itl_ms"].to_list()
    assert narrow < 0.9 * wide
    assert frame["memory_gib"][0] < frame["memory_gib"][1]


@pytest.mark.parametrize(
    ("dtype", "settings", "fault"),
    [
        ("mxfp8", None, "dtype: 'mxfp8' cannot be served.*bf16, fp16"),
        ("fp9", None, "dtype: 'fp9' cannot be served"),
        ("bf16", {"quant_method": "fp8"}, "quantized to fp8, not bf16"),
        ("nvfp4", {"quant_method": "awq", "bits": 4}, "quantized to int4_wo, not nvfp4"),
    ],
)
def test_a_format_that_cannot_be_applied_is_refused(
    dtype: str, settings: dict[str, Any] | None, fault: str
) -> None:
    with pytest.raises(BadInput, match=fault):
        tt.forecast(llama(**({"quantization_config": settings} if settings else {})), **CASE, dtype=dtype)


def test_a_checkpoint_in_the_format_asked_for_stays_as_it_is() -> None:
    block = llama(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    asked, plain = tt.forecast(block, **CASE, dtype="fp8").frame, tt.forecast(block, **CASE).frame
    assert asked.drop("dtype").equals(plain)


def test_a_pipeline_is_refused_in_another_format() -> None:
    with pytest.raises(BadInput, match="dtype: fp8 cannot be applied to a pipeline"):
        tt.forecast("flux.1-dev", gpu="h100-sxm", dtype="fp8")


#: Llama 3.1 70B as published: keys and values of 80 layers of 8 heads of 128, over four GPUs.
_LLAMA_70B = llama(
    hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
    num_key_value_heads=8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "asked", "per_token"),
    [
        ({}, "", 81920),
        ({}, "fp8", 40960),
        ({}, "fp8_e4m3", 40960),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "", 40960),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "auto", 40960),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "bf16", 81920),
        ({"kv_cache_scheme": None}, "", 81920),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "", 40960),
    ],
)
def test_keys_and_values_have_the_format_stated_or_asked_for(
    settings: dict[str, Any], asked: str, per_token: int
) -> None:
    config = {**_LLAMA_70B, "quantization_config": {"quant_method": "fp8", **settings}}
    model = read_model(config, kv_dtype=asked)
    assert model.kv_bytes_per_token(Parallel(tp=4)) == per_token


def test_keys_and_values_of_8_bits_save_memory_and_time() -> None:
    case = {"gpu": "h100-sxm", "mode": "decode", "tp": 4, "bs": 64, "isl": 4000}
    narrow, wide = tt.forecast(_LLAMA_70B, **case, kv_dtype=["fp8", "auto"]).frame.to_dicts()
    assert narrow["itl_ms"] < wide["itl_ms"]
    assert narrow["memory_gib"] < wide["memory_gib"]
    assert narrow["largest_batch"] >= 2 * wide["largest_batch"]
    stated = {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    told = tt.forecast(llama(quantization_config=stated), **CASE)
    assert any("keys and values are kept in FP8" in note for note in told.notes)


@pytest.mark.parametrize(
    ("settings", "asked", "fault"),
    [
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "", "kv_cache_scheme.num_bits"),
        ({"kv_cache_quant_algo": "NVFP4"}, "", "kv_cache_quant_algo"),
        ({}, "fp9", "kv_dtype: 'fp9' is not known"),
    ],
)
def test_a_format_of_keys_and_values_that_is_not_known_is_named(
    settings: dict[str, Any], asked: str, fault: str
) -> None:
    with pytest.raises(BadInput, match=fault):
        read_model(llama(quantization_config={"quant_method": "fp8", **settings}), kv_dtype=asked)
