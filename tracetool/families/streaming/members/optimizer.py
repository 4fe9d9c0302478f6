"""Optimizers: weights, gradients and moments pass through memory once."""

from __future__ import annotations

from tracetool.families.spec import Family, Sequence, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="weight update over many tensors in one launch",
    example="multi_tensor_apply_kernel",
    place=150,
    shares=(0.15, 0.80, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=12.0, sfu=1.0),
    words=(UserWords(170, "step", "adam adamw sgd optimizer lamb adagrad"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)
