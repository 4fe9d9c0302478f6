"""Qwen3-Next: gated delta nets, every fourth layer gated attention, experts with a shared one."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, layer_kinds, self_attention
from tracetool.forecast.experts import Experts
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import AllReduce, Linear, Norm, Part
from tracetool.forecast.quantization import Formats, formats_of
from tracetool.forecast.recurrent import DeltaNet, GatedNorm


def _delta_net(config: Config, hidden: int, formats: Formats, place: int) -> tuple[Part, ...]:
    k_heads, v_heads = config.size("linear_num_key_heads"), config.size("linear_num_value_heads")
    k_dim, v_dim = config.size("linear_key_head_dim"), config.size("linear_value_head_dim")
    dtype = formats.of("linear_attn.in_proj_qkvz", place)
    projected = ((k_heads, k_dim), (k_heads, k_dim), (v_heads, v_dim), (v_heads, v_dim))
    return (
        Linear("linear_attn.in_proj_qkvz", hidden, projected, "outputs", dtype),
        Linear("linear_attn.in_proj_ba", hidden, ((v_heads, 2),), "outputs", formats.base),
        DeltaNet(
            "linear_attn.rule", hidden, k_heads, k_dim, v_heads, v_dim,
            config.size("linear_conv_kernel_dim", default=4),
        ),
        GatedNorm("linear_attn.norm", v_dim, v_heads, shared=True),
        Linear("linear_attn.out_proj", v_heads * v_dim, ((hidden, 1),), "inputs", dtype),
        AllReduce("linear_attn", hidden),
    )  # fmt: skip


def read(config: Config, name: str) -> Model:
    """Return the model."""
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    heads = replace(heads_of(config), norm=True, gated=True, bias=config.flag("attention_bias"))
    period = config.size("full_attention_interval", default=4)
    kinds = layer_kinds(config, "full_attention", "linear_attention")
    experts = config.size("num_experts", most=100_000)
    top_k = config.size("num_experts_per_tok", most=experts)
    shared = config.size("shared_expert_intermediate_size")

    def mixer(place: int) -> tuple[Part, ...]:
        full = kinds[place] == "full_attention" if place < len(kinds) else (place + 1) % period == 0
        if full:
            return self_attention(hidden, heads, formats.of("self_attn.q_proj", place))
        return _delta_net(config, hidden, formats, place)

    def layer(place: int) -> tuple[Part, ...]:
        return (
            Norm("input_layernorm", hidden, residual=True),
            *mixer(place),
            Norm("post_attention_layernorm", hidden, residual=True),
            *gated_mlp(
                "mlp.shared_expert", hidden, shared, formats.of("mlp.shared_expert", place),
                "shared_expert_intermediate_size", reduce=False,
            ),
            Linear("mlp.shared_expert_gate", hidden, ((1, 1),)),
            Experts(
                "mlp.experts", hidden, config.size("moe_intermediate_size"), experts, top_k,
                formats.of("mlp.experts", place),
            ),
        )  # fmt: skip

    return decoder(config, name, "qwen3_next", hidden, layer)


ARCHITECTURE = Architecture(("qwen3_next",), read)
