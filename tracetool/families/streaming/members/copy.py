"""Copies: cat, transpose, cast, pad, fill. No arithmetic but addresses."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Sequence, Streams, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="cat, transpose, cast, pad, fill",
    example="CatArrayBatchedCopy",
    place=80,
    shares=(0.07, 0.88, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=4.0),
    operators={"copy": sizes(Reading.COPIED), **alike("cat _cat stack", sizes(Reading.CONCATENATED))},
    words=(
        UserWords(
            220,
            "copy",
            "copy transpose permute memcpy memset fill cat concat cast pad reshape zero set init "
            "initialize transfer pack unpack swap convert upload clear load store rearrange "
            "reorder",
        ),
    ),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)
