"""Portability layers: Kokkos, RAJA, AMReX, OpenMP and OpenACC offload, Julia, SYCL, Alpaka, Numba.

Their entry points wrap a user's lambda: ``Kokkos::Impl::cuda_parallel_launch_*<ParallelFor<Functor>>``, ``__omp_offloading_{dev}_{file}_{function}_l{line}``,
``{function}_{line}_gpu`` (OpenACC). The loop kind separates a reduction or scan from a plain loop; the functor's name may tell more.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import by_words, format_in
from tracetool.kernels.symbols import Symbol

_FUNCTOR = re.compile(r"Parallel(?:For|Reduce|Scan)<(?:\w+::)*(\w+)")
#: OpenMP: ``__omp_offloading_{device}_{file}_{function}_l{line}``; OpenACC: ``{function}_{line}_gpu``.
_REGION = re.compile(r"__omp_offloading_[0-9a-f]{1,16}_[0-9a-f]{1,16}_(\w+?)(?:_l\d+)?$|(\w+?)_\d+_gpu")


def _kokkos(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.inside or symbol.text
    low = text.lower()
    out: Attributes = {"dtype": format_in(text[:2000])}
    if "spmv" in low or "crs" in low:
        out.update(family="sparse", op="spmv")
    elif "parallelreduce" in low or "reduce" in low[:400]:
        out.update(family="reduction", op="reduce")
    elif "parallelscan" in low:
        out.update(family="scan", op="scan")
    elif "viewcopy" in low or "viewfill" in low or "viewvalue" in low or "deepcopy" in low:
        out.update(family="copy", op="copy")
    else:
        functor = _FUNCTOR.search(text)
        reading = by_words(functor[1]) if functor else None
        out.update(family=reading[0] if reading else "other", op=reading[1] if reading else "parallel_for")
        if reading:
            out["basis"] = "words"
    return out


def _loop(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.text
    region = _REGION.match(text)
    function = (region[1] or region[2]) if region else text[:2000]
    if function.startswith("_Z"):
        function = Symbol(function).head
    reading = by_words(function) if region else None
    if reading:
        return {"family": reading[0], "op": reading[1], "basis": "words"}
    low = text[:2000].lower()
    if "reduc" in low or low.endswith("__red"):
        return {"family": "reduction", "op": "reduce"}
    return {"op": "parallel_for"}


GRAMMAR = Grammar(
    library="portability",
    title="Kokkos, RAJA, AMReX, OpenMP and OpenACC offload, Julia, SYCL, Alpaka",
    source="kokkos/kokkos, core/src/Cuda and HIP; LLNL/RAJA, include/RAJA/policy; AMReX-Codes/amrex, Src/Base/AMReX_GpuLaunch*.H; LLVM libomptarget kernel names; JuliaGPU/GPUArrays.jl",
    gate=r"Kokkos|RAJA|amrex|__omp_offloading|_\d+_gpu(?:__red)?|alpaka|^julia_|^gpu_|^_Z\d+gpu_|sycl::|_ZTS|gpu_(?:broadcast|map)|partial_mapreduce|broadcast_kernel|map_kernel|HYPRE|hypre_|Ginkgo|gko::",
    rules=(
        Rule(r"(?:\w+::)*Kokkos::", "other", where="scope", sign=_kokkos),
        Rule(r"(?:cuda|hip)_parallel_launch\w*", "other", where="head", sign=_kokkos),
        Rule(r"partial_mapreduce\w*|\w*mapreduce\w*", "reduction", "reduce"),
        Rule(r"(?:julia_|gpu_)*(?:gemm|matmul)\w*", "gemm", "gemm"),
        Rule(r"(?:julia_|gpu_)*(?:broadcast|map|fill|copy|permutedims|getindex)\w*", "elementwise", "broadcast"),
        Rule(r"(?:\w+::)*(?:gko|ginkgo)::\w*", "sparse", "sparse", where="scope"),
        Rule(r"__omp_offloading\w*|\w+_\d+_gpu\w*", "other", sign=_loop),
        Rule(r"(?:\w+::)*(?:RAJA|amrex|alpaka|sycl)::", "other", where="scope", sign=_loop),
    ),
    tokens=(
        Token(r"ParallelFor|ParallelReduce|ParallelScan", "kind of loop"),
        Token(r"__omp_offloading\w*", "OpenMP target region: device, file, function, line"),
        Token(r"cuda_parallel_launch\w*|hip_parallel_launch\w*", "Kokkos entry; the functor is its argument"),
    ),
    examples={"void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelReduce<Dot, Kokkos::RangePolicy<Kokkos::Cuda>, Kokkos::Cuda> >(Kokkos::Impl::ParallelReduce<Dot>)": "reduction"},
    rank=28,
)  # fmt: skip
