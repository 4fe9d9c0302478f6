"""A model beside what torch counts of it on the meta device; that part runs where torch is installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tracetool as tt
from tests.conftest import Tool
from tracetool.core.errors import BadInput, CheckFailed, MissingPart
from tracetool.forecast import torch_check
from tracetool.forecast.meta_trace import MetaTrace
from tracetool.forecast.torch_check import TOLERANCE, check_model

SMALL: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 512,
}  # fmt: skip
#: One of each kind of layer, small.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": SMALL,
    "gemma": {**SMALL, "head_dim": 32},
    "granite": {**SMALL, "tie_word_embeddings": False},
    "smollm3": {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "seed_oss": {**SMALL, "head_dim": 32, "attention_bias": True, "tie_word_embeddings": False},
    "ernie4_5": {**SMALL, "head_dim": 32},
    "qwen2": SMALL,
    "qwen3": {**SMALL, "head_dim": 32},
    "mistral": SMALL,
    "mixtral": {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {**SMALL, "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2,
                  "moe_intermediate_size": 48},
    "qwen2_moe": {**SMALL, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
                  "shared_expert_intermediate_size": 96},
    "gpt_oss": {**SMALL, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
                "sliding_window": 128},
    "gemma3_text": {**SMALL, "head_dim": 32, "sliding_window": 64},
    "phi3": {**SMALL, "pad_token_id": 0},
    "phi": {k: v for k, v in SMALL.items() if k != "num_key_value_heads"},
    "opt": {"hidden_size": 64, "ffn_dim": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
            "vocab_size": 512, "max_position_embeddings": 512, "word_embed_proj_dim": 64},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 512, "n_positions": 512},
    "bert": {k: v for k, v in SMALL.items() if k != "num_key_value_heads"},
    "t5": {"d_model": 64, "d_ff": 160, "d_kv": 16, "num_heads": 4, "num_layers": 2, "vocab_size": 512},
    "resnet": {"num_labels": 10},
    "nemotron_h": {
        **SMALL, "num_hidden_layers": 4, "hybrid_override_pattern": "M-*-", "head_dim": 16,
        "ssm_state_size": 16, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_groups": 2,
        "conv_kernel": 4, "chunk_size": 64,
    },
    "qwen3_next": {
        **SMALL, "num_hidden_layers": 4, "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48, "linear_num_value_heads": 8,
        "linear_num_key_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    },
    "deepseek_v3": {
        **SMALL, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "moe_intermediate_size": 48, "kv_lora_rank": 32, "q_lora_rank": 48, "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32, "v_head_dim": 32, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
        "num_key_value_heads": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_torch_counts_the_weights_and_products_of_each_architecture(kind: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    found = check_model({"model_type": kind, **CONFIGS[kind]})
    assert found.frame.height >= 2
    assert found.worst[1] == pytest.approx(0.0, abs=1e-3), found.frame


@pytest.mark.data
def test_torch_counts_those_of_published_models(data: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    for name in ("Qwen--Qwen3-VL-8B-Instruct", "deepseek-ai--DeepSeek-V3.1", "openai--gpt-oss-20b"):
        assert abs(check_model(data / f"models/{name}.json").worst[1]) < 1e-3


def _counted(monkeypatch: pytest.MonkeyPatch, *, more: float) -> None:
    """Let the library count what the forecast does, and ``more`` of its products."""
    ours = {"model_type": "qwen3_moe", **CONFIGS["qwen3_moe"]}

    def count(
        fields: Mapping[str, Any], name: str, kind: str, batch: int, length: int, side: int
    ) -> MetaTrace:
        assert (fields, kind) == (ours, "language")
        # 2 FLOP a weight that is not gathered, and token; logits of one token each
        attention = 3 * (64 * 32 * 4 + 2 * 64 * 32 * 2 + 32 * 4 * 64 + 64 * 8)
        products = 2.0 * attention * batch * length + 2.0 * 64 * 512 * batch
        pairs = 2.0 * 2 * length * length * batch * 4 * 32 * 3
        weights = tt.forecast(ours, gpu="h100-sxm", mode="decode").source  # any forecast of it
        assert weights.single
        experts = 3 * 8 * 3 * 64 * 48
        norms = 3 * (2 * 64 + 2 * 32) + 64
        return MetaTrace(
            "torch 0", attention + experts + norms + 2 * 64 * 512, products * more, pairs, 0.0, float(experts)
        )

    monkeypatch.setattr(torch_check, "traced_model", count)


def test_equal_counts_pass_and_others_are_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "qwen3_moe", **CONFIGS["qwen3_moe"]}
    _counted(monkeypatch, more=1.0)
    equal = tt.forecast(config, gpu="h100-sxm", check=True)
    assert equal.checked["difference"].abs().max() == pytest.approx(0.0, abs=1e-9)
    equal.raise_if_other()
    assert equal.to_dict()["checked"]["library"] == "torch 0"
    _counted(monkeypatch, more=1.0 + 2.0 * TOLERANCE)
    with pytest.raises(CheckFailed, match=r"check: products with weights -3\.8 %"):
        tt.forecast(config, gpu="h100-sxm", check=True).raise_if_other()


def test_a_missing_package_is_exit_3_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "transformers", "diffusers"):
        monkeypatch.setitem(sys.modules, package, None)
    for model in ("llama-3.2-1b", "flux.1-dev"):
        with pytest.raises(MissingPart, match="needs the package torch"):
            check_model(model)


def test_only_a_configuration_is_checked(tool: Tool, tmp_path: Path) -> None:
    table = tmp_path / "operators.csv"
    table.write_text("op,m,n,k,dtype\ngemm,64,64,64,bf16\n")
    done = tool("forecast", str(table), "--gpu", "h100-sxm", "--check")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no configuration" in done.stderr
    with pytest.raises(BadInput, match="not a table of cases"):
        tt.forecast(tt.forecast("gpt2", gpu="t4", mode="decode").frame.select("model"), check=True)
