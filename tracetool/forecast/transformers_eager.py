"""Models as the transformers library runs them, kernel by kernel: no compiler, no fused projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracetool.forecast.graph import Graph


@dataclass(frozen=True)
class Prompt:
    """One batch of prompts: how many, tokens of each, whether attention is one kernel or its steps."""

    batch: int
    seq_len: int
    fused: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return self.batch * self.seq_len


def transposed(graph: Graph, name: str, tokens: float, inputs: int, outputs: int) -> None:
    """Add ``torch.nn.Linear``: cuBLAS, whose matrices are column-major, takes the weights first."""
    graph.linear(name, tokens, inputs, outputs)
    row = graph.rows[-1]
    row["m"], row["n"] = row["n"], row["m"]


def passes(graph: Graph, name: str, elements: float, reads: Sequence[int], dtype: str = "") -> None:
    """Add passes over elements, each with a number of inputs and one result."""
    for number in reads:
        graph.elementwise(name, elements, float(number), dtype=dtype)


def attend(
    graph: Graph, of: Prompt, heads: int, head_dim: int, *, causal: bool, masks: Sequence[int], wide: bool
) -> None:
    """Add attention: one kernel, or scores, passes over them, softmax and values.

    ``masks``: inputs of each pass over the scores; ``wide``: the softmax takes fp32.
    """
    length = of.seq_len
    if of.fused:
        graph.attention("attn", of.batch, length, length, heads, head_dim, causal=causal)
        graph.rows[-1]["window"] = 0.0
        return
    lines = float(of.batch * heads)
    graph.product("attn.scores", lines, length, length, head_dim)
    passes(graph, "attn.mask", lines * length * length, masks)
    if wide:
        passes(graph, "attn.float", lines * length * length, (1,), "fp32")
    graph.softmax("attn.softmax", lines * length, length, "fp32" if wide else "")
    graph.product("attn.values", lines, length, head_dim, length)
