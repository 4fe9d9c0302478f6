"""The shape of a grammar: how one library names its kernels, and what each part of a name means.

A grammar is one file in ``classify/grammars``. It lists rules; a rule says which names it reads (a pattern
on the head symbol, its scope or the whole text), the family, and how the name's parts become attributes.
No rule may name one whole kernel: a rule describes how a library builds names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from tracetool.kernels.symbols import Symbol

Value = str | int | bool | None
Attributes = dict[str, Value]
#: Turns the matched parts and the symbol into attributes; None declines the name.
Sign = Callable[[re.Match[str], Symbol], Attributes | None]
Where = Literal["head", "scope", "text"]

#: Attributes a name or a launch can state, in the order of the output's columns.
TEXTS: Final = (
    "family", "op", "library", "dtype", "b_dtype", "acc_dtype", "out_dtype", "layout", "out_layout", "cluster", "mma", "mma_arch", "arch",
    "epilogue", "beta", "k_sharing", "direction", "phase", "algo", "proto", "redop", "functor", "fused_ops", "opclass", "access_pattern", "basis",
)  # fmt: skip
NUMBERS: Final = (
    "tile_m", "tile_n", "tile_k", "stages", "split_k", "warps", "threads", "head_dim", "head_dim_v", "align", "ctas_per_mma",
    "vec", "operands", "depth", "log2_elements", "max_threads", "out_vec", "elements_per_thread", "groups", "winograd_tile",
    "element_bytes", "rank_count",
)  # fmt: skip
FLAGS: Final = ("causal", "paged", "persistent", "dropout", "gated")

#: What each attribute means, printed by ``--explain`` and in docs/names.md.
MEANINGS: Final[Mapping[str, str]] = {
    "family": "what the kernel does structurally",
    "op": "the finer class inside the family",
    "library": "whose grammar read the name",
    "dtype": "number format of the first operand in memory, tf32 where fp32 is multiplied as tf32",
    "b_dtype": "number format of the second operand where it differs",
    "acc_dtype": "accumulator",
    "out_dtype": "number format of the result",
    "layout": "operand transposition (op(A)op(B), column-major view) or tensor layout of a convolution",
    "out_layout": "layout of the result",
    "cluster": "thread-block cluster, blocks in M x N",
    "mma": "matrix instruction M x N x K",
    "mma_arch": "architecture whose matrix instruction it is, ampere where a later chip still runs it",
    "arch": "architecture the code was compiled for, not the device",
    "epilogue": "what is fused behind the product: bias, activation, residual, scale",
    "beta": "zero: C is not read; add: C is read and added",
    "k_sharing": "how K is shared between blocks or warps: split_k, stream_k, segment_k, slice_k",
    "direction": "fwd, bwd, bwd_data or bwd_weight",
    "phase": "prefill or decode",
    "algo": "algorithm: winograd, fft, implicit_gemm, ring, tree, one_shot, ...",
    "proto": "wire protocol of a collective",
    "redop": "reduction operator of a collective",
    "functor": "elementwise or reduction function",
    "fused_ops": "operators a compiler fused into the kernel",
    "opclass": "unit that multiplies: tensorop, simt, sparse",
    "access_pattern": "how a streaming kernel accesses its tensors: wide, offsets, cast, cat, index, pool, tree, chunks, else other",
    "basis": "what the answer rests on: grammar, library (its usual work), words (of a user's own name), operator",
    "tile_m": "block tile along M of the library's column-major view: a framework's N",
    "tile_n": "block tile along N of the library's view: a framework's M",
    "tile_k": "K step of one pipeline stage, elements",
    "stages": "buffers of the load pipeline",
    "split_k": "blocks that share one output tile, 1 where the name says none",
    "warps": "warps per block",
    "threads": "threads per block",
    "head_dim": "attention head dimension of Q and K",
    "head_dim_v": "attention head dimension of V where it differs",
    "align": "elements per memory access the operands must be aligned to",
    "ctas_per_mma": "blocks that one matrix instruction spans",
    "vec": "elements per access",
    "operands": "tensors touched, outputs included",
    "depth": "tensors per element in a multi-tensor kernel",
    "log2_elements": "row length is at most two to this power",
    "max_threads": "largest block of a reduction",
    "out_vec": "outputs per thread of a reduction",
    "elements_per_thread": "elements one thread works on",
    "groups": "convolution groups",
    "winograd_tile": "output tile edge of the Winograd transform",
    "element_bytes": "bytes per element where the format itself is not stated",
    "rank_count": "GPUs that a library's own all-reduce was compiled for",
    "causal": "scores above the diagonal are skipped",
    "paged": "keys and values lie in pages",
    "persistent": "blocks stay and take tiles in turn, so the grid does not count tiles",
    "dropout": "dropout is fused",
    "gated": "gate and up projections are fused",
}


@dataclass(frozen=True)
class Rule:
    """One way a library builds names.

    Parameters
    ----------
    pattern : str
        Regular expression without nested repetition, matched from the start of ``where``.
    family : str
        From the closed list.
    op : str
        Finer class.
    where : {"head", "scope", "text"}
        Part of the symbol the pattern reads.
    sign : callable, optional
        Makes attributes of the match; may override ``family`` and ``op``; None declines.
    """

    pattern: str
    family: str
    op: str = ""
    where: Where = "head"
    sign: Sign | None = None
    arguments: Sequence[str] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern)

    def read(self, symbol: Symbol) -> Attributes | None:
        """Return the attributes of a name this rule reads, else None."""
        match = self.regex.match(symbol.part(self.where))
        if match is None:
            return None
        out: Attributes = {"family": self.family, "op": self.op or None, **self.fixed}
        if self.sign is not None:
            more = self.sign(match, symbol)
            if more is None:
                return None
            out.update(more)
        return out


@dataclass(frozen=True)
class Token:
    """One kind of token in a library's names, for ``--explain`` and the documentation."""

    pattern: str
    meaning: str


@dataclass(frozen=True)
class Grammar:
    """Rules by which one library names its kernels.

    Parameters
    ----------
    library : str
        Library, as the ``library`` column states it.
    title : str
        One line on what it is.
    source : str
        Where the naming is documented or can be read off.
    gate : str
        Pattern searched in ``gate_on``; names without it are not this library's. No look-around: an
        engine that is linear in the text's length tries it on all names at once.
    rules : sequence of Rule
        Tried in order; the first that does not decline answers.
    tokens : sequence of Token
        Meaning of each token of its names.
    examples : mapping of str to str
        Names of our own making or widely published ones, with their family: the test that proves the grammar.
    rank : int
        Grammars are asked in rising rank: exact ones below 50, those that go by words last.
    """

    library: str
    title: str
    source: str
    gate: str
    rules: Sequence[Rule]
    tokens: Sequence[Token] = ()
    examples: Mapping[str, str] = field(default_factory=dict)
    rank: int = 50
    gate_on: Where = "scope"

    @cached_property
    def opens(self) -> re.Pattern[str]:
        """The compiled gate."""
        return re.compile(self.gate)

    def read(self, symbol: Symbol) -> Attributes | None:
        """Return the attributes of a name that passed the gate, None where no rule reads it."""
        for rule in self.rules:
            attributes = rule.read(symbol)
            if attributes is not None:
                attributes.setdefault("library", self.library)
                attributes.setdefault("basis", "grammar")
                return attributes
        return None
