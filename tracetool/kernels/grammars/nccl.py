"""NCCL and RCCL: collectives.

Old ``ncclKernel_{Coll}_{ALGO}_{PROTO}_{Redop}_{type}``; new ``ncclDevKernel_{Coll}[_{Redop}][_{type}]_{ALGO}_{PROTO}``. Only some of
the new entries are compiled: algorithm and protocol in a new name are those of the entry, not of the run.
``ncclDevKernel_Generic_{unroll}`` and ``mscclKernel_{redop}_{type}_{proto}_{full}`` do not say which collective.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format, typed
from tracetool.kernels.symbols import Symbol

_KINDS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "allgatherv": "all_gather", "reducescatter": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce", "sendrecv": "send_recv", "alltoall": "all_to_all", "alltoallv": "all_to_all",
    "gather": "gather", "scatter": "scatter", "alltoallpivot": "all_to_all", "generic": "generic", "send": "send_recv", "recv": "send_recv",
}  # fmt: skip
_ALGO = re.compile(r"_(RING|TREE|COLLNET\w*?|NVLS(?:_TREE)?|PAT)(?=_|$)", re.IGNORECASE)
_PROTO = re.compile(r"_(LL128|LL|SIMPLE)(?=_|$)", re.IGNORECASE)
_REDOP = re.compile(r"_(Sum|Prod|MinMax|Min|Max|PreMulSum|SumPostDiv)(?=_|$)")
_TYPE = re.compile(
    r"_(f16|f32|f64|bf16|i8|i32|i64|u8|u32|u64|f8e4m3|f8e5m2|half|float|double|int8_t|uint8_t|int32_t|uint32_t|int64_t|uint64_t|"
    r"hip_bfloat16|__nv_bfloat16|rccl_bfloat16|rccl_float8|rccl_bfloat8)(?=_|$)"
)
_FORMATS = {"u32": "int32", "i32": "int32", "i64": "int64", "u64": "int64", "uint64_t": "int64", "f8e4m3": "fp8", "f8e5m2": "fp8", "rccl_float8": "fp8", "rccl_bfloat8": "fp8", "rccl_bfloat16": "bf16"}  # fmt: skip


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    kind = (match.groupdict().get("kind") or "").lower()
    algo, proto, redop, dtype = (p.search(text) for p in (_ALGO, _PROTO, _REDOP, _TYPE))
    return {
        "op": _KINDS.get(kind, "msccl" if text.startswith("msccl") else "generic"),
        "algo": algo[1].lower() if algo else None,
        "proto": proto[1].lower() if proto else None,
        "redop": redop[1].lower() if redop else None,
        "dtype": (_FORMATS.get(dtype[1]) or number_format(dtype[1])) if dtype else None,
        "library": "rccl" if text.startswith(("rccl", "msccl")) or kind == "generic" else "nccl",
    }


def _one_rank(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {"dtype": typed(symbol), "redop": "premulsum" if "PreMulSum" in symbol.inside else None}


GRAMMAR = Grammar(
    library="nccl",
    title="collectives of NCCL and RCCL",
    source="NVIDIA/nccl, src/device/generate.py and common.h; ROCm/rccl, src/device and msccl",
    gate=r"nccl|rccl|msccl|oneRankReduce",
    rules=(
        Rule(r"ncclDevKernel(?:Debug)?_(?P<kind>[A-Za-z]+)", "collective", sign=_read),
        Rule(r"ncclKernel_(?P<kind>[A-Za-z]+)", "collective", sign=_read),
        Rule(r"nccl(?P<kind>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)\w*", "collective", sign=_read),
        Rule(r"(?:rcclGenericKernel|mscclKernel|mscclpp|ncclDev|nccl|rccl)\w*", "collective", sign=_read),
        Rule(r"oneRankReduce", "collective", "one_rank_reduce", sign=_one_rank),
    ),
    tokens=(
        Token(r"nccl\w*Kernel|ncclDevKernel", "kernel of a collective library"),
        Token(r"AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|Generic", "the collective; Generic: chosen at run time"),
        Token(r"RING|TREE|NVLS|COLLNET|PAT", "algorithm of the compiled entry"),
        Token(r"LL|LL128|SIMPLE|Simple", "protocol: flags with data, flags per 128 bytes, or bulk"),
        Token(r"Sum|Prod|Min|Max|MinMax|PreMulSum|SumPostDiv", "reduction operator"),
        Token(r"f16|f32|f64|bf16|i8|u8|i32|half|float|double", "number format"),
    ),
    examples={
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "collective",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "collective",
    },
    rank=10,
)  # fmt: skip
