"""Text encoders of diffusion pipelines, run once for each prompt: T5, CLIP, BERT, and decoders' layers."""

from __future__ import annotations

from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.transformer_blocks import encoder_block


def add_text_encoder(graph: Graph, config: Config, batch: float, tokens: int) -> None:
    """Add the encoder of a configuration over ``batch`` prompts of ``tokens``.

    Raises
    ------
    BadInput
        If its ``model_type`` is not known, or a size is missing or out of range.
    """
    kind = config.text("model_type")
    if kind in {"t5", "umt5", "mt5"}:
        _t5(graph, config, batch, tokens, places=kind == "umt5")
    elif kind in {"clip_text_model", "bert", "clip"}:
        _plain(graph, config, batch, tokens, causal=kind != "bert")
    elif kind in {"llama", "gemma2", "qwen2", "qwen2_5_vl", "qwen3", "mistral"}:
        _gated(graph, config, batch, tokens, norms=4 if kind == "gemma2" else 2)
    else:
        raise config.fault(
            "model_type", f"unknown text encoder {kind[:40]!r}", "known: t5, umt5, clip, bert, llama"
        )


def _layers(config: Config) -> int:
    return config.size("num_hidden_layers", "num_layers", most=2_000)


def _t5(graph: Graph, config: Config, batch: float, tokens: int, *, places: bool) -> None:
    """T5 and UMT5: scores take a bias by distance, so that attention runs unfused (Raffel et al., 2020)."""
    width, inner, heads = config.size("d_model"), config.size("d_ff"), config.size("num_heads")
    head = heads * config.size("d_kv")
    lines = batch * tokens
    gated = config.flag("is_gated_act", default="gated" in config.text("feed_forward_proj", default="gated"))
    graph.weights(float(config.size("vocab_size")) * width)
    graph.elementwise("shared", lines * width)
    buckets = config.size("relative_attention_num_buckets", default=32) * heads
    graph.weights(0 if places else buckets)
    with graph.repeat(_layers(config)):
        graph.weights(buckets if places else 0)
        graph.norm("block.layer_norm", lines, width, weights=width, passes=4)
        for name in "qkv":
            graph.linear(f"block.{name}", lines, width, head, bias=False)
        graph.product("block.scores", batch * heads, tokens, tokens, head // heads)
        graph.elementwise("block.position_bias", batch * heads * tokens * tokens, reads=2)
        graph.softmax("block.softmax", batch * heads * tokens, tokens, "fp32")
        graph.product("block.values", batch * heads, tokens, head // heads, tokens)
        graph.linear("block.o", lines, head, width, bias=False)
        graph.elementwise("block.residual", lines * width, reads=2)
        graph.norm("block.ff_norm", lines, width, weights=width, passes=4)
        for _ in range(2 if gated else 1):
            graph.linear("block.wi", lines, width, inner, bias=False)
        graph.elementwise("block.act", lines * inner, reads=2 if gated else 1, kind="gelu")
        graph.linear("block.wo", lines, inner, width, bias=False)
        graph.elementwise("block.residual", lines * width, reads=2)
    graph.norm("final_layer_norm", lines, width, weights=width, passes=4)


def _plain(graph: Graph, config: Config, batch: float, tokens: int, *, causal: bool) -> None:
    """CLIP's text model and BERT: biases, no gate."""
    width, inner = config.size("hidden_size"), config.size("intermediate_size")
    heads, lines = config.size("num_attention_heads"), batch * tokens
    places = config.size("max_position_embeddings", default=tokens)
    graph.weights(float(config.size("vocab_size") + places) * width)
    graph.elementwise("embeddings", lines * width, reads=2)
    with graph.repeat(_layers(config)):
        encoder_block(graph, batch, tokens, width, inner, heads, name="layer", causal=causal)
    graph.norm("final_norm", lines, width, weights=2 * width)


def _gated(graph: Graph, config: Config, batch: float, tokens: int, *, norms: int) -> None:
    """Layers of decoders that encode a prompt: HunyuanVideo's Llama, SANA's Gemma 2."""
    width, inner = config.size("hidden_size"), config.size("intermediate_size")
    heads = config.size("num_attention_heads")
    kv_heads = config.size("num_key_value_heads", default=heads)
    head_dim, lines = config.size("head_dim", default=max(width // heads, 1)), batch * tokens
    graph.weights(float(config.size("vocab_size")) * width)
    graph.elementwise("embed_tokens", lines * width)
    with graph.repeat(_layers(config)):
        for place in range(norms):
            graph.norm(f"layer.norm_{place}", lines, width, weights=width, passes=4)
        graph.linear("layer.q", lines, width, heads * head_dim, bias=False)
        for name in "kv":
            graph.linear(f"layer.{name}", lines, width, kv_heads * head_dim, bias=False)
        graph.elementwise("layer.rotary", lines * (heads + kv_heads) * head_dim, reads=2, count=3)
        graph.attention(
            "layer.attention", batch, tokens, tokens, heads, head_dim, causal=True, kv_heads=kv_heads
        )
        graph.linear("layer.o", lines, heads * head_dim, width, bias=False)
        graph.elementwise("layer.residual", lines * width, reads=2, count=2)
        for name in ("gate", "up"):
            graph.linear(f"layer.{name}", lines, width, inner, bias=False)
        graph.elementwise("layer.act", lines * inner, kind="silu")
        graph.elementwise("layer.product", lines * inner, reads=2, kind="mul")
        graph.linear("layer.down", lines, inner, width, bias=False)
    graph.norm("norm", lines, width, weights=width, passes=4)
