"""Pieces most decoders share: attention with its projections, feed-forward parts, embedding and logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracetool.forecast.attention import Attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model, grouped
from tracetool.forecast.parts import AllReduce, Elementwise, Embedding, Linear, Norm, Part
from tracetool.forecast.quantization import Formats, formats_of
from tracetool.forecast.token_sampling import Logits


@dataclass(frozen=True)
class Heads:
    """Heads of attention and their treatment; sizes as in :class:`~tracetool.forecast.parts.Attention`.

    ``norm``: queries and keys are normalized, with scales where ``norm_scaled``; ``bias`` and ``out_bias``:
    of the projections; ``gated``: a gate of the output is projected beside the queries.
    """

    heads: int
    kv_heads: int
    head_dim: int
    norm: bool = False
    norm_scaled: bool = True
    bias: bool = False
    out_bias: bool = False
    gated: bool = False
    window: int = 0
    chunk: int = 0
    sinks: bool = False
    rotated: int = 1
    cached: bool = True
    causal: bool = True


def heads_of(config: Config) -> Heads:
    """Return the heads a configuration states.

    Raises
    ------
    BadInput
        If key heads do not divide query heads, or heads do not divide the hidden size and none is stated.
    """
    heads = config.size("num_attention_heads", "n_head", most=100_000)
    kv_heads = config.size("num_key_value_heads", default=heads, most=100_000)
    if heads % kv_heads:
        raise config.fault("num_key_value_heads", f"{kv_heads} does not divide the {heads} heads")
    if config.has("head_dim", "attention_head_dim"):
        return Heads(heads, kv_heads, config.size("head_dim", "attention_head_dim", most=100_000))
    hidden = config.size("hidden_size", "n_embd")
    if hidden % heads:
        raise config.fault("num_attention_heads", f"{heads} heads do not divide hidden_size {hidden}")
    return Heads(heads, kv_heads, hidden // heads)


def self_attention(hidden: int, h: Heads, dtype: str = "bf16", name: str = "self_attn") -> tuple[Part, ...]:
    """Return attention with its projections: queries, keys and values are one product."""
    widths = (h.heads * (2 if h.gated else 1), h.kv_heads, h.kv_heads)
    parts: list[Part] = [
        Linear(
            f"{name}.qkv_proj", hidden, tuple((n, h.head_dim) for n in widths), "outputs", dtype, bias=h.bias
        )
    ]
    if h.norm:
        heads = (h.heads, h.kv_heads)
        parts.append(Norm(f"{name}.qk_norm", h.head_dim, heads=heads, scaled=h.norm_scaled))
    parts.append(
        Attention(
            f"{name}.attn", h.heads, h.kv_heads, h.head_dim,
            window=h.window, chunk=h.chunk, sinks=h.sinks, rotated=h.rotated, cached=h.cached,
            causal=h.causal,
        )
    )  # fmt: skip
    if h.gated:
        parts.append(Elementwise(f"{name}.gate", h.heads * h.head_dim, reads=2.0, kind="sigmoid+mul"))
    parts.append(
        Linear(f"{name}.o_proj", h.heads * h.head_dim, ((hidden, 1),), "inputs", dtype, bias=h.out_bias)
    )
    return (*parts, AllReduce(name, hidden))


def gated_mlp(
    name: str,
    hidden: int,
    intermediate: int,
    dtype: str = "bf16",
    field: str = "intermediate_size",
    *,
    bias: bool = False,
    reduce: bool = True,
) -> tuple[Part, ...]:
    """Return a gated feed-forward part: gate and up are one product."""
    both = ((intermediate, 1), (intermediate, 1))
    parts = (
        Linear(f"{name}.gate_up_proj", hidden, both, "outputs", dtype, bias=bias, field=field),
        Elementwise(f"{name}.act", intermediate, reads=2.0, kind="silu+mul"),
        Linear(f"{name}.down_proj", intermediate, ((hidden, 1),), "inputs", dtype, bias=bias, field=field),
    )
    return (*parts, AllReduce(name, hidden)) if reduce else parts


def plain_mlp(
    name: str,
    hidden: int,
    intermediate: int,
    dtype: str = "bf16",
    field: str = "intermediate_size",
    *,
    bias: bool = True,
) -> tuple[Part, ...]:
    """Return a feed-forward part without a gate."""
    return (
        Linear(f"{name}.up_proj", hidden, ((intermediate, 1),), "outputs", dtype, bias=bias, field=field),
        Elementwise(f"{name}.act", intermediate, kind="gelu"),
        Linear(f"{name}.down_proj", intermediate, ((hidden, 1),), "inputs", dtype, bias=bias, field=field),
        AllReduce(name, hidden),
    )


def ends(
    config: Config,
    hidden: int,
    formats: Formats,
    *,
    tied: bool = False,
    norm_bias: bool = False,
    logits_bias: bool = False,
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the operators before the layers and after them: embedding; last norm, logits and sampling."""
    vocabulary = config.size("vocab_size")
    shared = config.flag("tie_word_embeddings", default=tied)
    return (Embedding("embed_tokens", vocabulary, hidden),), (
        Norm("norm", hidden, residual=True, bias=norm_bias),
        Linear(
            "lm_head", hidden, ((vocabulary, 1),), "outputs", formats.base,
            bias=logits_bias, tied=shared, sampled=True,
        ),
        Logits("sampler", vocabulary),
    )  # fmt: skip


def layer_count(config: Config) -> int:
    """Return how many layers a configuration states."""
    return config.size("num_hidden_layers", "n_layer", most=2_000)


def layer_kinds(config: Config, *known: str) -> tuple[str, ...]:
    """Return the kind of each layer, one of those known, where a configuration states them; else none.

    Raises
    ------
    BadInput
        If it states more or fewer than there are layers, or a kind that is not known.
    """
    kinds, layers = config.texts("layer_types"), layer_count(config)
    if kinds and len(kinds) != layers:
        raise config.fault("layer_types", f"states {len(kinds)} layers of {layers}")
    if unknown := next((kind for kind in kinds if kind not in known), None):
        raise config.fault("layer_types", f"{unknown[:40]!r} is none of {', '.join(known)}")
    return kinds


def decoder(
    config: Config,
    name: str,
    architecture: str,
    hidden: int,
    layer: Callable[[int], tuple[Part, ...]],
    *,
    tied: bool = False,
    norm_bias: bool = False,
    logits_bias: bool = False,
    before: tuple[Part, ...] = (),
) -> Model:
    """Return a decoder of layers given by their number, with its embedding and logits.

    ``before`` are further parts after the embedding.
    """
    formats = formats_of(config)
    embedding, head = ends(config, hidden, formats, tied=tied, norm_bias=norm_bias, logits_bias=logits_bias)
    return Model.of(
        name,
        architecture,
        "language",
        grouped(layer(i) for i in range(layer_count(config))),
        embedding=(*embedding, *before),
        head=head,
        hidden=hidden,
        dtype=formats.base,
    )
