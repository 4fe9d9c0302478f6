"""Quantization: scales by a maximum, then a cast."""

from __future__ import annotations

from tracetool.families.spec import Family, Sequence, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="number format with scales, either way",
    example="scaled_fp8_quant_kernel",
    place=160,
    shares=(0.30, 0.60, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=4.0),
    words=(UserWords(110, "quantize", "quantize dequantize quant dequant quantization"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)
