"""Rotary embedding: two products and a sum per element."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Sequence, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="rotary position embedding",
    example="rotary_embedding_kernel",
    place=170,
    shares=(0.30, 0.50, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=3.0, integer=4.0),
    operators={"rotary_embedding": sizes(Reading.TOKENS, 1, 2)},
    words=(UserWords(100, "rope", "rope rotary"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)
