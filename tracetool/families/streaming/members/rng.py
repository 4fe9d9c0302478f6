"""Random numbers and dropout: a counter-based generator per element."""

from __future__ import annotations

from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="random numbers, dropout",
    example="distribution_elementwise_grid_stride_kernel",
    place=140,
    shares=(0.50, 0.40, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=4.0, integer=20.0),
    words=(UserWords(160, "distribution", "rand random rng curand dropout noise bernoulli lcg"),),
    streams=Streams.WHOLE,
)
