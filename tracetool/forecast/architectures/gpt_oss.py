"""gpt-oss: windows in every other layer, sinks in the attention, experts in mxfp4."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, heads_of, layer_kinds, self_attention
from tracetool.forecast.experts import Experts
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Norm, Part
from tracetool.forecast.quantization import formats_of

#: Limit of what enters the activation function where none is stated. [1] By definition of
#: huggingface/transformers, models/gpt_oss/configuration_gpt_oss.py.
_LIMIT: Final = 7.0


def read(config: Config, name: str) -> Model:
    """Return the model."""
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    bias = config.flag("attention_bias", default=True)
    heads = replace(heads_of(config), bias=bias, out_bias=bias, sinks=True)
    kinds = layer_kinds(config, "full_attention", "sliding_attention")
    window = config.size("sliding_window", default=0, least=0)
    experts = config.size("num_local_experts", "num_experts", most=100_000)
    top_k = config.size("num_experts_per_tok", "experts_per_token", most=experts)

    def layer(place: int) -> tuple[Part, ...]:
        kind = (
            kinds[place] if place < len(kinds) else ("full_attention" if place % 2 else "sliding_attention")
        )
        layer_heads = replace(heads, window=window if kind == "sliding_attention" else 0)
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, layer_heads, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden, residual=True),
            Experts(
                "mlp.experts", hidden, config.size("intermediate_size"), experts, top_k,
                formats.of("mlp.experts", place), bias=True,
                clamped=config.number("swiglu_limit", default=_LIMIT) > 0.0,
                fields=("num_local_experts", "intermediate_size"),
            ),
        )  # fmt: skip

    return decoder(config, name, "gpt_oss", hidden, layer)


ARCHITECTURE = Architecture(("gpt_oss",), read)
