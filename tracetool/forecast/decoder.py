"""Pieces most decoders share: attention with its projections, gated feed-forward, embedding and logits."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.forecast.fields import Config
from tracetool.forecast.parts import AllReduce, Attention, Elementwise, Embedding, Linear, Logits, Norm, Part


@dataclass(frozen=True)
class Heads:
    """Heads of attention and what is done to them; fields as in :class:`~tracetool.forecast.parts.Attention`.

    ``norm``: queries and keys are normalized; ``bias`` and ``out_bias``: of the projections.
    """

    heads: int
    kv_heads: int
    head_dim: int
    norm: bool = False
    bias: bool = False
    out_bias: bool = False
    window: int = 0
    chunk: int = 0
    sinks: bool = False
    rotated: int = 1


def heads_of(config: Config) -> Heads:
    """Return the heads a configuration states.

    Raises
    ------
    BadInput
        If key heads do not divide query heads, or heads do not divide the hidden size and none is stated.
    """
    heads = config.size("num_attention_heads", most=100_000)
    kv_heads = config.size("num_key_value_heads", default=heads, most=100_000)
    if heads % kv_heads:
        raise config.fault("num_key_value_heads", f"{kv_heads} does not divide the {heads} heads")
    if config.has("head_dim"):
        return Heads(heads, kv_heads, config.size("head_dim", most=100_000))
    hidden = config.size("hidden_size")
    if hidden % heads:
        raise config.fault("num_attention_heads", f"{heads} heads do not divide hidden_size {hidden}")
    return Heads(heads, kv_heads, hidden // heads)


def self_attention(hidden: int, h: Heads, dtype: str = "bf16", name: str = "self_attn") -> tuple[Part, ...]:
    """Return attention with its projections: queries, keys and values are one product."""
    norms = (Norm(f"{name}.qk_norm", h.head_dim, heads=(h.heads, h.kv_heads)),) if h.norm else ()
    return (
        Linear(
            f"{name}.qkv_proj", hidden, tuple((n, h.head_dim) for n in (h.heads, h.kv_heads, h.kv_heads)),
            "outputs", dtype, bias=h.bias,
        ),
        *norms,
        Attention(
            f"{name}.attn", h.heads, h.kv_heads, h.head_dim,
            window=h.window, chunk=h.chunk, sinks=h.sinks, rotated=h.rotated,
        ),
        Linear(
            f"{name}.o_proj", h.heads * h.head_dim, ((hidden, 1),), "inputs", dtype, bias=h.out_bias
        ),
        AllReduce(name, hidden),
    )  # fmt: skip


def gated_mlp(
    name: str, hidden: int, intermediate: int, dtype: str = "bf16", field: str = "intermediate_size",
    *, reduce: bool = True,
) -> tuple[Part, ...]:  # fmt: skip
    """Return a gated feed-forward part: gate and up are one product."""
    return (
        Linear(
            f"{name}.gate_up_proj", hidden, ((intermediate, 1), (intermediate, 1)), "outputs", dtype,
            field=field,
        ),
        Elementwise(f"{name}.act", intermediate, reads=2.0),
        Linear(f"{name}.down_proj", intermediate, ((hidden, 1),), "inputs", dtype, field=field),
        *((AllReduce(name, hidden),) if reduce else ()),
    )  # fmt: skip


def ends(config: Config, hidden: int, *, tied: bool = False) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return what runs before the layers and after them: embedding; last norm, logits and sampling."""
    vocabulary = config.size("vocab_size")
    shared = config.flag("tie_word_embeddings", default=tied)
    return (Embedding("embed_tokens", vocabulary, hidden),), (
        Norm("norm", hidden, residual=True),
        Linear("lm_head", hidden, ((vocabulary, 1),), "outputs", tied=shared, sampled=True),
        Logits("sampler", vocabulary),
    )
