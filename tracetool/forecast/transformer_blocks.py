"""Pieces of transformers that several models share: kernel by kernel, as PyTorch runs them uncompiled."""

from __future__ import annotations

from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph

#: Kernels of one RMS norm, and of one rotation of queries or keys, run by torch without a compiler: to fp32,
#: square, mean, root, product, back and scale; to fp32, halves swapped, two products, sum and back.
RMS_PASSES = 5.0
ROTARY_PASSES = 5.0


def width_of(config: Config) -> tuple[int, int, int]:
    """Return heads, their size, and numbers of a token of a transformer."""
    heads = config.size("num_attention_heads", most=100_000)
    head_dim = config.size("attention_head_dim", most=100_000)
    return heads, head_dim, heads * head_dim


def encoder_block(
    graph: Graph,
    batch: float,
    tokens: float,
    width: int,
    inner: int,
    heads: int,
    *,
    name: str = "block",
    causal: bool = False,
) -> None:
    """Add a block of an encoder with biases: norm, attention, norm, feed-forward part, two residuals.

    BERT, the text model of CLIP and vision transformers have it; queries, keys and values are three products.
    """
    lines = batch * tokens
    graph.norm(f"{name}.norm_1", lines, width, weights=2 * width)
    for part in "qkv":
        graph.linear(f"{name}.{part}", lines, width, width)
    graph.attention(f"{name}.attention", batch, tokens, tokens, heads, max(width // heads, 1), causal=causal)
    graph.linear(f"{name}.out", lines, width, width)
    graph.elementwise(f"{name}.residual", lines * width, reads=2)
    graph.norm(f"{name}.norm_2", lines, width, weights=2 * width)
    graph.linear(f"{name}.fc1", lines, width, inner)
    graph.elementwise(f"{name}.act", lines * inner, kind="gelu")
    graph.linear(f"{name}.fc2", lines, inner, width)
    graph.elementwise(f"{name}.residual", lines * width, reads=2)


def two_linear(graph: Graph, name: str, tokens: float, inputs: int, inner: int, outputs: int) -> None:
    """Add two products with an activation between them, of tokens that are not shared among GPUs."""
    graph.linear(f"{name}.1", tokens, inputs, inner, whole=True)
    graph.elementwise(f"{name}.act", tokens * inner, kind="gelu_tanh")
    graph.linear(f"{name}.2", tokens, inner, outputs, whole=True)


def modulation(graph: Graph, name: str, batch: float, width: int, vectors: int, inputs: int = 0) -> None:
    """Add the product that makes shifts, scales and gates of a block from the step's embedding."""
    graph.elementwise(f"{name}.silu", batch * (inputs or width))
    graph.linear(name, batch, inputs or width, vectors * width, whole=True)


def modulated_norm(graph: Graph, name: str, lines: float, width: int, *, weights: int = 0) -> None:
    """Add a norm whose result is scaled and shifted by the step's embedding."""
    graph.norm(name, lines, width, weights=weights)
    graph.elementwise(f"{name}.modulate", lines * width, count=2)


def gated_residual(graph: Graph, name: str, lines: float, width: int) -> None:
    """Add the gate of a block's output and its sum with the input."""
    graph.elementwise(f"{name}.gate", lines * width)
    graph.elementwise(f"{name}.residual", lines * width, reads=2)


def projections(
    graph: Graph, name: str, lines: float, width: int, *, bias: bool = True, inputs: int = 0
) -> None:
    """Add queries, keys and values, each a product of its own."""
    for part in "qkv":
        graph.linear(f"{name}.{part}", lines, inputs or width, width, bias=bias)


def head_norms(
    graph: Graph, name: str, lines: float, heads: int, head_dim: int, *, across: bool = False
) -> None:
    """Add RMS norms of queries and keys, over each head or ``across`` all of them."""
    cols = heads * head_dim if across else head_dim
    for part in ("q", "k"):
        rows = lines if across else lines * heads
        graph.norm(f"{name}.norm_{part}", rows, cols, weights=cols, passes=RMS_PASSES)


def rotary(graph: Graph, name: str, numbers: float) -> None:
    """Add the rotation of queries and keys."""
    graph.elementwise(f"{name}.rotary", 2 * numbers, count=ROTARY_PASSES, dtype="fp32")


def feed_forward(graph: Graph, name: str, lines: float, width: int, inner: int) -> None:
    """Add a feed-forward part without a gate."""
    graph.linear(f"{name}.up", lines, width, inner)
    graph.elementwise(f"{name}.act", lines * inner, kind="gelu_tanh")
    graph.linear(f"{name}.down", lines, inner, width)
