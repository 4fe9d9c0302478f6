"""Llama 4: attention in chunks but in every fourth layer, experts in some layers, one shared expert."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, self_attention
from tracetool.forecast.experts import Experts
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model."""
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    heads = heads_of(config)
    chunk = config.size("attention_chunk_size", default=8192)
    without_positions = config.size("no_rope_layer_interval", default=4)
    experts = config.size("num_local_experts", most=100_000)
    top_k = config.size("num_experts_per_tok", most=experts)
    step = config.size("interleave_moe_layer_step", default=1)
    size = config.size("intermediate_size")

    def mlp(place: int) -> tuple[Part, ...]:
        if (place + 1) % step:
            dense = config.size("intermediate_size_mlp")
            return gated_mlp(
                "feed_forward",
                hidden,
                dense,
                formats.of("feed_forward.down_proj", place),
                "intermediate_size_mlp",
            )
        return (
            *gated_mlp(
                "feed_forward.shared_expert", hidden, size, formats.of("feed_forward.shared_expert", place),
                reduce=False,
            ),
            Experts(
                "feed_forward.experts", hidden, size, experts, top_k,
                formats.of("feed_forward.experts", place),
                fields=("num_local_experts", "intermediate_size"),
            ),
        )  # fmt: skip

    def layer(place: int) -> tuple[Part, ...]:
        rotated = bool((place + 1) % without_positions)
        layer_heads = replace(
            heads, chunk=chunk if rotated else 0, rotated=int(rotated),
            norm=rotated and config.flag("use_qk_norm"), norm_scaled=False,
        )  # fmt: skip
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, layer_heads, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden, residual=True),
            *mlp(place),
        )

    return decoder(config, name, "llama4", hidden, layer)


ARCHITECTURE = Architecture(("llama4_text",), read)
