"""Attention over the keys and values a request keeps, as a part of a layer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast.operator_rows import Row, elementwise, operator
from tracetool.forecast.parts import Part, divided
from tracetool.forecast.passes import Parallel, Step


@dataclass(frozen=True)
class Attention(Part):
    """Attention over the keys and values a request keeps: rotation, cache, softmax(QK)V.

    Parameters
    ----------
    heads, kv_heads, head_dim : int
        Query heads, key and value heads, and the size of each.
    window : int
        Keys a query sees before itself; 0 for all.
    chunk : int
        Length of the pieces a sequence is cut into, each attended alone; 0 for none.
    rotated : int
        Numbers of a head that rotary positions turn; 0 for other kinds of positions.
    kv_dtype : str
        Number format of the cache.
    causal : bool
        Whether a query sees no later keys.
    sinks : bool
        Whether each head has a learned weight for seeing nothing.
    cached : bool
        Whether keys and values are kept for later passes.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int = 0
    chunk: int = 0
    rotated: int = 1
    kv_dtype: str = "bf16"
    causal: bool = True
    sinks: bool = False
    cached: bool = True
    fields: tuple[str, str] = field(default=("num_attention_heads", "num_key_value_heads"))

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide the heads."""
        tp = parallel.tp
        if self.heads % tp:
            raise BadInput(f"{self.fields[0]}: {self.heads} heads are not divisible by tp={tp}")
        if self.kv_heads % tp and tp % self.kv_heads:
            raise BadInput(
                f"{self.fields[1]}: {self.kv_heads} heads of keys neither divide by tp={tp} nor divide it"
            )

    def rows(self, step: Step) -> list[Row]:
        """Return rotation, cache write, and attention of prompts and of decoded tokens."""
        heads, kv_heads = divided(self.heads, step.parallel.tp), divided(self.kv_heads, step.parallel.tp)
        rows = []
        if self.rotated:
            turned = step.tokens * (heads + kv_heads) * self.head_dim
            rows.append(elementwise(f"{self.name}.rotary", step.dtype, turned))
        if self.cached:
            kv = step.tokens * 2.0 * kv_heads * self.head_dim
            writes = BYTES[self.kv_dtype] / BYTES[step.dtype]
            rows.append(elementwise(f"{self.name}.cache", step.dtype, kv, writes=writes))
        shape = {"heads": float(heads), "kv_heads": float(kv_heads), "head_dim": float(self.head_dim)}
        return [*rows, *self._attention(step, shape)]

    def _attention(self, step: Step, shape: dict[str, float]) -> list[Row]:
        forward, parallel = step.forward, step.parallel
        formats: dict[str, float | str] = {"dtype": step.dtype, "kv_dtype": self.kv_dtype}
        rows = []
        if forward.prefill_requests:
            q_len = forward.prefill_tokens / parallel.cp
            keys = float(max(forward.prefill_context, forward.prefill_tokens))
            pieces = max(q_len / self.chunk, 1.0) if self.chunk else 1.0
            if self.chunk:
                q_len, keys = min(q_len, self.chunk), min(keys, self.chunk)
            rows.append(
                self._row(
                    step.prefill_requests * pieces, "prefill",
                    {**formats, **shape, "q_len": max(q_len, 1.0), "kv_len": max(keys, q_len, 1.0)},
                )
            )  # fmt: skip
        if forward.decode_requests:
            keys = forward.decode_context / parallel.cp
            if self.chunk and keys > self.chunk:  # places in the last chunk are equally likely
                keys = self.chunk / 2.0
            rows.append(
                self._row(
                    step.decode_requests, "decode",
                    {**formats, **shape, "q_len": 1.0, "kv_len": max(keys, 1.0)},
                )
            )  # fmt: skip
        return rows

    def _row(self, batch: float, phase: str, columns: dict[str, float | str]) -> Row:
        if self.window:
            columns["window"] = float(self.window)
        columns["causal"] = float(self.causal)
        row = operator(names.ATTENTION, self.name, phase=phase, batch=max(batch, 1.0), **columns)
        row["count"] = min(batch, 1.0)  # less than one request a pass: some passes have one
        return row

    @property
    def parameters(self) -> float:
        """Learned weights of sinks."""
        return float(self.heads) if self.sinks else 0.0

    @property
    def cache_dtype(self) -> str:
        """Number format of the keys and values it keeps; empty where it keeps none."""
        return self.kv_dtype if self.cached else ""

    def with_cache(self, dtype: str) -> Attention:
        """Return the part with the keys and values it keeps in a number format."""
        return replace(self, kv_dtype=dtype) if self.cached else self

    def kv_bytes(self, parallel: Parallel) -> float:
        """Return bytes of keys and values of a token; none where a window bounds them. [B]

        Keys before the present chunk are kept: servers leave out no blocks of chunked layers (vLLM 0.11,
        ``VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE``).
        """
        return 0.0 if self.window or not self.cached else self._token_bytes(parallel)

    def state_bytes(self, parallel: Parallel) -> float:
        """Return bytes of the keys and values a window holds. [B]"""
        return self.window * self._token_bytes(parallel)

    def _token_bytes(self, parallel: Parallel) -> float:
        kv_heads = divided(self.kv_heads, parallel.tp)
        return 2.0 * kv_heads * self.head_dim * BYTES[self.kv_dtype] / parallel.cp
