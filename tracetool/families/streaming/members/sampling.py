"""Sampling: softmax, selection and a draw per row."""

from __future__ import annotations

from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="choice of the next token",
    example="TopPSamplingFromProbKernel",
    place=180,
    shares=(0.50, 0.30, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=6.0, sfu=1.0, integer=12.0, passes=2.0),
    words=(UserWords(180, "sampling", "sampling sample sampler multinomial"),),
    streams=Streams.OWN,
)
