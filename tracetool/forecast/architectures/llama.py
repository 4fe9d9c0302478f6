"""Dense decoders of the Llama kind: Llama 2 and 3, Mistral, Qwen 2, 2.5 and 3."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import Heads, ends, gated_mlp, heads_of, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Layers, Model
from tracetool.forecast.parts import Norm


def read(config: Config, name: str) -> Model:
    """Return the model: attention and a gated feed-forward part in each layer."""
    kind = config.text("model_type")
    hidden = config.size("hidden_size")
    heads = heads_of(config)
    attention = Heads(
        heads.heads,
        heads.kv_heads,
        heads.head_dim,
        norm=kind == "qwen3",
        bias=config.flag("attention_bias", default=kind == "qwen2"),
        window=config.size("sliding_window", default=0, least=0) if kind == "mistral" else 0,
    )
    layer = (
        Norm("input_layernorm", hidden, residual=True),
        *self_attention(hidden, attention),
        Norm("post_attention_layernorm", hidden, residual=True),
        *gated_mlp("mlp", hidden, config.size("intermediate_size")),
    )
    embedding, head = ends(config, hidden)
    count = config.size("num_hidden_layers", most=10_000)
    return Model.of(
        name, "llama", "language", (Layers(count, layer),), embedding=embedding, head=head, hidden=hidden
    )


ARCHITECTURE = Architecture(("llama", "mistral", "qwen2", "qwen3"), read)
