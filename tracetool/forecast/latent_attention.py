"""Multi-head latent attention: a token keeps one latent vector for all heads (DeepSeek-V2, 2024, 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.forecast.operator_rows import Row, elementwise, gemm, operator
from tracetool.forecast.parts import Part, divided
from tracetool.forecast.passes import Parallel, Step

_MLA: Final = "mla"


@dataclass(frozen=True)
class LatentAttention(Part):
    """Latent attention: expanded for prompts, absorbed into queries and outputs for decoded tokens.

    Parameters
    ----------
    heads : int
        Query heads.
    lora : int
        Numbers of a token's latent vector.
    rope, nope, value : int
        Numbers of a head: rotated, not rotated, of a value.
    dtype : str
        Number format of the expansion's weights; the absorbed copies have 16 bits.
    kv_dtype : str
        Number format of the cache.
    """

    heads: int
    lora: int
    rope: int
    nope: int
    value: int
    dtype: str = "bf16"
    kv_dtype: str = "bf16"

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide the heads."""
        if self.heads % parallel.tp:
            raise BadInput(f"num_attention_heads: {self.heads} heads are not divisible by tp={parallel.tp}")

    def rows(self, step: Step) -> list[Row]:
        """Return rotation, cache write, and the two forms with their products."""
        heads = divided(self.heads, step.parallel.tp)
        writes = BYTES[self.kv_dtype] / BYTES[step.dtype]
        rows = [
            elementwise(f"{self.name}.rotary", step.dtype, step.tokens * (heads + 1) * self.rope),
            elementwise(
                f"{self.name}.cache", step.dtype, step.tokens * (self.lora + self.rope), writes=writes
            ),
        ]
        return [*rows, *self._prompts(step, heads), *self._decoded(step, heads)]

    def _prompts(self, step: Step, heads: int) -> list[Row]:
        forward, parallel = step.forward, step.parallel
        batch = step.prefill_requests
        if not batch:
            return []
        keys = max(forward.prefill_context, forward.prefill_tokens)
        q_len = max(forward.prefill_tokens / parallel.cp, 1.0)
        expanded = heads * (self.nope + self.value)
        return [
            gemm(f"{self.name}.kv_b_proj", self.dtype, batch * keys, expanded, self.lora),
            self._row("prefill", batch, heads, step.dtype, q_len, max(keys, q_len)),
        ]

    def _decoded(self, step: Step, heads: int) -> list[Row]:
        batch = step.decode_requests
        if not batch:
            return []
        keys = max(step.forward.decode_context / step.parallel.cp, 1.0)
        return [
            gemm(f"{self.name}.absorb_keys", step.dtype, batch, self.lora, self.nope, heads),
            self._row("decode", batch, heads, step.dtype, 1.0, keys),
            gemm(f"{self.name}.absorb_values", step.dtype, batch, self.value, self.lora, heads),
        ]

    def _row(self, phase: str, batch: float, heads: int, dtype: str, q_len: float, kv_len: float) -> Row:
        row = operator(
            _MLA, self.name, phase=phase, dtype=dtype, kv_dtype=self.kv_dtype, batch=max(batch, 1.0),
            q_len=q_len, kv_len=float(kv_len), heads=float(heads), kv_lora_rank=float(self.lora),
            rope_dim=float(self.rope), nope_dim=float(self.nope), v_dim=float(self.value),
        )  # fmt: skip
        row["count"] = min(batch, 1.0)
        return row

    @property
    def parameters(self) -> float:
        """Weights of the expansion."""
        return float(self.heads * (self.nope + self.value) * self.lora)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of the expansion and of the copies decode absorbs. [B]"""
        return self.parameters / parallel.tp * (BYTES[self.dtype] + 2.0)

    @property
    def cache_dtype(self) -> str:
        """Number format of the latent vectors it keeps."""
        return self.kv_dtype

    def with_cache(self, dtype: str) -> LatentAttention:
        """Return the part with the latent vectors it keeps in a number format."""
        return replace(self, kv_dtype=dtype)

    def kv_bytes(self, parallel: Parallel) -> float:
        """Return bytes of a token's latent vector, whole on every GPU. [B]"""
        return (self.lora + self.rope) * BYTES[self.kv_dtype] / parallel.cp
