"""Sorts and top-k: keys pass through memory once per digit of 8 bits."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="sort, top-k, selection",
    example="DeviceRadixSortOnesweepKernel",
    place=110,
    shares=(0.65, 0.25, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=24.0, passes=4.0),
    operators={"topk": sizes(Reading.AXIS, 0, 2), "sort": sizes(Reading.AXIS, 0, 1)},
    words=(
        UserWords(
            120, "sort", "sort bitonic radix radixsort mergesort quicksort topk oddeven odd_even partition"
        ),
    ),
    streams=Streams.OWN,
)
