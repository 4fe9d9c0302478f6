"""Memory copies: over the host link, else through device memory."""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.law_keys import LawKey
from tracetool.families.spec import Family, TableOperator
from tracetool.hardware.gpu import Gpu


def over_link(rows: OperatorColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which copies cross the host or peer link: those whose kind names two sides. Shape (n,)."""
    texts = rows.text("kind").astype(str)
    names = rows.text("name").astype(str)
    words = np.char.lower(np.char.add(np.char.add(texts, " "), names))
    crossing = ("htod", "dtoh", "h2d", "d2h", "ptop", "p2p", "host", "pcie", "peer")
    found = np.zeros(len(rows), dtype=np.bool_)
    for word in crossing:
        found |= np.char.find(words, word) >= 0
    return found


def count(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Count bytes: a copy on the device reads and writes memory, one over a link does either."""
    del gpu
    size = rows.number("bytes", 0.0)
    link = over_link(rows)
    moved = np.where(link, size, 2.0 * size)
    return Work.of(len(rows), l2_bytes=moved, dram_bytes=moved, link_bytes=np.where(link, size, 0.0))


FAMILY = Family(
    meaning="copy of memory, on the device or over a link",
    example="[CUDA memcpy HtoD]",
    place=300,
    shares=(0.0, 0.8, 0.2),
    pipe="latency",
    needs=(("bytes",),),
    count=count,
    laws=(LawKey.COPY,),
    table=(TableOperator("memcpy", ("bytes",), ("kind",), dtype=False),),
    activity=True,
)
