"""Memory sets: bytes written once."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.laws import LawKey
from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.work import Work


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
