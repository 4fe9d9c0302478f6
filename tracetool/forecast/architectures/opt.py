"""Decoders of the GPT-2 kind: GPT-2, OPT and Phi-2. Biases, learned positions, no gate."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, heads_of, plain_mlp, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Embedding, Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model; Phi-2 runs attention and feed-forward part on one normalized input."""
    kind = config.text("model_type")
    hidden = config.size("hidden_size", "n_embd")
    formats = formats_of(config)
    size = config.size("ffn_dim", "intermediate_size", "n_inner", default=4 * hidden)
    field = {"opt": "ffn_dim", "gpt2": "n_inner"}.get(kind, "intermediate_size")
    heads = replace(heads_of(config), bias=True, out_bias=True, rotated=int(kind == "phi"))
    first, second = (
        Norm("ln_1", hidden, residual=True, bias=True),
        Norm("ln_2", hidden, residual=True, bias=True),
    )

    def layer(place: int) -> tuple[Part, ...]:
        attention = self_attention(hidden, heads, formats.of("self_attn.q_proj", place))
        mlp = plain_mlp("mlp", hidden, size, formats.of("mlp.fc1", place), field)
        return (first, *attention, *(() if kind == "phi" else (second,)), *mlp)

    places = config.size("max_position_embeddings", "n_positions", default=2048)
    offset = 2 if kind == "opt" else 0  # OPT keeps two places for padding
    learned = (Embedding("embed_positions", places + offset, hidden, split=False),)
    before = () if kind == "phi" else learned
    return decoder(config, name, "opt", hidden, layer, tied=kind != "phi", norm_bias=True, before=before)


ARCHITECTURE = Architecture(("opt", "gpt2", "phi"), read)
