"""Decoders of the GPT-2 kind: GPT-2, OPT and Phi-2. Biases, learned positions, no gate."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import Heads, decoder, heads_of, layer_count, plain_mlp, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Embedding, Norm, Part
from tracetool.forecast.quantization import formats_of
from tracetool.forecast.transformers_eager import Prompt, attend, passes, transposed


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
    biased = kind == "phi"
    return decoder(
        config, name, "opt", hidden, layer,
        tied=not biased, norm_bias=True, logits_bias=biased, before=before,
    )  # fmt: skip


def eager(graph: Graph, config: Config, of: Prompt) -> None:
    """Add a batch of prompts as transformers runs it."""
    kind = config.text("model_type")
    if kind == "phi":
        raise config.fault("model_type", "how transformers runs phi is not known", "use --stack vllm")
    hidden, heads, lines = config.size("hidden_size", "n_embd"), heads_of(config), of.tokens
    size = config.size("ffn_dim", "intermediate_size", "n_inner", default=4 * hidden)
    if kind == "opt":
        passes(graph, "mask", of.batch * of.seq_len * of.seq_len, (2,), "fp32")
        passes(graph, "places", lines, (2,), "fp32")
    passes(graph, "embed", lines * hidden, (2,))
    for _ in range(layer_count(config)):
        graph.norm("ln_1", lines, hidden)
        _eager_attention(graph, of, hidden, heads, kind)
        passes(graph, "residual", lines * hidden, (2,))
        graph.norm("ln_2", lines, hidden)
        if kind == "opt":
            transposed(graph, "fc1", lines, hidden, size)
            passes(graph, "act", lines * size, (1,))
            transposed(graph, "fc2", lines, size, hidden)
        else:
            graph.linear("fc1", lines, hidden, size)
            passes(graph, "act", lines * size, (1, 1, 1, 2, 1, 1, 1, 2))  # tanh's form of GELU, term by term
            graph.linear("fc2", lines, size, hidden)
        passes(graph, "residual", lines * hidden, (2,))
    graph.norm("ln_f", lines, hidden)


def _eager_attention(graph: Graph, of: Prompt, hidden: int, heads: Heads, kind: str) -> None:
    lines = of.tokens
    if kind == "gpt2":  # its projections are transposed already: Conv1D
        graph.linear("c_attn", lines, hidden, 3 * hidden)
        attend(graph, of, heads.heads, heads.head_dim, causal=True, masks=(2,), wide=False)
        graph.linear("c_proj", lines, hidden, hidden)
        return
    transposed(graph, "q_proj", lines, hidden, hidden)
    passes(graph, "scale", lines * hidden, (1,))
    for name in ("k_proj", "v_proj"):
        transposed(graph, name, lines, hidden, hidden)
    attend(graph, of, heads.heads, heads.head_dim, causal=True, masks=(2, 1), wide=True)
    transposed(graph, "out_proj", lines, hidden, hidden)


ARCHITECTURE = Architecture(("opt", "gpt2", "phi"), read, eager)
