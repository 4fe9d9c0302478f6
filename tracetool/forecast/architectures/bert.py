"""Encoders of BERT's kind: BERT, RoBERTa, ELECTRA, DistilBERT, and ALBERT, whose layers share weights."""

from __future__ import annotations

from dataclasses import replace

from tracetool.families import names
from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import heads_of, layer_count, plain_mlp, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Layers, Model
from tracetool.forecast.parts import Elementwise, Embedding, Linear, Norm, Part
from tracetool.forecast.quantization import formats_of
from tracetool.forecast.transformers_eager import Prompt, attend, passes, transposed


def _plain(config: Config) -> Config:
    """Return the fields of DistilBERT under the names BERT has for them."""
    if config.text("model_type") != "distilbert":
        return config
    same = {"dim": "hidden_size", "hidden_dim": "intermediate_size", "n_heads": "num_attention_heads"}
    renamed = {
        same.get(f, "num_hidden_layers" if f == "n_layers" else f): v for f, v in config.values.items()
    }
    return Config(renamed, config.source, config.path)


def read(config: Config, name: str) -> Model:
    """Return the model: norms after attention and feed-forward part, each with the residual."""
    kind = config.text("model_type")
    config = _plain(config)
    hidden, size = config.size("hidden_size"), config.size("intermediate_size")
    formats, vocabulary = formats_of(config), config.size("vocab_size")
    width = config.size("embedding_size", default=hidden) if kind in {"albert", "electra"} else hidden
    heads = replace(heads_of(config), bias=True, out_bias=True, rotated=0, cached=False, causal=False)
    layer: tuple[Part, ...] = (
        *self_attention(hidden, heads, formats.of("attention.self", 0), names.ATTENTION),
        Norm("attention.output.LayerNorm", hidden, residual=True, bias=True),
        *plain_mlp("mlp", hidden, size, formats.of("mlp", 0)),
        Norm("output.LayerNorm", hidden, residual=True, bias=True),
    )
    places = config.size("max_position_embeddings", default=512)
    segments = config.size("type_vocab_size", default=0 if kind == "distilbert" else 2, least=0)
    embedding: list[Part] = [
        Embedding("embed_tokens", vocabulary, width),
        Embedding("embed_positions", places, width, split=False),
        Norm("embeddings.LayerNorm", width, bias=True),
    ]
    if segments:
        embedding.insert(2, Embedding("embed_segments", segments, width, split=False))
    if width != hidden:
        embedding.append(Linear("embedding_hidden_mapping", width, ((hidden, 1),), bias=True))
    head: list[Part] = []
    if kind in {"bert", "roberta", "albert", "xlm-roberta"} and config.flag(
        "add_pooling_layer", default=True
    ):
        pooler = Linear("pooler", hidden, ((hidden, 1),), bias=True, sampled=True)
        head += [pooler]
    if any("MaskedLM" in a or "LMHead" in a for a in config.texts("architectures", most=10)):
        head = [
            Linear("predictions.transform", hidden, ((width, 1),), bias=True),
            Elementwise("predictions.act", width, split=False),
            Norm("predictions.LayerNorm", width, bias=True),
            Linear("predictions.decoder", width, ((vocabulary, 1),), "outputs", tied=True),
        ]
    layers = Layers(layer_count(config), layer, shared=kind == "albert")
    return Model.of(
        name, "bert", "encoder", (layers,), embedding=embedding, head=head, hidden=hidden, dtype=formats.base
    )


def eager(graph: Graph, config: Config, of: Prompt) -> None:
    """Add a batch of prompts as transformers runs it."""
    config = _plain(config)
    hidden, size, heads = config.size("hidden_size"), config.size("intermediate_size"), heads_of(config)
    lines = of.tokens
    passes(graph, "embeddings", lines * hidden, (2,))
    graph.norm("embeddings.LayerNorm", lines, hidden)
    passes(graph, "mask", lines, (1,))
    for _ in range(layer_count(config)):
        for name in ("query", "key", "value"):
            transposed(graph, name, lines, hidden, hidden)
        attend(graph, of, heads.heads, heads.head_dim, causal=False, masks=(1, 2), wide=False)
        transposed(graph, "attention.output", lines, hidden, hidden)
        passes(graph, "residual", lines * hidden, (2,))
        graph.norm("attention.output.LayerNorm", lines, hidden)
        transposed(graph, "intermediate", lines, hidden, size)
        passes(graph, "act", lines * size, (1,))
        transposed(graph, "output", lines, size, hidden)
        passes(graph, "residual", lines * hidden, (2,))
        graph.norm("output.LayerNorm", lines, hidden)
    transposed(graph, "pooler", of.batch, hidden, hidden)
    passes(graph, "pooler.tanh", of.batch * hidden, (1,))


ARCHITECTURE = Architecture(
    ("bert", "roberta", "xlm-roberta", "electra", "distilbert", "albert"), read, eager
)
