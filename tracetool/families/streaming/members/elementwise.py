"""Elementwise: every operand is read once, every result written once."""

from __future__ import annotations

from tracetool.families.spec import Family, Sequence, Streams, TableOperator, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="one result per element",
    example="vectorized_elementwise_kernel",
    place=70,
    shares=(0.05, 0.90, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=2.0),
    table=(TableOperator("elementwise", ("elements",), ("reads", "writes")),),
    words=(
        UserWords(
            230,
            "pointwise",
            "add addition sub subtract mul multiply div divide axpy saxpy daxpy axpby scal scale "
            "relu gelu silu sigmoid tanh activation swiglu elementwise pointwise triad vecadd "
            "vectoradd vector_add vec_add exp sqrt square saxpby waxpby map apply bias fma update "
            "increment inc clamp abs threshold mandelbrot blend ax vadd plus minus",
        ),
    ),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)
