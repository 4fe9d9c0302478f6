"""Reductions: many elements in, few out."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Sequence, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="many elements to few",
    example="reduce_kernel",
    place=90,
    shares=(0.25, 0.60, 0.15),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=1.0),
    operators=alike(
        "sum mean amax amin max min argmax argmin prod std var any all norm linalg_vector_norm logsumexp "
        "nansum var_mean std_mean count_nonzero aminmax",
        sizes(Reading.REDUCED),
    ),
    words=(
        UserWords(
            150,
            "reduce",
            "histogram hist reduce reduction sum dot dotproduct norm nrm2 argmax argmin max min "
            "mean variance average std covar covariance corr correlation accumulate asum count",
        ),
    ),
    sequence=Sequence.STREAM,
    inferred="cols",
)
