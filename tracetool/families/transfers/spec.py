"""The families of transfers: collectives, memory copies and memory sets."""

from __future__ import annotations

from tracetool.families.spec import Family, TableOperator, UserWords
from tracetool.families.transfers.collective import choose_fabric
from tracetool.families.transfers.problem import collective_work, copy_work, set_work

#: Collectives: bytes on the wire by algorithm and rank count.
COLLECTIVE = Family(
    name="collective",
    meaning="communication between GPUs",
    example="ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    place=200,
    shares=(0.10, 0.10, 0.80),
    pipe="latency",
    needs=(("bytes",),),
    count=collective_work,
    laws=("collective", "collective_host", "collective_servers"),
    choose=choose_fabric,
    table=(TableOperator("collective", ("bytes", "ranks"), ("kind", "rank_stride"), dtype=False),),
    words=(UserWords(0, "collective", "allreduce allgather alltoall reducescatter"),),
)

#: Memory copies: over the host link, else through device memory.
MEMCPY = Family(
    name="memcpy",
    meaning="copy of memory, on the device or over a link",
    example="[CUDA memcpy HtoD]",
    place=300,
    shares=(0.0, 0.8, 0.2),
    pipe="latency",
    needs=(("bytes",),),
    count=copy_work,
    laws=("copy",),
    table=(TableOperator("memcpy", ("bytes",), ("kind",), dtype=False),),
    activity=True,
)

#: Memory sets: bytes written once.
MEMSET = Family(
    name="memset",
    meaning="fill of memory with one value",
    example="[CUDA memset]",
    place=310,
    shares=(0.1, 0.6, 0.3),
    pipe="latency",
    needs=(("bytes",),),
    count=set_work,
    laws=("copy",),
    activity=True,
)

FAMILIES = (COLLECTIVE, MEMCPY, MEMSET)
