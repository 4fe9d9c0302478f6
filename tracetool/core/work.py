"""Work: counts that no clock changes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Numbers


@dataclass(frozen=True)
class Work:
    """Counts of operations and bytes per launch, each an array of shape (n,).

    ``tensor_flops`` and the other pipe counts are *issued* (padding included);
    ``useful_flops`` is what the mathematics needs, over all pipes. FMA counts 2.
    """

    useful_flops: Floats  # [FLOP]
    tensor_flops: Floats  # issued on tensor (matrix) cores, in the row's dtype [FLOP]
    tensor_fp8_flops: Floats  # of those, the ones in FP8 though the row's dtype is wider [FLOP]
    fp32_flops: Floats  # FP32 pipe, bf16 included, and fp16 by the lanes it takes: half where packed [FLOP]
    fp64_flops: Floats  # [FLOP]
    int_ops: Floats  # [op]
    sfu_ops: Floats  # exponentials, reciprocals, square roots [op]
    instructions: Floats  # of a thread, of whichever pipe, that no count above holds [1]
    shared_bytes: Floats  # shared memory / LDS reads and writes [B]
    l2_bytes: Floats  # between L2 and the SMs [B]
    dram_bytes: Floats  # [B]
    link_bytes: Floats  # NVLink, xGMI or PCIe [B]

    @classmethod
    def of(cls, n: int, **counts: Numbers | float) -> Work:
        """Return work of ``n`` rows from the counts given; the others are zero."""
        count_names = {f.name for f in fields(cls)}
        if unknown := set(counts) - count_names:
            raise TypeError(f"not counts of work: {sorted(unknown)}")
        filled = {name: np.zeros(n) for name in count_names}
        for name, count in counts.items():
            filled[name][:] = count
        return cls(**filled)

    def put(self, rows: Numbers, counts: Work) -> None:
        """Write the counts of ``counts`` into the chosen rows, in place."""
        for f in fields(self):
            getattr(self, f.name)[rows] = getattr(counts, f.name)

    def where(self, rows: Bools, other: Work) -> Work:
        """Return these counts with the chosen rows taken from ``other``."""
        return Work(
            **{f.name: np.where(rows, getattr(other, f.name), getattr(self, f.name)) for f in fields(self)}
        )

    def plus(self, other: Work) -> Work:
        """Return the counts of both together."""
        return Work(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def take(self, rows: Numbers | slice) -> Work:
        """Return the chosen rows (mask or indices)."""
        return Work(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})
