"""Pooling and resampling: windows overlap on chip."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="pooling and resampling",
    example="max_pool_forward_nchw",
    place=130,
    shares=(0.40, 0.50, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=9.0),
    operators={
        "max_pool2d_with_indices": sizes(Reading.POOLED, 0, indices=True),
        "avg_pool2d": sizes(Reading.POOLED, 0),
        "max_pool2d_with_indices_backward": sizes(Reading.POOLED, 1, backward=True, indices=True),
        "avg_pool2d_backward": sizes(Reading.POOLED, 1, backward=True),
    },
    words=(UserWords(140, "pool", "pool maxpool avgpool pooling upsample interpolate resize bilinear"),),
    streams=Streams.WHOLE,
)
