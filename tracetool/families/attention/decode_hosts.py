"""Decode attention in vLLM, SGLang and TensorRT-LLM, from public source: how they split and host it.

Of each library, then of an architecture or of kernels by a word of their name: by coefficient a factor and
what is added (:class:`tracetool.families.law.Law`); a factor of 0 states the form. docs/families/decode.md
says what that is worth.
"""

from __future__ import annotations

from typing import Final

from tracetool.families.attention.latent_hosts import CAST_US, IN_8_BITS, LAUNCH_US, Host
from tracetool.families.law import TENSOR_MEMORY, WARPS, Coefficients
from tracetool.families.loops import LONGER, NEXT_US, SHORT

#: The choice of ``split_fill`` that is TensorRT-LLM's XQA. [1] By definition here.
XQA: Final = 4
#: That of vLLM's Triton kernels. [1] By definition here.
SEGMENTS: Final = 5

#: TensorRT-LLM's XQA takes parts of 128 keys up to eight waves, by the window in fp8 alone, and leaves other
#: groups to a kernel without tensor cores. [units of decode.toml] By definition of NVIDIA/TensorRT-LLM: see
#: docs/families/decode.md.
XQA_HABITS = {
    "split_fill": 4.0, "split_waves": 8.0, "key_tile": 64.0, "vector_heads": 33.0, "dispatch": 1.0,
    "split_seen": 2.0, "kv8_least_dim": 128.0, "most_parts": 1024.0, "split_single": 1.0,
    "pack_windowed": 1.0,
}  # fmt: skip
#: What libraries do, as their host code says: FlashAttention 2 fills waves of two blocks an SM with key tiles
#: of 128; TensorRT-LLM runs XQA; vLLM under CUDA graphs takes 32 parts at most; FlashAttention 3 divides all
#: key tiles of a batch among the SMs where its sequences have lengths of their own; SGLang's Triton kernels
#: take up to eight parts and tiles of 32 keys. [units of decode.toml] A fit starts from each; sources in
#: docs/families/decode.md. ``block_clk`` and ``kv8_block`` of XQA are where its own tables led, so that they
#: are none that source states of it.
HABITS = (
    {"split_fill": 1.0, "split_waves": 2.0, "split_single": 0.0, "split_seen": 1.0, "pack_windowed": 0.0},
    {**XQA_HABITS, "block_clk": 6000.0, "kv8_block": 0.15},
    {"split_fill": 1.0, "most_parts": 32.0},
    {"split_fill": 2.0, "most_parts": 32.0, "scan_sequences": 31.0},
    {"split_fill": 3.0, "most_parts": 8.0, "key_tile": 32.0, "split_seen": 1.0},
)  # fmt: skip

#: FlashAttention 2, which vLLM calls before Hopper, packs heads by a copy of queries and one of results, not
#: where a window is set, and splits keys by waves of two blocks an SM; 80 KB of keys of 128 let an A100 hold
#: two, an L40S one (Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp, ``seqlenq_ngroups_swapped`` and
#: ``num_splits_heuristic``). [units of decode.toml] By definition of these.
_FLASH2: Final[Host] = {
    "tile_rows": (0.0, 64.0),
    "split_fill": (0.0, 1.0), "split_waves": (0.0, 2.0), "resident": (0.0, 1.0), "split_single": (0.0, 0.0),
    "split_seen": (0.0, 1.0), "pack_windowed": (0.0, 0.0), "pack_us": (0.0, 2.0 * NEXT_US),
    "scan_sequences": (0.0, 0.0),
}  # fmt: skip
#: FlashInfer's kernels for tensor cores take the heads of a group together, 16 rows a tile, whatever the
#: window, and parts that fill two blocks an SM. [units of decode.toml] By definition of
#: flashinfer-ai/flashinfer, include/flashinfer/attention/prefill.cuh and scheduler.cuh
#: (``PrefillSplitQOKVIndptr``).
FLASHINFER = {
    "pack_windowed": 1.0, "tile_rows": 16.0, "resident": 2.0, "split_fill": 0.0, "split_waves": 1.0,
    "split_seen": 1.0, "split_single": 1.0, "scan_sequences": 0.0,
}  # fmt: skip
#: vLLM's Triton kernels split every sequence into 16 segments while sequences and key heads make no more than
#: 128 blocks, and none beyond. [units of decode.toml] By definition of vllm-project/vllm,
#: vllm/v1/attention/backends/triton_attn.py (``MIN_LAUNCH_GRID_SIZE_2D``, ``NUM_PAR_SOFTMAX_SEGMENTS``).
_VLLM_TRITON: Final[Host] = {
    "split_fill": (0.0, float(SEGMENTS)), "split_single": (0.0, 1.0), "most_parts": (0.0, 1024.0),
}  # fmt: skip
#: Blackwell's generated kernels, which split keys once over the GPU and skip those before a window.
#: [units of decode.toml] By definition of flashinfer-ai/flashinfer, ``trtllm/fmha/fmhaKernels.h``.
_GENERATED = {
    **XQA_HABITS,
    "split_fill": 0.0, "split_waves": 1.0, "split_seen": 1.0, "kv8_least_dim": 0.0, "dispatch": 0.0,
}  # fmt: skip
#: The same where none was measured: two tiles of 128 keys a step; where keys are not split a block takes tile
#: after tile; of heads only large groups are left to a kernel without tensor cores; a cache of 8 bits is met
#: as one of 16, and the kernel that rotates queries quantizes them, so that nothing of XQA's own kernel for
#: 8 bits holds; shared memory waits for some 190 KiB each 1900 clk. [units of decode.toml] By definition of
#: that source and of NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels (``computeNumCtas`` of
#: trtllmGenKernels/fmha, ``shouldUse`` of xqaDispatcher.cpp). What an SM draws, that of a tile's start
#: nothing is left, and that groups may be as large as XQA's (that source: 16) are priors.
_GENERATED_ELSEWHERE: Final[Host] = {
    "key_tile": (0.0, 256.0), "persistent": (0.0, 1.0), "sm_bytes_clk": (0.0, 100.0),
    "kv8_step": (0.0, 1.0), "kv8_bytes": (0.0, 1.0), "kv8_block": (0.0, 1.0),
    "kv8_casts": (0.0, -1.0), "launch_kv8_us": (0.0, 0.0), "vector_heads": (0.0, -33.0),
}  # fmt: skip


#: Since it runs these kernels by FlashInfer on SM100 and SM103, TensorRT-LLM sets the counters of their parts
#: to zero before each, by a kernel of its own: not for the groups it leaves to other kernels, nor where a
#: model asks for FlashInfer itself. [units of decode.toml] By definition of NVIDIA/TensorRT-LLM,
#: tensorrt_llm/_torch/attention_backend/fmha/flashinfer_trtllm_gen.py, ``run_generation``.
_CLEARED: Final[Host] = {"clears": (0.0, 1.0)}


def host_of_habits(habits: Coefficients) -> Host:
    """Return the choices that source states; tile sizes, and waves where XQA has none, are left to a fit."""
    free = {"key_tile", "split_waves"} if habits["split_fill"] == XQA else {"key_tile"}
    return {name: (0.0, value) for name, value in habits.items() if name not in free}


#: SGLang converts new keys and values, looks for the query's largest number and quantizes it, before it
#: calls TensorRT-LLM's kernels with a cache of 8 bits (sgl-project/sglang,
#: layers/attention/trtllm_mha_backend.py, ``forward_decode``, and ``scaled_fp8_quant``). The loop over vLLM's
#: quantizes the query before it starts (ai-dynamo/aiconfigurator, collector/vllm/collect_attn.py),
#: TensorRT-LLM in the kernel that rotates it. FlashAttention 3 as SGLang builds it for chips of single warps
#: multiplies tiles of 128 rows (Dao-AILab/flash-attention, hopper/tile_size.h, ``tile_size_fwd_sm8x``), and
#: casts of a cache of 8 bits are two (sglang/srt/mem_cache/memory_pool.py, ``set_kv_buffer``). On Hopper it
#: takes queries in the format of the keys, which vLLM's layer and SGLang convert (vllm/v1/attention/backends/
#: flash_attn.py; sglang/srt/layers/attention/flashattention_backend.py), as XQA's kernel for 8 bits does
#: (NVIDIA/TensorRT-LLM, cpp/kernels/xqa/mha_sm90.cu, ``MathElem``).
HOST: Final[dict[str, Host]] = {
    "vllm": SHORT,
    "vllm/fa2": _FLASH2,
    "vllm/flash_attn/ampere-ga100": {**_FLASH2, "resident": (0.0, 2.0), "split_waves": (0.0, 1.0)},
    "sglang": LONGER,
    "sglang/flash_attention": {"kv8_casts": (0.0, 2.0)},
    f"sglang/flash_attention/{WARPS}": {"tile_rows": (0.0, 128.0)},
    "vllm/fa3/hopper": IN_8_BITS,
    "sglang/fa3/hopper": IN_8_BITS,
    f"vllm/trtllm/{TENSOR_MEMORY}": IN_8_BITS,
    f"sglang/trtllm/{TENSOR_MEMORY}": IN_8_BITS,
    "vllm/trtllm": {"vector_heads": (0.0, 0.0), "clears": (0.0, 0.0)},
    "vllm/triton": _VLLM_TRITON,
    "sglang/trtllm": {
        "vector_heads": (0.0, 0.0),
        "launch_kv8_us": (1.0, CAST_US + 2.0 * LAUNCH_US),
        "clears": (0.0, 0.0),
    },
    "trtllm": SHORT,
    "trtllm/torch_flow/ada": host_of_habits(XQA_HABITS),
    "trtllm/torch_flow/ampere-ga100": host_of_habits(XQA_HABITS),
    "trtllm/torch_flow/ampere-ga10x": host_of_habits(XQA_HABITS),
    "trtllm/torch_flow/blackwell": {**host_of_habits(_GENERATED), **_CLEARED, **IN_8_BITS},
    "trtllm/torch_flow_flashinfer/blackwell": {"clears": (0.0, 0.0)},
    "trtllm/torch_flow/blackwell-gb20x": host_of_habits(XQA_HABITS),
    "trtllm/torch_flow/hopper": {**host_of_habits(XQA_HABITS), **IN_8_BITS},
}
#: Of kernels where none of their library was measured. [units of decode.toml] By definition as above.
ELSEWHERE: Final[dict[str, Host]] = {"trtllm/torch_flow/blackwell": _GENERATED_ELSEWHERE}
#: Before, it ran them by code of its own, which keeps its counters at zero: pull request 14618 came between
#: candidate 15 and candidate 20 of version 1.3.0. By definition of that source.
BY_VERSION: Final = {"trtllm/torch-flow": {"0": {"clears": 0.0}, "1.3.0rc20": {}}}
#: Of an unmeasured library: kernels that no other library calls; on Ada the priors, of memory on the
#: chip's package, do not hold. [units of decode.toml] By definition as above.
LIBRARY_HABITS: Final = {"trtllm/hopper": XQA_HABITS, "trtllm/ampere-ga100": XQA_HABITS}
#: What a kernel's name states where another's coefficients stand for it. [units of decode.toml] By definition
#: as above.
NAME_HABITS: Final[dict[str, Coefficients]] = {
    "flashinfer": FLASHINFER,
    "flashinfer_trtllm": {},
    # where there is tensor memory TensorRT-LLM's backend of that name calls its own generated kernels, and
    # converts new keys and values before; no kernel of its own clears counters (tensorrt_llm/_torch/models/
    # modeling_gemma4.py, ``flashinfer_backend``; tensorrt_llm/_torch/attention_backend/flashinfer.py)
    f"torch_flow_flashinfer/{TENSOR_MEMORY}": {"kv8_casts": 2.0, "clears": 0.0},
}
