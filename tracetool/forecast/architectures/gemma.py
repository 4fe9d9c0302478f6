"""Gemma 2 and 3: four norms in a layer, windows in most layers, embedding shared with the logits."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, layer_kinds, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Elementwise, Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model: one layer of every ``sliding_window_pattern`` sees all keys."""
    kind = config.text("model_type")
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    heads = replace(heads_of(config), norm=kind.startswith("gemma3"), bias=config.flag("attention_bias"))
    window = config.size("sliding_window", default=0, least=0)
    period = config.size("sliding_window_pattern", default=6 if kind.startswith("gemma3") else 2)
    kinds = layer_kinds(config, "full_attention", "sliding_attention")

    def layer(place: int) -> tuple[Part, ...]:
        full = kinds[place] == "full_attention" if place < len(kinds) else (place + 1) % period == 0
        layer_heads = replace(heads, window=0 if full else window)
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, layer_heads, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden),
            Norm("pre_feedforward_layernorm", hidden, residual=True),
            *gated_mlp("mlp", hidden, config.size("intermediate_size"), formats.of("mlp.down_proj", place)),
            Norm("post_feedforward_layernorm", hidden),
        )

    scaled = Elementwise("embed_tokens.scale", hidden, split=False)
    return decoder(config, name, "gemma", hidden, layer, tied=True, before=(scaled,))


ARCHITECTURE = Architecture(("gemma2", "gemma3_text"), read)
