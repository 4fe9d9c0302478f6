"""Sizes of tiles that libraries' kernels of prefill attention take, by head, format and chip."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.families.attention.problem import Scores
from tracetool.families.law import Coefficients
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu

#: Keys of a tile where a library does not size its tiles by head. [tokens] Fits with 64 and 128 to choose
#: from change the mean error on four GPUs by less than 0.1 points of MAPE (docs/families/prefill.md).
KEY_TILE = 64.0
#: Head dimensions are padded to a multiple of this: the depth of one matrix instruction in 16 bits.
#: [elements] By definition of NVIDIA's ``mma`` and ``wgmma`` instructions.
HEAD_STEP = 16.0
#: Head dimensions FlashAttention's kernels are compiled for. [elements] By definition of
#: Dao-AILab/flash-attention, ``hopper/tile_size.h`` and ``csrc/flash_attn/src/static_switch.h``.
KERNEL_DIMS = (32.0, 64.0, 96.0, 128.0, 192.0, 256.0)

#: Values of ``by_head``: whose kernels size their tiles. [1] By definition here.
FLASH_3, SGLANG_TRITON, VLLM_TRITON, TRTLLM_WARPS, FLASHINFER = 1.0, 2.0, 3.0, 4.0, 5.0
#: The one that is SGLang's Triton kernel without a cache, and kernels that keep results in tensor memory.
#: [1] By definition here.
SGLANG_ENCODER, TENSOR_TILES = 6.0, 7.0
#: Queries of a tile in tensor memory, one to a lane, which beside its results holds the scores of as many
#: keys, each a word of 4 bytes; and the tiles a block takes at once where two fit. [rows], [B], [tiles] By
#: definition of NVIDIA's PTX ISA, ``tcgen05``, and of Dao-AILab/flash-attention,
#: ``flash_attn/cute/flash_fwd_sm100.py`` (``q_stage``, ``tmem_total``).
TENSOR_ROWS, _WORD_BYTES, _AT_ONCE = 128.0, 4.0, 2.0
#: Values of a head that a block in tensor memory computes; of a larger head several blocks take a part each.
#: [elements] By definition of flashinfer-ai/flashinfer, ``include/flashinfer/trtllm/fmha/fmhaKernels.cuh``
#: (``mHeadDimPerCtaV``).
_VALUES = 256.0
#: Queries and keys of a tile of SGLang's Triton kernel for heads to 128, to 256, and above, by the first
#: figure of the compute capability. [tokens] By definition of sgl-project/sglang,
#: ``layers/attention/triton_ops/extend_attention.py``.
_TRITON_TILES = {
    10: ((64.0, 64.0), (64.0, 64.0), (16.0, 64.0)),
    9: ((128.0, 64.0), (64.0, 64.0), (32.0, 64.0)),
    8: ((128.0, 128.0), (64.0, 64.0), (32.0, 64.0)),
}
#: The same on chips of 100 KiB of shared memory. [tokens] By definition of the same file.
_TRITON_SMALL = ((64.0, 128.0), (64.0, 64.0), (32.0, 32.0))
#: The same on chips before. [tokens] By definition of the same file.
_TRITON_OLD = ((64.0, 64.0), (32.0, 32.0), (32.0, 32.0))
#: The same on AMD's, whatever the head. [tokens] By definition of the same file.
_TRITON_AMD = ((64.0, 64.0),) * 3
#: Capability from which Triton's tiles are large, and shared memory of an SM up to which they are small.
#: [1], [B] By definition of the same file: 8.6, 8.9 and 12 have 100 KiB, 8.0 and 9 more.
_TILED, _SMALL_BYTES = 8, 130e3
#: Heads that SGLang's Triton kernel computes scores of in two parts, without padding them to a power of two.
#: [elements] By definition of the same file.
_IN_PARTS = (192.0, 288.0, 576.0)
#: Queries, and as many keys, of a tile of SGLang's Triton kernel for encoders, which have no cache: on chips
#: whose capability begins with more than the third [1], and on others. [tokens] By definition of
#: sgl-project/sglang, ``layers/attention/triton_ops/prefill_attention.py`` (``context_attention_fwd``).
_ENCODER_LARGE, _ENCODER_TILE, _ENCODER_BEYOND = 128.0, 64.0, 8
#: Rows of queries and heads, and keys, of a tile of vLLM's Triton kernel. [tokens] By definition of
#: vllm-project/vllm, ``v1/attention/ops/triton_unified_attention.py``.
_UNIFIED_ROWS, _UNIFIED_KEYS = 16.0, 32.0
#: Queries and keys of a tile of TensorRT-LLM's kernels of single warps, by the largest head: those of 16 bits
#: that keep a row of a head in registers, those that take it in parts, and those of FP8. [elements], [tokens]
#: By definition of NVIDIA/TensorRT-LLM, ``cpp/kernels/fmha_v2/setup.py``
#: (``enumerate_hmma_flash_kernels_base``, ``enumerate_qmma_flash_kernels``).
_WARPS_WHOLE = ((32.0, 64.0, 64.0), (128.0, 64.0, 32.0), (np.inf, 64.0, 16.0))
_WARPS_PARTS = ((64.0, 128.0, 128.0), (256.0, 64.0, 128.0), (np.inf, 64.0, 64.0))
_WARPS_FP8 = ((64.0, 128.0, 128.0), (np.inf, 64.0, 32.0))
#: Keys up to which a head is not taken in parts, and heads from which it is where shared memory is small.
#: [tokens], [elements] By definition of ``contextFusedMultiHeadAttention/fmhaRunner.cpp`` there
#: (``granular_tiling``).
_FEW_KEYS, _WIDE_HEADS = 64.0, 256.0
#: Rows of queries and heads for which FlashInfer's four warps take keys apart. [1] By definition of
#: flashinfer-ai/flashinfer, ``include/flashinfer/utils.cuh`` (``FA2DetermineCtaTileQ``) and
#: ``attention/prefill.cuh`` (``NUM_MMA_KV``).
_FLASHINFER_FEW = 16.0
#: Keys of a tile of FlashAttention 2 where keys are split, by the largest head. [elements], [tokens] By
#: definition of Dao-AILab/flash-attention, ``csrc/flash_attn/src/flash_fwd_launch_template.h``
#: (``run_mha_fwd_splitkv_dispatch``).
_SPLIT_KEYS = ((64.0, 256.0), (128.0, 128.0), (np.inf, 64.0))


def split_keys_of_tile(s: Scores, gpu: Gpu, rows: float) -> Floats:
    """Return the keys of a decode tile by its number of query rows. Shape (n,). [tokens]"""
    if rows <= _FLASHINFER_FEW:
        return _flashinfer_keys(s, gpu, np.full(len(s.batch), rows))
    return _sized(s.head_dim, _SPLIT_KEYS)[:, 0]


def tile_sizes(s: Scores, gpu: Gpu, c: Coefficients) -> tuple[Floats, Floats]:
    """Return queries and keys of a tile: one size, or as a library sizes them. Shape (n,). [tokens]"""
    ones, whose = np.ones(len(s.batch)), c["by_head"]
    if whose == SGLANG_TRITON:
        return _sglang_triton(s, gpu)
    if whose == VLLM_TRITON:
        group = np.ceil(s.heads / s.kv_heads)
        rows = np.maximum(np.exp2(np.ceil(np.log2(group))), _UNIFIED_ROWS)
        return rows, _UNIFIED_KEYS * ones
    if whose == SGLANG_ENCODER:
        size = _encoder_tile(gpu) * ones
        return size, size
    if whose == FLASH_3:
        return _flash_3(s)
    if whose == TRTLLM_WARPS:
        return _trtllm_warps(s, gpu)
    if whose == FLASHINFER:
        return _flashinfer(s, gpu)
    if whose == TENSOR_TILES:
        return _tensor_tiles(s, gpu), np.where(s.causal, TENSOR_ROWS, KEY_TILE)
    return c["query_tile"] * ones, KEY_TILE * ones


def _sglang_triton(s: Scores, gpu: Gpu) -> tuple[Floats, Floats]:
    """Return the sizes of Triton's kernel in SGLang, which keeps them small where shared memory is."""
    if gpu.vendor == "amd":
        sizes = np.array(_TRITON_AMD)
    elif (first := capability(gpu)) < _TILED:
        sizes = np.array(_TRITON_OLD)
    elif gpu.shared_bytes_per_sm <= _SMALL_BYTES:
        sizes = np.array(_TRITON_SMALL)
    else:
        sizes = np.array(_TRITON_TILES[min(first, max(_TRITON_TILES))])
    kind = np.where(s.head_dim <= 128, 0, np.where(s.head_dim <= 256, 1, 2))
    return sizes[kind, 0], sizes[kind, 1]


def _trtllm_warps(s: Scores, gpu: Gpu) -> tuple[Floats, Floats]:
    """Return the sizes of TensorRT-LLM's kernels of single warps."""
    roomy = gpu.shared_bytes_per_sm > _SMALL_BYTES
    split_heads = (s.kv_len > _FEW_KEYS) & (roomy | (s.head_dim >= _WIDE_HEADS))
    sizes = np.where(split_heads[:, None], _sized(s.head_dim, _WARPS_PARTS), _sized(s.head_dim, _WARPS_WHOLE))
    sizes = np.where((s.size <= 1.0)[:, None], _sized(s.head_dim, _WARPS_FP8), sizes)
    return sizes[:, 0], sizes[:, 1]


def _tensor_tiles(s: Scores, gpu: Gpu) -> Floats:
    """Return the queries that a block takes at once: two tiles where tensor memory holds both. [tokens]

    With a causal mask the second tile of a short prompt has no diagonal to reach.
    """
    columns = gpu.tensor_memory_bytes_per_sm / (TENSOR_ROWS * _WORD_BYTES)
    both = (_AT_ONCE * (TENSOR_ROWS + s.value_dim) <= columns) & ((s.q_len > TENSOR_ROWS) | ~s.causal)
    return TENSOR_ROWS * np.where(both, _AT_ONCE, 1.0)


def value_parts(s: Scores, c: Coefficients) -> Floats:
    """Return the blocks that share the values of a head, each with all its scores. Shape (n,). [1]"""
    if c["by_head"] != TENSOR_TILES:
        return np.ones(len(s.batch))
    return np.ceil(s.value_dim / _VALUES)


def _flashinfer(s: Scores, gpu: Gpu) -> tuple[Floats, Floats]:
    """Return the sizes of FlashInfer's own kernel: keys as shared memory and registers hold them."""
    rows = s.q_len * s.heads / s.kv_heads
    few = rows <= _FLASHINFER_FEW
    queries = np.where((rows > 64.0) & (s.head_dim < 256), 128.0, np.where(few, _FLASHINFER_FEW, 64.0))
    return queries, _flashinfer_keys(s, gpu, queries)


def _flashinfer_keys(s: Scores, gpu: Gpu, queries: Floats) -> Floats:
    """Return the keys of a tile that fit on an SM beside its queries. Shape (n,). [tokens]"""
    warps = np.where(queries <= _FLASHINFER_FEW, 4.0, 1.0)
    query_bytes = queries * s.head_dim * 2.0
    step = (s.head_dim + s.value_dim) * HEAD_STEP * warps * s.kv_size
    blocks = np.where(gpu.shared_bytes_per_sm >= 2.0 * (query_bytes + step), 2.0, 1.0)
    fit = np.floor((gpu.shared_bytes_per_sm / blocks - query_bytes) / step)
    steps = np.clip(fit, 1.0, np.where(queries > 64.0, 4.0, 8.0))
    return np.asarray(np.exp2(np.floor(np.log2(steps))) * warps * HEAD_STEP)


def _encoder_tile(gpu: Gpu) -> float:
    """Return the queries, and as many keys, of a tile of SGLang's Triton kernel without a cache. [tokens]"""
    large = gpu.vendor != "amd" and capability(gpu) > _ENCODER_BEYOND
    return _ENCODER_LARGE if large else _ENCODER_TILE


def _sized(dim: Floats, table: Sequence[tuple[float, ...]]) -> Floats:
    """Return the sizes that a table gives for each head, shape (n, sizes). [tokens]"""
    rows = np.asarray(table)
    return np.asarray(rows[np.searchsorted(rows[:, 0], dim), 1:])


def capability(gpu: Gpu) -> int:
    """Return the first figure of the compute capability: 9 of sm_90, 10 of sm_103."""
    return int(load_architecture(gpu.architecture).targets[0].rpartition("_")[2]) // 10


def _flash_3(s: Scores) -> tuple[Floats, Floats]:
    """Return the sizes of FlashAttention 3.

    Keys with a causal mask are taken to come from a paged cache, those without from tensors of their own.
    """
    small, large, eight = s.head_dim <= 96, s.head_dim > 128, s.kv_size <= 1.0
    local = s.window < s.kv_len
    wide = np.where(large, np.where(s.head_dim > 192, np.where(local, 64.0, 80.0), 96.0), 128.0)
    narrow = np.where(
        large, np.where(s.head_dim > 192, np.where(local, 64.0, 128.0), np.where(local, 128.0, 160.0)), 160.0
    )
    middle = s.head_dim <= 128
    unpaged = np.where(s.head_dim <= 64, 192.0, np.where(small, 144.0, np.where(middle, 176.0, wide)))
    wide = np.where(s.causal | local, wide, unpaged)
    return np.where(small, 192.0, 128.0), np.where(eight, narrow, wide)


def computed_dims(s: Scores, c: Coefficients) -> Floats:
    """Return the mean numbers of a head of keys and of values that a kernel computes with. Shape (n,)."""
    if c["by_head"] == VLLM_TRITON:
        return (_power(s.head_dim) + _power(s.value_dim)) / 2.0
    if c["by_head"] == SGLANG_TRITON:
        keys = np.where(np.isin(s.head_dim, _IN_PARTS), s.head_dim, _power(s.head_dim))
        return np.asarray((keys + _power(s.value_dim)) / 2.0)
    return (padded(s.head_dim, c) + padded(s.value_dim, c)) / 2.0


def padded(dim: Floats, c: Coefficients) -> Floats:
    """Return the numbers of a head a kernel computes with: those it was compiled for. [elements]"""
    whole_steps, pad = np.ceil(dim / HEAD_STEP) * HEAD_STEP, c.get("pad_dim", 0.0)
    if pad <= 0:
        return np.asarray(whole_steps)
    if pad <= 1:
        return _power(dim)
    sizes = np.asarray(KERNEL_DIMS)
    place = np.searchsorted(sizes, dim)
    return np.asarray(np.where(place < len(sizes), sizes[np.minimum(place, len(sizes) - 1)], whole_steps))


def _power(dim: Floats) -> Floats:
    return np.asarray(np.exp2(np.ceil(np.log2(np.maximum(dim, HEAD_STEP)))))
