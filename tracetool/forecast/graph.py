"""Operators of a model that runs kernel by kernel, written in the order it calls them.

Encoders, vision models and diffusion pipelines run as their modules are written: a graph adds a row and the
weights of each call. The same calls give the operators of a pass and the count of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast import operator_rows as table
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.pipeline_output import SequenceRanks


@dataclass
class Graph:
    """Rows and weights of the calls so far.

    Parameters
    ----------
    dtype : str
        Number format of activations and weights.
    ranks : SequenceRanks
        GPUs that share tokens; sizes given to the methods are those of the whole batch.
    """

    dtype: str = "bf16"
    ranks: SequenceRanks = field(default_factory=SequenceRanks)
    rows: list[Row] = field(default_factory=list)
    parameters: float = 0.0
    _count: float = 1.0
    _copies: float = 1.0

    @contextmanager
    def repeat(self, count: float, *, shared: bool = False) -> Iterator[None]:
        """Run what is inside ``count`` times; with one set of weights where ``shared``."""
        before = self._count, self._copies
        self._count, self._copies = self._count * count, self._copies * (1.0 if shared else count)
        try:
            yield
        finally:
            self._count, self._copies = before

    def weights(self, count: float) -> None:
        """Count weights that no product reads."""
        self.parameters += count * self._copies

    def add(self, row: Row, count: float = 1.0) -> None:
        """Add a row."""
        row["count"] = count * self._count
        self.rows.append(row)

    def linear(
        self, name: str, tokens: float, inputs: int, outputs: int, *, bias: bool = True, whole: bool = False
    ) -> None:
        """Add a product with weights; ``whole``: tokens are not shared among GPUs."""
        self.parameters += (float(inputs) * outputs + (outputs if bias else 0)) * self._copies
        self.add(table.gemm(name, self.dtype, tokens / (1 if whole else self.ranks.gpus), outputs, inputs))

    def product(self, name: str, batch: float, m: float, n: float, k: float) -> None:
        """Add products without weights."""
        self.add(table.gemm(name, self.dtype, m, n, k, max(batch, 1.0)))

    def norm(self, name: str, rows: float, cols: float, *, weights: int = 0, passes: float = 1.0) -> None:
        """Add a norm with so many weights; ``passes``: as many kernels that each read and write it."""
        self.weights(weights)
        self.add(table.norm(name, self.dtype, rows / self.ranks.gpus, cols))
        if passes > 1:
            self.elementwise(f"{name}.passes", rows * cols, count=passes - 1)

    def elementwise(
        self, name: str, elements: float, reads: float = 1.0, writes: float = 1.0, count: float = 1.0,
        dtype: str = "", kind: str = "",
    ) -> None:  # fmt: skip
        """Add ``count`` passes over numbers."""
        share = elements / self.ranks.gpus
        self.add(table.elementwise(name, dtype or self.dtype, share, reads, writes, kind), count)

    def softmax(self, name: str, rows: float, cols: float, dtype: str = "") -> None:
        """Add a softmax."""
        self.add(table.softmax(name, dtype or self.dtype, rows / self.ranks.gpus, cols))

    def attention(
        self, name: str, batch: float, q_len: float, kv_len: float, heads: int, head_dim: int,
        *, causal: bool = False, kv_heads: int = 0, kv_whole: bool = False,
    ) -> None:  # fmt: skip
        """Add fused attention; GPUs that share tokens exchange heads, or pass keys and values on.

        ``kv_whole``: every GPU holds all keys, as those of a text: queries stay where they are.
        """
        ulysses, ring = self.ranks.ulysses, self.ranks.ring
        kv_heads = kv_heads or heads
        if self.ranks.gpus > 1 and not kv_whole:
            if heads % ulysses:
                raise BadInput(f"num_attention_heads: {heads} heads are not divisible by ulysses={ulysses}")
            bytes_per_token_head = batch * head_dim * BYTES[self.dtype] / self.ranks.gpus
            if ulysses > 1:
                for tensor, count in (("queries", q_len * heads), ("out", q_len * heads)):
                    self._exchange(f"{name}.{tensor}", bytes_per_token_head * count, ulysses)
                for tensor in ("keys", "values"):
                    self._exchange(f"{name}.{tensor}", bytes_per_token_head * kv_len * kv_heads, ulysses)
            if ring > 1:
                passed = 2.0 * bytes_per_token_head * kv_len * kv_heads
                self.add(table.collective(f"{name}.ring", "send_recv", passed, ring), ring - 1.0)
            q_len, heads, kv_heads = q_len / ring, heads // ulysses, max(kv_heads // ulysses, 1)
        elif self.ranks.gpus > 1:
            q_len = q_len / self.ranks.gpus
        self.add(
            table.operator(
                names.ATTENTION, name, phase="prefill", dtype=self.dtype, batch=max(batch, 1.0),
                q_len=max(q_len, 1.0), kv_len=max(float(kv_len), 1.0), heads=float(heads),
                kv_heads=float(kv_heads), head_dim=float(head_dim), causal=float(causal),
            )
        )  # fmt: skip

    def _exchange(self, name: str, message: float, ranks: int) -> None:
        self.add(table.collective(name, "all_to_all", message, ranks))

    def conv(
        self,
        name: str,
        batch: float,
        channels: int,
        size: tuple[float, float],
        filters: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        groups: int = 1,
        bias: bool = True,
        taps: int = 1,
        padding: int | None = None,
    ) -> None:
        """Add a convolution over pictures of ``size``; ``taps`` frames deep for one over films.

        A convolution over frames is one over pictures of as many channels more: it multiplies as often.
        """
        weights = float(channels // groups) * filters * kernel * kernel * taps
        self.parameters += (weights + (filters if bias else 0)) * self._copies
        self.add(
            table.operator(
                "conv2d", name, dtype=self.dtype, batch=max(batch, 1.0), channels=float(channels * taps),
                height=max(size[0], 1.0), width=max(size[1], 1.0), filters=float(filters),
                kernel_h=float(kernel), kernel_w=float(kernel), stride=float(stride), groups=float(groups),
                padding=float(kernel // 2 if padding is None else padding),
            )
        )  # fmt: skip
