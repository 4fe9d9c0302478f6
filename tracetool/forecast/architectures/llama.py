"""Dense decoders of the Llama kind: Llama, Mistral, Qwen, Phi-3 and 4, Gemma, Granite, SmolLM3, ERNIE."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp, heads_of, layer_count, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Elementwise, Norm, Part
from tracetool.forecast.quantization import formats_of
from tracetool.forecast.transformers_eager import Prompt, attend, passes, transposed


def read(config: Config, name: str) -> Model:
    """Return the model: attention and a gated feed-forward part in each layer."""
    kind = config.text("model_type")
    hidden, intermediate = config.size("hidden_size"), config.size("intermediate_size")
    formats = formats_of(config)
    windowed = kind in {"mistral", "phi3"} or config.flag("use_sliding_window")
    window = config.size("sliding_window", default=0, least=0) if windowed else 0
    full_below = config.size("max_window_layers", default=0, least=0) if "qwen" in kind else 0
    bias = config.flag("attention_bias", "qkv_bias", "use_bias", default=kind.startswith(_BIASED))
    heads = replace(
        heads_of(config),
        norm=kind.startswith("qwen3"),
        bias=bias,
        out_bias=config.flag("attention_out_bias", default=bias and not kind.startswith(_BIASED)),
    )
    mlp_bias = config.flag("mlp_bias", "use_bias")

    def layer(place: int) -> tuple[Part, ...]:
        layer_heads = replace(heads, window=window if place >= full_below else 0)
        mlp = formats.of("mlp.down_proj", place)
        return (
            Norm("input_layernorm", hidden, residual=True),
            *self_attention(hidden, layer_heads, formats.of("self_attn.q_proj", place)),
            Norm("post_attention_layernorm", hidden, residual=True),
            *gated_mlp("mlp", hidden, intermediate, mlp, bias=mlp_bias),
        )

    before = (Elementwise("embed_tokens.scale", hidden, split=False),) if kind == "gemma" else ()
    return decoder(config, name, "llama", hidden, layer, tied=kind in _TIED, before=before)


#: Whose queries, keys and values have biases where nothing is stated, the output's product none.
_BIASED: Final = ("qwen2", "seed_oss")
#: Whose logits share the embedding where nothing is stated.
_TIED: Final = ("gemma", "smollm3", "ernie4_5")


def _rms_norm(graph: Graph, name: str, of: Prompt, hidden: int) -> None:
    """Square, mean, root and product in fp32, then the scale."""
    numbers = float(of.tokens * hidden)
    passes(graph, name, numbers, (1,), "fp32")
    passes(graph, name, of.tokens, (1, 1), "fp32")
    passes(graph, name, numbers, (2,), "fp32")
    passes(graph, name, numbers, (1,))


def eager(graph: Graph, config: Config, of: Prompt) -> None:
    """Add a batch of prompts as transformers runs it; keys are repeated for every query head."""
    hidden, size, heads = config.size("hidden_size"), config.size("intermediate_size"), heads_of(config)
    dim, lines = heads.head_dim, of.tokens
    graph.product("rotary", 1, dim // 2, of.seq_len, 1)
    graph.rows[-1]["dtype"] = "fp32"
    passes(graph, "rotary", of.seq_len * dim, (1, 1), "fp32")
    for _ in range(layer_count(config)):
        _rms_norm(graph, "input_layernorm", of, hidden)
        for count in (heads.heads, heads.kv_heads, heads.kv_heads):
            transposed(graph, "qkv", lines, hidden, count * dim)
        if config.text("model_type").startswith("qwen3"):
            for count in (heads.heads, heads.kv_heads):
                _rms_norm(graph, "qk_norm", of, count * dim)
        for count in (heads.heads, heads.kv_heads):
            passes(graph, "rotate", lines * count * dim, (2, 2, 2))
        attend(graph, of, heads.heads, dim, causal=True, masks=(1, 2, 1), wide=True)
        transposed(graph, "o_proj", lines, heads.heads * dim, hidden)
        passes(graph, "residual", lines * hidden, (2,))
        _rms_norm(graph, "post_attention_layernorm", of, hidden)
        transposed(graph, "gate_proj", lines, hidden, size)
        passes(graph, "act", lines * size, (1,))
        transposed(graph, "up_proj", lines, hidden, size)
        passes(graph, "product", lines * size, (2,))
        transposed(graph, "down_proj", lines, size, hidden)
        passes(graph, "residual", lines * hidden, (2,))
    _rms_norm(graph, "norm", of, hidden)


ARCHITECTURE = Architecture(
    (
        "llama", "mistral", "ministral", "qwen2", "qwen3", "phi3", "gemma", "granite", "smollm3", "seed_oss",
        "ernie4_5",
        "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text",
    ),
    read,
    eager,
)  # fmt: skip
