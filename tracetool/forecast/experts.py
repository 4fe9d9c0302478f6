"""Mixtures of experts: router, exchange of tokens, and the experts' products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast.operator_rows import Row, collective, gemm, operator, softmax
from tracetool.forecast.parts import AllReduce, Part, quantized
from tracetool.forecast.passes import Parallel, Step

#: How unevenly experts are chosen: power laws NVIDIA's aiconfigurator measures and forecasts experts with.
UNEVEN: Final = "power_law_1.2"
NEARLY_EVEN: Final = "power_law_1.01"


@dataclass(frozen=True)
class Experts(Part):
    """Experts, ``top_k`` for each token, their router, and what GPUs exchange for them.

    Parameters
    ----------
    hidden, intermediate : int
        Numbers of a token, and columns of one expert's gate.
    experts, top_k : int
        Experts, and those a token is routed to.
    dtype : str
        Number format of the experts; the router's is 16 bits.
    bias : bool
        Whether router and experts have biases.
    clamped : bool
        Whether what enters the activation function is held within limits.
    correction : bool
        Whether the router keeps an offset of each expert for balance.
    distribution : str
        How unevenly experts are chosen.
    fields : tuple of str
        Fields of the configuration: of the experts' number and of their intermediate size.
    """

    hidden: int
    intermediate: int
    experts: int
    top_k: int
    dtype: str = "bf16"
    bias: bool = False
    clamped: bool = False
    correction: bool = False
    distribution: str = UNEVEN
    fields: tuple[str, str] = ("num_experts", "moe_intermediate_size")

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where the experts, or their columns, are not divided."""
        if self.experts % parallel.ep:
            raise BadInput(f"{self.fields[0]}: {self.experts} experts are not divisible by ep={parallel.ep}")
        if self.intermediate % parallel.expert_tp:
            raise BadInput(
                f"{self.fields[1]}: {self.intermediate} is not divisible by the {parallel.expert_tp} GPUs "
                "that share an expert",
                "divide the experts instead: ep = tp x dp",
            )

    def rows(self, step: Step) -> list[Row]:
        """Return router, choice, exchange between attention replicas, products, and the sum over GPUs.

        Attention replicas gather all their tokens and scatter the sums (vLLM 0.11's default,
        ``allgather_reducescatter``); without replicas every GPU holds all tokens and their sums are reduced.
        """
        parallel, tokens = step.parallel, step.all_tokens
        message = tokens * self.hidden * BYTES[step.dtype]
        shared = parallel.dp > 1
        rows = [
            gemm(f"{self.name}.router", step.dtype, step.tokens, self.experts, self.hidden),
            softmax(f"{self.name}.top_k", "fp32", step.tokens, self.experts),
        ]
        if shared:
            rows.append(collective(f"{self.name}.dispatch", "all_gather", message, parallel.dp))
        rows += quantized(self.name, self.dtype, tokens * self.hidden)
        rows.append(
            operator(
                names.MOE, self.name, dtype=self.dtype, tokens=max(tokens, 1.0), hidden=float(self.hidden),
                intermediate=float(self.intermediate), top_k=float(self.top_k), experts=float(self.experts),
                tp=float(parallel.expert_tp), ep=float(parallel.ep), distribution=self.distribution,
            )
        )  # fmt: skip
        if shared:
            rows.append(collective(f"{self.name}.combine", "reduce_scatter", message, parallel.dp))
        return [*rows, *AllReduce(self.name, self.hidden).rows(step)]

    def _one(self, intermediate: float) -> float:
        return 3.0 * self.hidden * intermediate

    @property
    def _router(self) -> float:
        offsets = float(self.experts) if self.bias or self.correction else 0.0
        return float(self.hidden) * self.experts + offsets

    @property
    def _biases(self) -> float:
        return 2.0 * self.intermediate + self.hidden if self.bias else 0.0

    @property
    def parameters(self) -> float:
        """Weights of all experts and of the router."""
        return self.experts * (self._one(self.intermediate) + self._biases) + self._router

    @property
    def active(self) -> float:
        """Weights of the experts a token is routed to, and of the router."""
        return self.top_k * (self._one(self.intermediate) + self._biases) + self._router

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of the experts on one GPU. [B]"""
        local = math.ceil(self.experts / parallel.ep)
        each = self._one(self.intermediate / parallel.expert_tp) * BYTES[self.dtype] + 2.0 * self._biases
        return local * each + 2.0 * self._router
