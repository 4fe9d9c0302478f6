"""What public source tells of kernels several libraries call: whose they are, and who measures them first.

FlashAttention
    vLLM builds its kernels (vllm-project/flash-attention), and so does SGLang for Ampere and Hopper
    (sgl-kernel/python/sgl_kernel/flash_attn.py, ``is_fa3_supported``), where it calls them fa3 or
    flash_attention.
CUTLASS experts
    FlashInfer's are TensorRT-LLM's (flashinfer, csrc/nv_internal/tensorrt_llm/kernels/cutlass_kernels). They
    are the whole operator, whoever calls it; attention rotates and writes a cache by the library's code.
    They come in many tiles: vLLM has FlashInfer time them when it starts
    (vllm/model_executor/warmup/kernel_warmup.py, ``flashinfer_autotune``), SGLang takes the first one
    (sglang/srt/model_executor/model_runner.py, ``_should_run_flashinfer_autotune``).
"""

from __future__ import annotations

from collections.abc import Mapping

from tracetool.families.implementations import Implementation

#: Words any of which in a kernel's name tells its project.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "FlashAttention": ("flash_attn", "flash_attention", "fa2", "fa3", "fa4"),
    "CUTLASS experts": ("flashinfer_cutlass", "torch_flow_cutlass"),
}
#: The project whose kernels are all of an operator.
_WHOLE = "CUTLASS experts"
#: Words of kernels that a library runs by a default where others measure first, by library.
_UNTUNED: Mapping[str, tuple[str, ...]] = {"sglang": ("flashinfer", "cutlass", "moe")}


def project_of(called: str) -> str:
    """Return the project a kernel is from by its name, "" where the name does not tell.

    >>> project_of("vllm_flash_attn_fa2"), project_of("sglang_fused_moe_triton")
    ('FlashAttention', '')
    """
    told = (project for project, words in _WORDS.items() if any(word in called for word in words))
    return next(told, "")


def is_whole(project: str) -> bool:
    """Return whether a project's kernels are all of an operator, so that it takes as long in any library."""
    return project == _WHOLE


def is_from(one: Implementation, project: str) -> bool:
    """Return whether an implementation's kernels are a project's."""
    return any(project_of(name) == project for name in one.names)


def is_untuned(one: Implementation) -> bool:
    """Return whether a library runs these kernels by a default that others' measurements replace."""
    words = _UNTUNED.get(one.stack)
    return words is not None and all(word in one.words for word in words)
