"""Parts of layers: operators with their weights, as one GPU of a replica runs them.

A layer is a short tuple of parts. A part states its rows of the operator table for a pass, its weights, and
what it keeps of a request. Rows are those of vLLM with ``torch.compile``: projections of one input are one
product, the residual is added inside the norm that follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.forecast.operator_rows import Row, collective, elementwise, gemm, norm
from tracetool.forecast.passes import Parallel, Step


def divided(units: int, gpus: int) -> int:
    """Return how many of some units one of several GPUs holds; fewer units than GPUs are repeated."""
    return max(math.ceil(units / gpus), 1)


@dataclass(frozen=True)
class Part:
    """One operator of a layer; ``name`` is its module inside the layer."""

    name: str

    def rows(self, step: Step) -> list[Row]:
        """Return the rows one GPU runs for a pass."""
        raise NotImplementedError

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput, naming the field, where the division does not fit."""

    @property
    def parameters(self) -> float:
        """Weights of the whole part."""
        return 0.0

    @property
    def active(self) -> float:
        """Weights that one token uses."""
        return self.parameters

    def weight_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes of weights on one GPU. [B]"""
        return 0.0

    def kv_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes one GPU keeps for each token of a request. [B]"""
        return 0.0

    @property
    def cache_dtype(self) -> str:
        """Number format of the keys and values it keeps; empty where it keeps none."""
        return ""

    def with_cache(self, dtype: str) -> Part:  # noqa: ARG002
        """Return the part with the keys and values it keeps in a number format."""
        return self

    def state_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes one GPU keeps for each request, however long it is. [B]"""
        return 0.0


@dataclass(frozen=True)
class Linear(Part):
    """A matrix product with weights.

    Parameters
    ----------
    inputs : int
        Columns of the input.
    outputs : tuple of (int, int)
        Matrices of one input side by side, each as (units that GPUs divide, size of one unit): heads and
        their size, or columns of size 1.
    split : str
        What tensor parallelism divides: ``outputs``, ``inputs`` or nothing.
    dtype : str
        Number format of the product.
    bias : bool
        Whether it adds a bias.
    tied : bool
        Whether the weights are another part's: the embedding's.
    sampled : bool
        Whether it runs over the rows that are sampled instead of all tokens.
    field : str
        Field of the configuration that tensor parallelism must divide.
    """

    inputs: int
    outputs: tuple[tuple[int, int], ...]
    split: Literal["", "outputs", "inputs"] = ""
    dtype: str = "bf16"
    bias: bool = False
    tied: bool = False
    sampled: bool = False
    field: str = ""

    def _sizes(self, parallel: Parallel) -> tuple[float, float]:
        tp = parallel.tp
        outputs = sum((divided(u, tp) if self.split == "outputs" else u) * size for u, size in self.outputs)
        return float(outputs), self.inputs / tp if self.split == "inputs" else float(self.inputs)

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide what it splits."""
        units = self.inputs if self.split == "inputs" else self.outputs[0][0]
        if self.split and self.field and units % parallel.tp:
            raise BadInput(f"{self.field}: {units} is not divisible by tp={parallel.tp}")

    def rows(self, step: Step) -> list[Row]:
        """Return the product, and before one of 8-bit blocks the quantization of its input."""
        outputs, inputs = self._sizes(step.parallel)
        tokens = step.logit_rows if self.sampled else step.tokens
        product = gemm(self.name, self.dtype, tokens, outputs, inputs)
        return [*quantized(self.name, self.dtype, tokens * inputs), product]

    @property
    def parameters(self) -> float:
        """Weights and biases; none where they are another part's."""
        if self.tied:
            return 0.0
        outputs = float(sum(u * size for u, size in self.outputs))
        return outputs * self.inputs + (outputs if self.bias else 0.0)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of its weights on one GPU; a stage without the embedding needs a copy of it. [B]"""
        if self.tied and parallel.pp == 1:
            return 0.0
        outputs, inputs = self._sizes(parallel)
        return outputs * inputs * BYTES[self.dtype] + (2.0 * outputs if self.bias else 0.0)


def quantized(module: str, dtype: str, elements: float) -> list[Row]:
    """Return the kernel that quantizes a product's input, where a library runs one of its own.

    Scales of blocks of 128 need one; scales of whole rows are computed in the kernel before, which
    ``torch.compile`` fuses (vLLM 0.11, ``compilation/fusion.py``).
    """
    if dtype != "fp8_block":
        return []
    return [elementwise(f"{module}.quantize", "bf16", elements, reads=1.0, writes=0.5)]


@dataclass(frozen=True)
class Norm(Part):
    """A normalization of each token's numbers, or of each head's.

    Parameters
    ----------
    cols : int
        Numbers normalized together.
    heads : tuple of int
        Heads of each tensor that is normalized, for a norm over heads; empty for one row a token.
    residual : bool
        Whether the residual is added in the same kernel: two tensors read, two written.
    bias : bool
        Whether it has an offset besides its scale.
    sampled : bool
        Whether it runs over the rows that are sampled.
    scaled : bool
        Whether it has a scale.
    """

    cols: int
    heads: tuple[int, ...] = ()
    residual: bool = False
    bias: bool = False
    sampled: bool = False
    scaled: bool = True

    def rows(self, step: Step) -> list[Row]:
        """Return the norm of the tokens."""
        per_token = sum(divided(h, step.parallel.tp) for h in self.heads) if self.heads else 1
        tensors = 2.0 if self.residual else 1.0
        tokens = step.logit_rows if self.sampled else step.tokens
        kind = ("layer_norm" if self.bias else "rms_norm") + ("+add" if self.residual else "")
        return [norm(self.name, step.dtype, tokens * per_token, self.cols, tensors, tensors, kind)]

    @property
    def parameters(self) -> float:
        """Scales, and offsets where it has them."""
        return float(self.cols * max(len(self.heads), 1) * (int(self.scaled) + int(self.bias)))

    def weight_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes of its scales. [B]"""
        return 2.0 * self.parameters


@dataclass(frozen=True)
class Elementwise(Part):
    """A pass over each token's numbers: an activation, a residual, a rotation.

    Parameters
    ----------
    width : int
        Numbers of each token.
    reads, writes : float
        Tensors of that size it reads and writes.
    split : bool
        Whether tensor parallelism divides the numbers.
    kind : str
        What it computes, as in operator tables.
    """

    width: int
    reads: float = 1.0
    writes: float = 1.0
    split: bool = True
    kind: str = ""

    def rows(self, step: Step) -> list[Row]:
        """Return the pass."""
        width = self.width / step.parallel.tp if self.split else float(self.width)
        return [elementwise(self.name, step.dtype, step.tokens * width, self.reads, self.writes, self.kind)]


@dataclass(frozen=True)
class Embedding(Part):
    """A table that gives each token its numbers; tensor parallelism divides its rows."""

    vocabulary: int
    width: int
    split: bool = True

    def rows(self, step: Step) -> list[Row]:
        """Return the gather, and the sum over GPUs that hold other tokens' rows."""
        gather = elementwise(self.name, step.dtype, step.tokens * self.width)
        return [gather, *(AllReduce(self.name, self.width).rows(step) if self.split else [])]

    @property
    def parameters(self) -> float:
        """Number of weights: rows times width."""
        return float(self.vocabulary) * self.width

    @property
    def active(self) -> float:
        """All of them: counts of active weights include the table."""
        return self.parameters

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of its rows on one GPU. [B]"""
        return 2.0 * divided(self.vocabulary, parallel.tp if self.split else 1) * self.width


@dataclass(frozen=True)
class AllReduce(Part):
    """The sum of what tensor-parallel GPUs each computed of ``width`` numbers a token."""

    width: int

    def rows(self, step: Step) -> list[Row]:
        """Return the collective; none on one GPU."""
        if step.parallel.tp == 1:
            return []
        message = step.tokens * self.width * BYTES[step.dtype]
        return [collective(f"{self.name}.all_reduce", "all_reduce", message, step.parallel.tp)]
