"""Memory sets: bytes written once."""

from __future__ import annotations

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.law_keys import LawKey
from tracetool.families.spec import Family
from tracetool.hardware.gpu import Gpu


def count(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes written."""
    del gpu
    size = rows.number("bytes", 0.0)
    return Work.of(len(rows), l2_bytes=size, dram_bytes=size)


FAMILY = Family(
    meaning="fill of memory with one value",
    example="[CUDA memset]",
    place=310,
    shares=(0.1, 0.6, 0.3),
    pipe="latency",
    needs=(("bytes",),),
    count=count,
    laws=(LawKey.COPY,),
    activity=True,
)
