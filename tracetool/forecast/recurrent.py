"""Layers that keep a state instead of keys: Mamba-2 and the gated delta net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.forecast.operator_rows import Row, norm, operator
from tracetool.forecast.parts import Part, divided
from tracetool.forecast.passes import Parallel, Step

_MAMBA2: Final = "mamba2"
_GDN: Final = "gdn"
#: A number of 16 bits. [B] By definition.
_SIXTEEN_BITS: Final = 2.0


def _phases(step: Step) -> list[tuple[str, float, float]]:
    """Return phase, sequences and tokens of each, for each phase of a pass."""
    phases = [
        ("prefill", step.prefill_requests, step.forward.prefill_tokens / step.parallel.cp),
        ("decode", step.decode_requests, 1.0),
    ]
    return [phase for phase in phases if phase[1]]


def _per_phase(op: str, name: str, step: Step, sizes: dict[str, float]) -> list[Row]:
    rows = []
    for phase, batch, length in _phases(step):
        row = operator(op, name, phase=phase, batch=max(batch, 1.0), seq_len=max(length, 1.0), **sizes)
        row["num_tokens"] = max(batch * length, 1.0)
        row["count"] = min(batch, 1.0)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Mamba2(Part):
    """A Mamba-2 layer between its projections: short convolution and state-space scan.

    Parameters
    ----------
    hidden, heads, head_dim, state, groups, width, chunk : int
        Numbers of a token, heads and their size, numbers of a state, groups of B and C, taps of the
        convolution, tokens of a chunk.
    bias : bool
        Whether the convolution has a bias.
    state_bytes_each : float
        Bytes of a number of the state. [B]
    """

    hidden: int
    heads: int
    head_dim: int
    state: int
    groups: int
    width: int = 4
    chunk: int = 128
    bias: bool = True
    state_bytes_each: float = 4.0

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide the heads."""
        if self.heads % parallel.tp:
            raise BadInput(f"mamba_num_heads: {self.heads} heads are not divisible by tp={parallel.tp}")

    def rows(self, step: Step) -> list[Row]:
        """Return the layer for prompts and for decoded tokens."""
        tp = step.parallel.tp
        sizes = {
            "nheads": float(divided(self.heads, tp)), "head_dim": float(self.head_dim),
            "d_state": float(self.state), "n_groups": float(divided(self.groups, tp)),
            "d_conv": float(self.width), "chunk_size": float(self.chunk), "d_model": float(self.hidden),
        }  # fmt: skip
        state_dtype = "fp32" if self.state_bytes_each > _SIXTEEN_BITS else step.dtype
        return [{**row, "state_dtype": state_dtype} for row in _per_phase(_MAMBA2, self.name, step, sizes)]

    def _channels(self, tp: int) -> int:
        return divided(self.heads, tp) * self.head_dim + 2 * divided(self.groups, tp) * self.state

    @property
    def parameters(self) -> float:
        """Taps and bias of the convolution; A, D and the step's offset of each head."""
        return float(self._channels(1) * (self.width + int(self.bias)) + 3 * self.heads)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of its weights on one GPU. [B]"""
        return 2.0 * self.parameters / parallel.tp

    def state_bytes(self, parallel: Parallel) -> float:
        """Return bytes of a request's state and of the convolution's last tokens. [B]"""
        tp = parallel.tp
        states = divided(self.heads, tp) * self.head_dim * self.state * self.state_bytes_each
        return states + self._channels(tp) * (self.width - 1) * 2.0


@dataclass(frozen=True)
class DeltaNet(Part):
    """A gated delta net between its projections: short convolution and gated delta rule.

    Parameters
    ----------
    hidden, k_heads, k_dim, v_heads, v_dim, width : int
        Numbers of a token; heads of keys and of values and their sizes; taps of the convolution.
    """

    hidden: int
    k_heads: int
    k_dim: int
    v_heads: int
    v_dim: int
    width: int = 4

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide the heads."""
        for field, heads in (
            ("linear_num_key_heads", self.k_heads),
            ("linear_num_value_heads", self.v_heads),
        ):
            if heads % parallel.tp:
                raise BadInput(f"{field}: {heads} heads are not divisible by tp={parallel.tp}")

    def rows(self, step: Step) -> list[Row]:
        """Return the layer for prompts and for decoded tokens."""
        tp = step.parallel.tp
        sizes = {
            "num_k_heads": float(divided(self.k_heads, tp)), "head_k_dim": float(self.k_dim),
            "num_v_heads": float(divided(self.v_heads, tp)), "head_v_dim": float(self.v_dim),
            "d_conv": float(self.width), "d_model": float(self.hidden),
        }  # fmt: skip
        return _per_phase(_GDN, self.name, step, sizes)

    @property
    def _channels(self) -> int:
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim

    @property
    def parameters(self) -> float:
        """Taps of the convolution; decay and step offset of each value head."""
        return float(self._channels * self.width + 2 * self.v_heads)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of its weights on one GPU. [B]"""
        return 2.0 * self.parameters / parallel.tp

    def state_bytes(self, parallel: Parallel) -> float:
        """Return bytes of a request's states in fp32 and of the convolution's last tokens. [B]"""
        states = self.v_heads * self.k_dim * self.v_dim * 4.0
        return (states + self._channels * (self.width - 1) * 2.0) / parallel.tp


@dataclass(frozen=True)
class GatedNorm(Part):
    """A norm over parts of each token's numbers, multiplied by a gate in the same kernel.

    ``groups`` parts of ``cols`` numbers; ``shared``: whether all parts have one scale.
    """

    cols: int
    groups: int
    shared: bool = False

    def rows(self, step: Step) -> list[Row]:
        """Return the norm."""
        lines = step.tokens * divided(self.groups, step.parallel.tp)
        return [norm(self.name, step.dtype, lines, self.cols, reads=2.0)]

    @property
    def parameters(self) -> float:
        """Number of scales."""
        return float(self.cols * (1 if self.shared else self.groups))

    def weight_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes of its scales. [B]"""
        return 2.0 * self.parameters
