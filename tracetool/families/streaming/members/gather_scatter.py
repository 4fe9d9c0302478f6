"""Gathers and scatters: rows at arbitrary places cost whole sectors."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Sequence, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="indexed reads or writes: embedding, index, cache write",
    example="indexSelectLargeIndex",
    place=100,
    shares=(0.20, 0.60, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=6.0, sectors=True),
    operators={
        "embedding": sizes(Reading.EMBEDDING, 0, 1),
        "index_select": sizes(Reading.EMBEDDING, 0, 2),
        **alike(
            "reshape_and_cache_flash reshape_and_cache concat_and_cache_mla", sizes(Reading.TOKENS, 0, 2)
        ),
    },
    words=(UserWords(210, "index", "embedding gather scatter index lookup spmspv hash join probe"),),
    streams=Streams.OWN,
    sequence=Sequence.STREAM,
)
