"""Mamba-2 layers: each kernel its launch and first load, then tensor cores, pipes or memory.

The page is docs/families/streams.md; counts are those of ``mamba2.py``.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.ssm.mamba2 import is_mamba2, layers, mamba2_work
from tracetool.families.streamed import vector_cycles
from tracetool.hardware.gpu import Gpu

#: Tokens a block of the convolution takes at once, 128 threads with 8 each, and blocks of 128 threads an SM
#: of 2048 threads holds [1]. By definition of Dao-AILab/causal-conv1d, csrc/causal_conv1d_fwd.cu.
STEP_TOKENS, RESIDENT_BLOCKS = 1024.0, 16.0


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = layers(rows)
    work = mamba2_work(of)
    n = len(rows)
    rate = product_rate(dtype_of(rows, "bf16"), gpu)
    # the convolution of sequences gives each channel a block, which takes its tokens in steps
    steps = of.sequences * of.mixed * np.ceil(of.tokens / of.sequences / STEP_TOKENS)
    waits = np.where(of.update, 0.0, steps * c["latency_clk"] / (RESIDENT_BLOCKS * gpu.sm_count))
    products = work.tensor_flops / (rate * gpu.sm_count * c["tensor_efficiency"])
    return Pieces(
        fixed_s=of.kernels * c["launch_us"] * 1e-6,
        serial_cycles=of.kernels * c["latency_clk"],
        stream_s=np.zeros(n),
        core_cycles=products + vector_cycles(work, gpu) + waits,
        memory_s=work.dram_bytes / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.clip(of.sequences * of.heads / gpu.sm_count, 0.0, 1.0),
        work=work,
    )


MAMBA2 = Law("mamba2", _parts, read_coefficients(__package__)["mamba2"], spread=(-0.9, 0.9))
LAWS = (MAMBA2,)


def ssm_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return 1 for Mamba-2 layers, 0 for other scans, which stream. Shape (n,)."""
    del gpu
    return is_mamba2(rows).astype(np.int64)
