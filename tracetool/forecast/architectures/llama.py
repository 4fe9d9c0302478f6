"""Dense decoders of the Llama kind: Llama 2 and 3, Mistral, Qwen 2, 2.5 and 3, Phi-3 and Phi-4."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model: attention and a gated feed-forward part in each layer."""
    kind = config.text("model_type")
    hidden, intermediate = config.size("hidden_size"), config.size("intermediate_size")
    formats = formats_of(config)
    windowed = kind in {"mistral", "phi3"} or config.flag("use_sliding_window")
    window = config.size("sliding_window", default=0, least=0) if windowed else 0
    full_below = config.size("max_window_layers", default=0, least=0) if "qwen" in kind else 0
    bias = config.flag("attention_bias", "qkv_bias", default=kind.startswith("qwen2"))
    heads = replace(
        heads_of(config),
        norm=kind.startswith("qwen3"),
        bias=bias,
        out_bias=bias and not kind.startswith("qwen2"),
    )

    def layer(place: int) -> tuple[Part, ...]:
        own = replace(heads, window=window if place >= full_below else 0)
        mlp = formats.of("mlp.down_proj", place)
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, own, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden, residual=True),
            *gated_mlp("mlp", hidden, intermediate, mlp, bias=config.flag("mlp_bias")),
        )

    return decoder(config, name, "llama", hidden, layer)


ARCHITECTURE = Architecture(
    (
        "llama", "mistral", "ministral", "qwen2", "qwen3", "phi3",
        "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text",
    ),
    read,
)  # fmt: skip
