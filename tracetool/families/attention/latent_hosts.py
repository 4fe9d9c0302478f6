"""Latent attention in vLLM, SGLang and TensorRT-LLM, from public source, where it was not measured.

Of each library, then of an architecture or of kernels by a word of their name: by coefficient a factor and
what is added to that of another library's kernel (:class:`tracetool.families.law.Law`); a factor of 0 states
the form. docs/families/mla.md says what that is worth.

Sources, all public: vllm-project/vllm, vllm/v1/attention/backends/mla (``MLACommonImpl.forward``,
``reorder_batch_threshold``, ``num_kv_splits``); sgl-project/sglang, python/sglang/srt
(layers/attention/flashattention_backend.py, trtllm_mla_backend.py, triton_ops/extend_attention.py and
server_args.py, ``triton_attention_num_kv_splits``); NVIDIA/TensorRT-LLM, cpp/tensorrt_llm
(common/attentionOp.cpp, ``mlaGeneration``, kernels/mlaKernels.cu, thop/attentionOp.cpp, ``mFP8ContextMLA``,
``mFP8GenerationMLA``, ``mUseGenFlashMLA``); pytorch/pytorch, c10/util/Float8_e4m3fn.h.
"""

from __future__ import annotations

from typing import Final

from tracetool.families.attention.problem import SMALL_KERNEL_US
from tracetool.families.law import KERNEL_US, TENSOR_MEMORY
from tracetool.families.loops import NEXT_US

#: By coefficient, a factor and what is added.
Host = dict[str, tuple[float, float]]

#: Operations that convert an element from e4m3 to 16 bits in PyTorch. [op] A prior: some 20 of integers at
#: half the rate of FP32 to unpack it, a count of zeros and a conversion at an eighth, and as many for its
#: address, its type and its load and store.
CAST_OPS: Final = 100.0
#: A kernel more in a stream that is full. [us] A prior.
LAUNCH_US, CAST_US = 2.0, 3.0
#: Passes over latents and rotary keys where they are written to the cache: one, at two thirds of the memory's
#: rate. [1] A prior.
CACHE_PASSES: Final = 1.5

#: Keys just expanded stay in 16 bits, and the products that expand latents or absorb the expansion are part
#: of the layer. [1] By definition of vLLM.
VLLM: Final[dict[str, float]] = {"projected": 1.0, "expanded_in_8": 0.0}

#: Kernels that vLLM's layer issues one by one: it writes the cache and multiplies (once expanded, twice
#: absorbed). Expanded, it also joins keys in two copies, pads values (not for FlashAttention 3), and copies
#: what comes out. Absorbed, FlashMLA and Triton join the queries first, FlashMLA quantizes them and sums
#: parts, Triton fills two buffers with zeros and sums parts; FlashAttention sums parts. [1] By definition of
#: vLLM: absorbed, expanded.
FLASH, FLASHMLA, TRITON = (5.0, 6.0), (7.0, 6.0), (8.0, 7.0)


#: Queries become what a cache of 8 bits is: products are in FP8. [1] By definition of vLLM (FlashMLA), of
#: TensorRT-LLM and of SGLang's calls of its kernels.
IN_8_BITS: Final[Host] = {"kv8_products": (0.0, 1.0)}


def issued(kernels: tuple[float, float], kernel_us: float = KERNEL_US) -> dict[str, float]:
    """Return the time of a host that issues some kernels absorbed, and some expanded, one by one."""
    absorbed, expanded = kernels
    return {"floor_us": absorbed * kernel_us, "expanded_floor": expanded / absorbed}


def _form(values: dict[str, float]) -> Host:
    return {name: (0.0, value) for name, value in values.items()}


# SGLang meets latents with every query under FlashAttention and Triton, and converts a cache of 8 bits, all
# of a layer's, to 16 bits before it. For TensorRT-LLM's kernels it joins each key with its rotary part.
_SGLANG_CAST: Final[Host] = {
    "kv8_rate": (0.0, 1.0),
    "kv8_convert_ops": (0.0, CAST_OPS),
    "kv8_launch_us": (0.0, CAST_US),
}
# TensorRT-LLM quantizes queries, keys and values where it has kernels of 8 bits: 3 bytes of each number to
# the 2 of a pass.
_QUANTIZED: Final[Host] = {
    "expanded_in_8": (0.0, 1.0),
    **IN_8_BITS,
    "kv8_passes": (0.0, 1.2),
    "kv8_launch_us": (0.0, CAST_US),
}

#: What products of 8 bits gain over those of 16 where warps multiply: the instruction takes half as many
#: clocks, prompts of heads of 128 take an L40S 1.74 times as long in 16 bits. [1] A prior, rounded from the
#: median of 9 shapes of 0.8 ms and more of TensorRT-LLM 1.3.0rc20.
WARPS_GAIN_8: Final = 1.75

#: Of prefill where nobody measured a library's kernels: in tensor memory a block takes two tiles of 128
#: queries at once, as of other attention (``prefill.py``). [1] By definition of the sources there.
PREFILL_ELSEWHERE: Final[dict[str, Host]] = {
    f"{library}/{TENSOR_MEMORY}": {"query_tile": (0.0, 256.0)} for library in ("vllm", "sglang", "trtllm")
}

#: Of prefill. TensorRT-LLM expands always; it rotates a third of each query and writes the rotary part of
#: each key in a kernel of its own, 384 of the 1280 bytes of a pass, and lays out sequences in another.
PREFILL_HOST: Final[dict[str, Host]] = {
    "vllm": {**_form(VLLM), "absorbed_queries": (0.0, 1.0)},
    "vllm/flash_attn": {"absorbed_queries": (0.0, 512.0), **_form(issued(FLASH))},
    "vllm/flashmla": {"absorbed_queries": (0.0, 128.0), **_form(issued(FLASHMLA))},
    "vllm/triton": _form(issued(TRITON)),
    "sglang": {
        "projected": (0.0, 0.0),
        "absorbed_queries": (0.0, 1e9),
        "latent_passes": (0.0, CACHE_PASSES),
        **_SGLANG_CAST,
    },
    "sglang/trtllm": {"pass_factor": (1.0, 0.6), "launch_us": (1.0, LAUNCH_US)},
    f"sglang/trtllm/{TENSOR_MEMORY}": IN_8_BITS,
    "vllm/flashmla/hopper": IN_8_BITS,
    "sglang/triton": {"pack_heads": (0.0, 0.0), "absorbed_tile": (0.0, 32.0)},
    "trtllm": {
        "projected": (0.0, 0.0),
        "absorbed_queries": (0.0, 0.0),
        "expanded_in_8": (0.0, 0.0),
        "latent_passes": (0.0, CACHE_PASSES),
        "pass_factor": (1.0, 0.3),
        "launch_us": (1.0, LAUNCH_US),
    },
    "trtllm/hopper": _QUANTIZED,
    "trtllm/blackwell": _QUANTIZED,
    # the kernels of warps, of which those of 8 bits are built for Ada too (cpp/kernels/fmha_v2/setup.py,
    # ``enumerate_qmma_flash_kernels``): Ada's context stays in 16 (``mFP8ContextMLA``)
    "trtllm/blackwell-gb20x": {**_QUANTIZED, "kv8_rate": (0.0, WARPS_GAIN_8)},
}

#: Before Hopper TensorRT-LLM decodes by its kernel of prefill: 64 heads a tile, all keys of a sequence one
#: after another and no kernel to sum parts, one head no faster than many, queries and outputs once. Each of
#: its four warps of 16 rows draws all keys and values of a step from shared memory, where tensor cores take
#: operands from registers. [1] By definition of TensorRT-LLM; but that a cache of 8 bits is kept in 16 is
#: shown by tables of A100 and L40S, whose times of both are the same, and the share of their peak that
#: products reach is a prior.
_BEFORE_HOPPER: Final[Host] = {
    "most_parts": (0.0, 1.0),
    "head_tile": (0.0, 64.0),
    "single_step": (0.0, 1.0),
    "pass_factor": (0.0, 1.12),
    "launch_us": (1.0, -LAUNCH_US),
    "tensor_efficiency": (0.0, 0.8),
    "shared_reads": (0.0, 4.0),
    "kv8_in_16": (0.0, 1.0),
}

#: GB20x runs the kernel of warps, too, which meets a cache of 8 bits as it lies. With 128 heads it runs
#: XQA's in its place: a cluster of four SMs takes a sequence, two multiply keys by queries and two their
#: values, all keys one after another (cpp/tensorrt_llm/kernels/decoderMaskedMultiheadAttention, ``isMLA`` of
#: xqaParams.h, ``supportConfigMLA`` of decoderXQAImplJIT/kernelUtils.cpp, ``computeMultiBlockCountForMLA`` of
#: decoderXQAImplCommon.h, up to March 2026 at least; later sources split keys and take fewer heads so, too;
#: cpp/kernels/xqa/mla_sm120.cu). [1] By definition of TensorRT-LLM.
_WARPS_8: Final[Host] = {
    "most_parts": (0.0, 1.0),
    "head_tile": (0.0, 64.0),
    "shared_reads": (0.0, 4.0),
    "kv8_in_16": (0.0, 0.0),
    "kv8_rate": (0.0, WARPS_GAIN_8),
    **IN_8_BITS,
    "cluster_heads": (0.0, 128.0),
}

#: Blackwell's generated kernels choose heads of a tile and parts by the work (``latent_decode.py``). [1] By
#: definition of flashinfer-ai/flashinfer, include/flashinfer/trtllm/fmha/fmhaKernels.cuh.
_GENERATED: Final[Host] = {"head_tile": (0.0, 0.0), "most_parts": (0.0, 1024.0)}

#: Small kernels of TensorRT-LLM: one sets the counters of parts to zero before each decode, with a cache of 8
#: bits another scales the scale of the first product. SGLang keeps counters at zero and its scale on the
#: host, and has one kernel more: it rotates and quantizes in one, or joins queries, and writes the cache in
#: another (tensorrt_llm/_torch/attention_backend/fmha/flashinfer_trtllm_gen.py, ``run_mla_generation``;
#: flashinfer/mla/_core.py; sglang/srt/layers/attention/trtllm_mla_backend.py, ``forward_decode``). [us] By
#: definition of these.
_CLEARED: Final[Host] = {"launch_us": (1.0, SMALL_KERNEL_US), "kv8_launch_us": (0.0, SMALL_KERNEL_US)}
_WRITTEN_APART: Final[Host] = {"launch_us": (1.0, NEXT_US), "kv8_launch_us": (0.0, 0.0)}

#: The same where none was measured: 8 bits are multiplied as they lie, by queries that the kernel which
#: rotates them quantizes, so that nothing of other kernels' conversion holds; keys and values come as those
#: of other attention do, and blocks start as those do. Launches are those of its kernels: what kernels
#: before it took to start says nothing of tensor memory. [units of latent.toml] By definition of that source;
#: share of memory and start of a block are the priors of decode.toml.
_GENERATED_ELSEWHERE: Final[Host] = {
    "kv8_convert_ops": (0.0, 0.01), "dram_efficiency": (0.0, 0.85), "block_clk": (0.0, 2600.0),
}  # fmt: skip
DECODE_ELSEWHERE: Final[dict[str, Host]] = {
    f"sglang/trtllm/{TENSOR_MEMORY}": {
        **_GENERATED_ELSEWHERE, "launch_us": (0.0, 3.0 * NEXT_US), "kv8_launch_us": (0.0, 0.0),
    },
    f"trtllm/{TENSOR_MEMORY}": {
        **_GENERATED_ELSEWHERE,
        "launch_us": (0.0, 2.0 * NEXT_US + SMALL_KERNEL_US), "kv8_launch_us": (0.0, SMALL_KERNEL_US),
    },
}  # fmt: skip

#: Of decode. TensorRT-LLM meets a cache of 8 bits as it lies.
DECODE_HOST: Final[dict[str, Host]] = {
    "vllm": {"projected": (0.0, 1.0)},
    "vllm/flash_attn": {"floor_us": (0.0, FLASH[0] * KERNEL_US)},
    "vllm/flashmla": {"floor_us": (0.0, FLASHMLA[0] * KERNEL_US), "kv8_convert_ops": (0.0, 0.1)},
    "vllm/flashmla/hopper": IN_8_BITS,
    "vllm/triton": {"floor_us": (0.0, TRITON[0] * KERNEL_US), "most_parts": (0.0, 4.0)},
    "sglang": {"projected": (0.0, 0.0), **_SGLANG_CAST},
    "sglang/triton": {"most_parts": (0.0, 8.0)},
    "sglang/trtllm": {**_GENERATED, **_WRITTEN_APART},
    f"sglang/trtllm/{TENSOR_MEMORY}": IN_8_BITS,
    # FlashInfer's copy of XQA's kernel alone, split no more (csrc/xqa/mla_sm120.cu, ``launchMLAFlashInfer``)
    "sglang/trtllm/blackwell-gb20x": _WARPS_8,
    "trtllm": {
        "projected": (0.0, 0.0),
        "kv8_convert_ops": (0.0, 0.1),
        "kv8_launch_us": (0.0, 0.1),
        "pass_factor": (1.0, 0.12),
    },
    "trtllm/hopper": IN_8_BITS,
    "trtllm/blackwell": {**_GENERATED, **_CLEARED, **IN_8_BITS},
    "trtllm/ampere-ga100": _BEFORE_HOPPER,
    "trtllm/ampere-ga10x": _BEFORE_HOPPER,
    "trtllm/ada": _BEFORE_HOPPER,
    "trtllm/blackwell-gb20x": {**_BEFORE_HOPPER, **_WARPS_8},
}
