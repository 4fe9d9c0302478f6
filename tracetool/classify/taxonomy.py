"""The closed list of families: what each does structurally, with one example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Family:
    """One family: its name, one line on what it does, and a kernel that belongs to it."""

    name: str
    meaning: str
    example: str


FAMILIES: Final = (
    Family("gemm", "matrix product, tiled", "ampere_sgemm_128x64_tn"),
    Family("gemv", "matrix times vector: the matrix is streamed once", "gemv2T_kernel_val"),
    Family("conv", "convolution: implicit product, Winograd or Fourier", "sm80_xmma_fprop_implicit_gemm_..."),
    Family("attention", "fused softmax(QK)V, forward or backward, or part of it", "flash_fwd_kernel"),
    Family("moe", "mixture of experts: grouped products and routing", "fused_moe_kernel"),
    Family("norm", "layer, batch, group or RMS normalisation", "vectorized_layer_norm_kernel"),
    Family("softmax", "softmax over rows", "softmax_warp_forward"),
    Family("elementwise", "one result per element", "vectorized_elementwise_kernel"),
    Family("copy", "cat, transpose, cast, pad, fill", "CatArrayBatchedCopy"),
    Family("reduction", "many elements to few", "reduce_kernel"),
    Family(
        "gather_scatter", "indexed reads or writes: embedding, index, cache write", "indexSelectLargeIndex"
    ),
    Family("sort", "sort, top-k, selection", "DeviceRadixSortOnesweepKernel"),
    Family("scan", "prefix sum", "DeviceScanKernel"),
    Family("pooling", "pooling and resampling", "max_pool_forward_nchw"),
    Family("rng", "random numbers, dropout", "distribution_elementwise_grid_stride_kernel"),
    Family("optimizer", "weight update over many tensors in one launch", "multi_tensor_apply_kernel"),
    Family("quantize", "number format with scales, either way", "scaled_fp8_quant_kernel"),
    Family("rope", "rotary position embedding", "rotary_embedding_kernel"),
    Family("sampling", "choice of the next token", "TopPSamplingFromProbKernel"),
    Family("ssm", "state-space scan, recurrent cells", "selective_scan_fwd_kernel"),
    Family("collective", "communication between GPUs", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    Family("fft", "Fourier transform", "regular_fft"),
    Family("sparse", "sparse matrices", "csrmv_v3_kernel"),
    Family("stencil", "neighbourhood update on a grid", "jacobi_kernel"),
    Family("splitk_reduce", "sums the parts of a product whose K was split", "splitKreduce_kernel"),
    Family("other", "known, but none of these: losses, linear algebra, runtime helpers", "nll_loss_forward"),
    Family("unknown", "no rule knows the name", "-"),
)

NAMES: Final = frozenset(f.name for f in FAMILIES)
