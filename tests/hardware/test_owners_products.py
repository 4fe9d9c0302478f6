"""Predictions of GPUs that nobody calibrated against what their owners publish, one script for all."""

from __future__ import annotations

import polars as pl
import pytest

import tracetool as tt

#: TFLOP/s of the fastest square product of 16 bits up to 10240, medians of one to five owners
#: (torch-products, rdna4-products, radeon-products and strix-halo-notes of references.toml, gb10-products).
PRODUCTS = {
    "rtx-2070": 31.5, "rtx-2080": 39.0,
    "rtx-3050-laptop": 15.2, "rtx-3060-laptop": 25.8, "rtx-3070-laptop": 33.7, "rtx-3080-laptop": 36.1,
    "rtx-4060-laptop": 30.9, "rtx-4070-laptop": 46.3, "rtx-4080-laptop": 51.8, "rtx-5060-laptop": 36.9,
    "rtx-5070-laptop": 44.0, "rtx-5070-ti-laptop": 57.1, "rtx-5080-laptop": 76.6, "rtx-5090-laptop": 91.5,
    "rtx-5090-d": 224.6, "rtx-5090-d-v2": 230.4, "rtx-a2000-12gb": 36.6, "rx-6800": 25.4, "rx-7700-xt": 53.5,
    "rx-7900-xt": 82.5, "rx-7900-xtx": 95.0, "rx-9060-xt-16gb": 65.9, "rx-9070-xt": 128.0,
    "radeon-8060s": 36.5, "gb10": 85.0,
}  # fmt: skip
#: The same in FP32, of those whose products run on vectors; a P106-100 has the chip of a GTX 1060.
SINGLE = {
    "rx-6800": 14.1, "rx-7700-xt": 9.2, "rx-7900-xt": 23.0, "rx-9060-xt-16gb": 9.4, "rx-9070-xt": 16.3,
    "rtx-2070": 7.9, "rtx-2080": 9.2, "gtx-1060": 4.5,
}  # fmt: skip
SIZES = (1024, 2048, 4096, 8192, 10240)
#: Tokens/s of one request: orin-tokens, gb10-products, NVIDIA's figures of TensorRT Edge-LLM on Thor, and
#: ggml-org/llama.cpp pull request 26284 (8B Q4_K_M).
TOKENS = {
    ("jetson-agx-orin", "qwen3", "fp16"): 20.2,
    ("jetson-agx-orin", "qwen3", "int4_wo"): 52.2,
    ("gb10", "qwen2", "int8_wo"): 29.1,
    ("jetson-agx-thor", "llama", "int4_wo"): 50.8,
    ("rx-7900-xtx", "llama", "int4_wo"): 105.8,
}
CONFIGS = {
    "qwen3": (2560, 9728, 36, 32, 8, 151936, True), "qwen2": (3584, 18944, 28, 28, 4, 152064, False),
    "llama": (4096, 14336, 32, 32, 8, 128256, False),
}  # fmt: skip


def _fastest(gpu: str, dtype: str) -> float:
    rows = pl.DataFrame([{"op": "gemm", "dtype": dtype, "m": s, "n": s, "k": s} for s in SIZES])
    frame = tt.predict(rows, gpu=gpu, stack="torch").frame
    return float((2.0 * frame["m"].cast(float) ** 3 / frame["duration_us"]).max()) * 1e-6  # type: ignore[arg-type]


@pytest.mark.parametrize("gpu", PRODUCTS)
def test_products_of_owners_are_within_a_quarter(gpu: str) -> None:
    """An RTX 3050 of a laptop was predicted at 10 TFLOP/s, an RTX A2000 at 28: at their rated clocks."""
    assert PRODUCTS[gpu] / _fastest(gpu, "fp16") == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("gpu", SINGLE)
def test_fp32_products_of_owners_are_within_a_quarter(gpu: str) -> None:
    assert SINGLE[gpu] / _fastest(gpu, "fp32") == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("case", TOKENS, ids="-".join)
def test_tokens_of_one_request_are_within_a_quarter(case: tuple[str, str, str]) -> None:
    """Tiles of 64 rows made matrix instructions of a Radeon bound weights of 4 bits: 75 tokens/s of 106."""
    gpu, name, dtype = case
    hidden, inner, layers, heads, kv_heads, words, tied = CONFIGS[name]
    config = {
        "model_type": name, "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128, "vocab_size": words,
        "tie_word_embeddings": tied, "torch_dtype": "float16",
    }  # fmt: skip
    figures = tt.forecast(
        config, gpu=gpu, mode="decode", bs=1, isl=256, osl=128, dtype=dtype, sampling="greedy"
    ).frame
    assert TOKENS[case] * figures["itl_ms"][0] / 1e3 == pytest.approx(1.0, abs=0.25)


def test_reading_weights_takes_the_memory_of_a_graphics_card() -> None:
    """An 8B model of 16 bits decodes at 0.7 to 0.9 of the memory's peak on cards that nobody measured."""
    hidden, inner, layers, heads, kv_heads, words, tied = CONFIGS["llama"]
    config = {
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128, "vocab_size": words,
        "tie_word_embeddings": tied, "torch_dtype": "float16",
    }  # fmt: skip
    cards = {
        "radeon-pro-w7900": 864e9, "radeon-pro-w7800-48gb": 864e9, "radeon-ai-pro-r9700": 640e9,
        "radeon-8060s": 256e9, "rtx-5090-laptop": 896e9, "rtx-pro-4500-bw": 896e9, "rtx-pro-5000-bw": 1344e9,
        "rtx-a5500": 768e9,
    }  # fmt: skip
    frame = tt.forecast(
        config, gpu=list(cards), mode="decode", bs=1, isl=256, osl=128, sampling="greedy", host_us=0
    ).frame
    for gpu, ms in frame.select("gpu", "itl_ms").iter_rows():
        assert 0.7 < 15e9 / (ms * 1e-3) / cards[gpu] < 0.9, gpu


@pytest.mark.parametrize("gpu", ["rx-7900-xtx", "radeon-8060s", "rx-9070-xt"])
def test_few_rows_of_a_radeon_wait_for_memory(gpu: str) -> None:
    """Its instructions multiply 16 rows: no product is padded to more."""
    rows = pl.DataFrame([{"op": "gemm", "dtype": "int4_wo", "m": m, "n": 28672, "k": 4096} for m in (1, 16)])
    frame = tt.predict(rows, gpu=gpu).frame
    assert frame["bound"].to_list() == ["dram", "dram"]
    assert frame["util_tensor"].max() < 0.5  # type: ignore[operator]
