"""The family ssm: state-space scans and recurrent cells."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Streams, UserWords
from tracetool.families.ssm.problem import scan_work

SSM = Family(
    name="ssm",
    meaning="state-space scan, recurrent cells",
    example="selective_scan_fwd_kernel",
    place=190,
    shares=(0.55, 0.35, 0.10),
    needs=(("elements", "state"),),
    count=scan_work,
    operators=alike("selective_scan_fwd SelectiveScanFn", sizes(Reading.STATE_SCAN, 0)),
    words=(UserWords(190, "scan", "ssm mamba lstm gru rnn rwkv"),),
    streams=Streams.OWN,
)

FAMILIES = (SSM,)
