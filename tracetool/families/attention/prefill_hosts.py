"""Prefill attention in vLLM, SGLang, TensorRT-LLM and PyTorch, from public source: tiles and hosts.

Of each library, then of an architecture or of kernels by a word of their name: by coefficient a factor and
what is added (:class:`tracetool.families.law.Law`); a factor of 0 states the form. docs/families/prefill.md
says what that is worth.
"""

from __future__ import annotations

from typing import Final

from tracetool.families.attention.latent_hosts import CAST_US, LAUNCH_US, Host
from tracetool.families.attention.tile_sizes import (
    FLASHINFER,
    SGLANG_ENCODER,
    SGLANG_TRITON,
    TENSOR_TILES,
    TRTLLM_WARPS,
    VLLM_TRITON,
)
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import TENSOR_MEMORY, WARPS, Coefficients
from tracetool.families.loops import LONGER, SHORT

_PRIORS = read_coefficients(__package__, "prefill")["prefill"]
#: Start and end of the main kernel alone [us], and its own passes over Q, K, V and O [1]: coefficients are
#: fitted to operators, whose other kernels stand in a run as rows of their own. Both a prior.
ALONE_US, ALONE_PASSES = 2.0, 0.4
#: From the place of a token to its keys and values in the cache: two waits for memory. [clk] A prior.
WRITE_CLK = 1200.0
#: A read and a write of each new key and value, in reads at the memory's peak: 0.85 of it is reached. [1] A
#: prior.
WRITE_PASSES = 2.0 / 0.85
#: Tokens an SM writes at once: vLLM's kernel takes a block of 512 threads for each, SGLang's a warp. [1] By
#: definition of vllm-project/vllm, csrc/cache_kernels.cu (``reshape_and_cache_flash``), and
#: sgl-project/sglang, python/sglang/jit_kernel (``store_cache``); an SM holds 2048 threads.
VLLM_TOKENS, SGLANG_TOKENS = 4.0, 64.0


def written(at_once: float) -> Host:
    """Return the cost of a kernel that copies new keys and values to the cache, some tokens an SM at once."""
    return {"cache_passes": (0.0, WRITE_PASSES), "token_clk": (0.0, WRITE_CLK / at_once)}


#: FlashAttention 2 meets keys in pages by its split kernel, 64 queries a tile, and packs the heads of a group
#: for one query alone (Dao-AILab/flash-attention, csrc/flash_attn/src/flash_fwd_launch_template.h). What
#: SGLang builds for Ampere is FlashAttention 3, which packs them and takes 128 (hopper/tile_size.h).
#: Queries a tile, and how heads are packed [1]: by definition of these sources.
_PAGED = {"query_tile": (0.0, 64.0), "pack_heads": (0.0, 1.0)}
#: The same of kernels that pack all heads of a group. [1] By definition of these sources.
_PACKED = {"query_tile": (0.0, 128.0), "pack_heads": (0.0, 2.0)}
#: FlashInfer's own kernel, which packs them too. [1] By definition of flashinfer-ai/flashinfer,
#: include/flashinfer/attention/prefill.cuh.
_OWN_FLASHINFER = {"by_head": (0.0, FLASHINFER), "pack_heads": (0.0, 2.0)}
#: Where results lie in tensor memory a block takes two tiles of 128 queries at once if they fit, but for
#: Triton's kernels, and multiplies all of them (Dao-AILab/flash-attention,
#: flash_attn/cute/flash_fwd_sm100.py, ``q_stage``; NVIDIA/cutlass, examples/77_blackwell_fmha). [1] By
#: definition of these sources.
_TWO_TILES = {"by_head": (0.0, TENSOR_TILES), "spare_share": (0.0, 1.0)}
ELSEWHERE: Final[dict[str, Host]] = {
    **{f"{library}/{TENSOR_MEMORY}": _TWO_TILES for library in ("vllm", "sglang", "trtllm")},
    "sglang/triton": {"by_head": (0.0, SGLANG_TRITON)},
    "vllm/triton": {"by_head": (0.0, VLLM_TRITON)},
}
#: Of encoders: SGLang runs another Triton kernel where there is no cache, and pads heads to a power of two
#: (sglang/srt/layers/attention/triton_ops/prefill_attention.py). Up to capability 8 its tiles have 64 rows,
#: but for heads above 64 eight warps, each of which multiplies 16 rows at least where a product is multiplied
#: again: each row twice (triton-lang/triton, lib/Dialect/TritonGPU/Transforms/AccelerateMatmul.cpp,
#: ``warpsPerTileV2``). Beyond they have 128, each multiplied once. The rate of products so, and what heads of
#: 64 take beside others, are those of an L40S: 0.225 and 0.411 with heads of 96 and each row counted once.
#: [1] By definition of these sources, and a fit of SGLang's encoder on an L40S.
_ENCODER_TRITON: Final[Host] = {
    "by_head": (0.0, SGLANG_ENCODER), "pad_dim": (0.0, 1.0),
    "tensor_efficiency": (0.0, 0.6), "dim64": (0.0, 1.1),
}  # fmt: skip
ENCODER_ELSEWHERE: Final[dict[str, Host]] = {
    **{key: host for key, host in ELSEWHERE.items() if key != "sglang/triton"},
    "sglang/triton/hopper": _ENCODER_TRITON,
    "sglang/triton/blackwell": _ENCODER_TRITON,
    "sglang/triton/blackwell-gb20x": _ENCODER_TRITON,
}
#: Loops that begin at the first tile of a window, and masks without a branch: SGLang's kernels in Triton meet
#: each tile and ask whether any of it counts (vllm/v1/attention/ops/triton_unified_attention.py).
#: Both are the priors of prefill.toml.
_WINDOWS_ENTERED: Final[Host] = {name: (0.0, _PRIORS[name].value) for name in ("skip_clk", "window_tile")}
#: A kernel of TensorRT-LLM rotates the queries too, a pass over them, another lays out the sequences, and
#: none packs heads (NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/common/attentionOp.cpp,
#: ``invokeBuildDecoderInfo``, ``invokeQKVPreprocessing``); layers of vLLM and SGLang take queries rotated and
#: write the cache alone (vllm/v1/attention/backends, sglang/srt/layers/radix_attention.py); that of PyTorch
#: has no cache and launches one kernel (aten/src/ATen/native/transformers/cuda/attention.cu).
HOST: Final[dict[str, Host]] = {
    "vllm": {**written(VLLM_TOKENS), **SHORT},
    "vllm/fa2": _PAGED,
    # where prompts have one query vLLM calls kernels made for decode: all heads of a group are in one tile
    "vllm/trtllmdecode": {
        "query_tile": (0.0, 64.0),
        "pack_heads": (0.0, 2.0),
        "by_head": (0.0, 0.0),
        "kv8_tile": (0.0, 1.0),
    },
    # it expands keys and values of 8 bits to 16 before: a read and a write more, and keys as wide as queries
    # (vllm/v1/attention/backends/flashinfer.py, ``trtllm_prefill_attn_kvfp8_dequant``)
    "vllm/trtllmprefill": {
        "kv8_pass": (0.0, 2.0),
        "kv8_step": (0.0, 1.0),
        "kv8_dim": (0.0, 1.0),
        "kv8_tile": (0.0, 1.0),
    },
    "vllm/flash_attn/ampere-ga100": _PAGED,
    "sglang": {**written(SGLANG_TOKENS), **LONGER, "kv8_casts": (0.0, 2.0)},
    # keys and values converted, the largest number of the query found, and that quantized, as in decode
    "sglang/trtllm": {"fp8_launch_us": (0.0, CAST_US + 2.0 * LAUNCH_US)},
    "sglang/flash_attention/ampere-ga100": _PACKED,
    f"sglang/flashinfer/{WARPS}": _OWN_FLASHINFER,
    f"vllm/fiprefill/{WARPS}": _OWN_FLASHINFER,
    "sglang/triton": {"by_head": (0.0, SGLANG_TRITON), "pack_heads": (0.0, 0.0)},
    "vllm/triton": {"by_head": (0.0, VLLM_TRITON), "pack_heads": (0.0, 2.0), **_WINDOWS_ENTERED},
    "trtllm": {
        "pass_factor": (1.0, 1.0),
        "launch_us": (1.0, 2.0 * ALONE_US),
        "pack_heads": (0.0, 0.0),
        **SHORT,
    },
    f"trtllm/{WARPS}": {"by_head": (0.0, TRTLLM_WARPS)},
    "torch": {
        "pass_factor": (0.0, ALONE_PASSES),
        "cache_passes": (0.0, ALONE_PASSES),
        "token_clk": (0.0, 0.0),
        "launch_us": (0.0, ALONE_US),
    },
}

#: FlashInfer's own kernels pack the heads of a group and take 128 queries a tile; one more writes the cache
#: (flashinfer-ai/flashinfer, include/flashinfer/attention/prefill.cuh, scheduler.cuh).
#: [1], [us] By definition of these sources, and a prior for each launch.
FLASHINFER_OWN = {"pack_heads": 2.0, "by_head": FLASHINFER, "launch_us": 2.0 * ALONE_US}
FIDECODE = {**FLASHINFER_OWN, "query_tile": 128.0, "by_head": 0.0}
#: Where there is tensor memory SGLang's FlashInfer runs CUTLASS's kernel, two tiles of 128 queries of one
#: head (sglang/srt/layers/attention/flashinfer_backend.py, ``fmha_backend``; flashinfer, include/flashinfer/
#: attention/blackwell), TensorRT-LLM's its own generated kernels, which nothing rotates queries for, after it
#: converted new keys and values (tensorrt_llm/_torch/models/modeling_gemma4.py, ``flashinfer_backend``;
#: tensorrt_llm/_torch/attention_backend/flashinfer.py); FlashInfer's own with pages are those of warps. [1],
#: [us] By definition of these sources, and priors for launches.
NAME_HABITS: Final[dict[str, Coefficients]] = {
    "flashinfer": FLASHINFER_OWN,
    "flashinfer_trtllm": {},
    "flashinfer_fidecode": FIDECODE,
    f"flashinfer/{TENSOR_MEMORY}": {
        "by_head": TENSOR_TILES, "pack_heads": 0.0, "spare_share": 1.0, "launch_us": 2.0 * ALONE_US,
    },
    f"flashinfer_fiprefill/{TENSOR_MEMORY}": FLASHINFER_OWN,
    f"torch_flow_flashinfer/{TENSOR_MEMORY}": {
        "kv8_casts": 2.0, "launch_us": _PRIORS["launch_us"].value,
    },
}  # fmt: skip

#: Of encoders, which have no cache to write: TensorRT-LLM's two kernels more and its pass are those of
#: prefill; its kernels for Hopper pad heads to a power of two (cpp/kernels/fmha_v2/src/fmha/warpspec,
#: kernel_traits.h, ``D``: of heads up to 128).
ENCODER_HOST: Final[dict[str, Host]] = {
    "vllm": SHORT,
    "sglang": LONGER,
    "trtllm": {"pass_factor": (1.0, 1.0), "launch_us": (1.0, 2.0 * ALONE_US), **SHORT},
    f"trtllm/{WARPS}": {"by_head": (0.0, TRTLLM_WARPS)},
    "trtllm/hopper": {"pad_dim": (0.0, 1.0)},
    "torch": HOST["torch"],
}
