"""Collectives written outside NCCL: one- and two-shot all-reduce, multicast memory, expert dispatch, NVSHMEM."""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import numbers_of, typed
from tracetool.kernels.symbols import Symbol

#: GPUs that a library's own all-reduce is made for.
_RANKS = (2, 4, 6, 8, 16)
#: Kernels whose template states them, and the place among its numbers: behind a pattern, else the first.
_RANKS_AT = (
    ("allreduce_fusion_kernel", -1),
    ("cross_device_reduce", 0),
    ("oneshotallreduce", 0),
    ("twoshotallreduce", 0),
)


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    low = symbol.head.lower()
    algo = (
        "multicast" if "multimem" in low or "nvls" in low or "multicast" in low
        else "one_shot" if re.search(r"one_?shot|1stage|_1stage", low)
        else "two_shot" if re.search(r"two_?shot|2stage", low) else None
    )  # fmt: skip
    ranks = [n for n in numbers_of(symbol) if n in _RANKS]
    place = next((place for kernel, place in _RANKS_AT if kernel in low), None)
    op = (
        "reduce_scatter" if "reduce_scatter" in low or "reducescatter" in low
        else "all_gather" if "gather" in low
        else "all_to_all" if re.search(r"dispatch|combine|all_?to_?all|a2a", low) else "all_reduce"
    )  # fmt: skip
    return {
        "op": op,
        "algo": algo,
        "dtype": typed(symbol),
        "epilogue": "residual_norm" if "fusion" in low and op == "all_reduce" else None,
        "rank_count": ranks[place] if ranks and place is not None else None,
    }


GRAMMAR = Grammar(
    library="custom_allreduce",
    title="collectives of vLLM, SGLang, TensorRT-LLM, PyTorch symmetric memory, DeepEP and NVSHMEM",
    source="vllm-project/vllm, csrc/custom_all_reduce.cuh; pytorch/pytorch, torch/csrc/distributed/c10d/CUDASymmetricMemoryOps.cu; deepseek-ai/DeepEP, csrc/kernels; NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/communicationKernels; flashinfer-ai/flashinfer, csrc",
    gate=r"cross_device_reduce|multimem_|(?i:one_?shot|two_?shot)|all_?[Rr]educe|AllReduce|allreduce|deep_ep|nvshmem|multicast|(?i:all_?to_?all)|quickreduce|all_?[Gg]ather|reduce_?scatter|ReduceScatter|symm_mem|internode|intranode|userbuffers|mori::|_on_stream_kernel|ulysses_",
    rules=(
        Rule(r"nvshmemi?_init\w*|nvshmemi?_(?:barrier|sync|fence)\w*|(?:barrier|sync)\w*_on_stream_kernel\w*", "other", "runtime"),
        Rule(r"cross_device_reduce\w*|multimem_\w+|\w*(?:[Oo]ne_?[Ss]hot|[Tt]wo_?[Ss]hot|oneshot|twoshot|ONESHOT|TWOSHOT)\w*", "collective", sign=_read),
        Rule(r"\w*ulysses_\w*", "collective", sign=_read),
        Rule(r"\w*(?:all_?[Rr]educe|AllReduce|allreduce|quickreduce|all_?[Gg]ather|AllGather|reduce_?scatter|ReduceScatter|all_?to_?all|AllToAll|alltoall)\w*", "collective", sign=_read),
        Rule(r"(?:\w+::)*(?:deep_ep|mori|userbuffers\w*|nvshmem\w*|symm_mem\w*)::\w+", "collective", where="scope", sign=_read),
        Rule(r"(?:nvshmem|k?userbuffers)\w+|\w+_on_stream_kernel\w*", "collective", sign=_read),
    ),
    tokens=(
        Token(r"cross_device_reduce|one_?shot\w*|two_?shot\w*", "every rank reads all others at once, or reduces a part and gathers"),
        Token(r"multimem\w*", "the switch adds: one load returns the sum"),
        Token(r"[12]stage", "one-shot or two-shot"),
        Token(r"ulysses_a2a\w*", "sequences exchanged for heads and back, between attention and what surrounds it"),
        Token(r"dispatch|combine", "tokens to their experts, and back"),
    ),
    examples={"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)": "collective",
              "void flashinfer::ulysses_a2a_kernel<__nv_bfloat16, 8, 0>(__nv_bfloat16 const*, int)": "collective"},
    rank=16,
)  # fmt: skip
