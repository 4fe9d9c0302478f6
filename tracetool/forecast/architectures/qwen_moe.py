"""Mixtures of experts on Llama's attention: Qwen 2 and 3 MoE and their multimodal text towers, Mixtral."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, self_attention
from tracetool.forecast.experts import Experts
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Linear, Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model: attention in each layer, then experts or, in some, a gated feed-forward part."""
    kind = config.text("model_type")
    mixtral = kind == "mixtral"
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    heads = replace(
        heads_of(config),
        norm=kind.startswith("qwen3"),
        bias=config.flag("attention_bias", "qkv_bias", default=kind == "qwen2_moe"),
    )
    experts = config.size("num_local_experts" if mixtral else "num_experts", most=100_000)
    top_k = config.size("num_experts_per_tok", most=experts)
    size_field = "intermediate_size" if mixtral else "moe_intermediate_size"
    size = config.size(size_field)
    shared = config.size("shared_expert_intermediate_size", default=0, least=0)
    step = config.size("decoder_sparse_step", default=1)
    dense = set(config.sizes("mlp_only_layers"))

    def mlp(place: int) -> tuple[Part, ...]:
        if place in dense or (place + 1) % step:
            return gated_mlp(
                "mlp", hidden, config.size("intermediate_size"), formats.of("mlp.down_proj", place)
            )
        part = Experts(
            "mlp.experts", hidden, size, experts, top_k, formats.of("mlp.experts", place),
            fields=("num_local_experts" if mixtral else "num_experts", size_field),
        )  # fmt: skip
        if not shared:
            return (part,)
        return (
            *gated_mlp(
                "mlp.shared_expert", hidden, shared, formats.of("mlp.shared_expert", place),
                "shared_expert_intermediate_size", reduce=False,
            ),
            Linear("mlp.shared_expert_gate", hidden, ((1, 1),)),
            part,
        )  # fmt: skip

    def layer(place: int) -> tuple[Part, ...]:
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, heads, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden, residual=True),
            *mlp(place),
        )

    return decoder(config, name, "qwen_moe", hidden, layer)


ARCHITECTURE = Architecture(
    ("qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "mixtral"), read
)
