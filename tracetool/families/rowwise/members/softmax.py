"""Softmax: one exponential per element of rows kept on chip."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.law_keys import LawKey
from tracetool.families.rowwise.problem import row_counter
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

FAMILY = Family(
    meaning="softmax over rows",
    example="softmax_warp_forward",
    place=60,
    shares=(0.30, 0.60, 0.10),
    needs=(("rows", "cols"),),
    count=row_counter(flops=5.0, sfu=1.0, sfu_per_row=1.0),
    laws=(LawKey.SOFTMAX,),
    table=(TableOperator("softmax", ("rows", "cols")),),
    operators={
        **alike("_softmax _log_softmax softmax log_softmax _safe_softmax", sizes(Reading.AXIS, 0, 1)),
        **alike("_softmax_backward_data _log_softmax_backward_data", sizes(Reading.AXIS, 0, 2)),
    },
    words=(UserWords(40, "softmax", "softmax logsoftmax"),),
    sequence=Sequence.SOFTMAX,
    inferred="cols",
    row_blocks=True,
)
