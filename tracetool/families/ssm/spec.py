"""The family ssm: state-space scans and recurrent cells."""

from __future__ import annotations

from tracetool.families.arguments import Reading, alike, sizes
from tracetool.families.spec import Family, Streams, TableOperator, UserWords
from tracetool.families.ssm.law import ssm_law
from tracetool.families.ssm.problem import ssm_work

SSM = Family(
    name="ssm",
    meaning="state-space scan, recurrent cells",
    example="selective_scan_fwd_kernel",
    place=190,
    shares=(0.55, 0.35, 0.10),
    needs=(("elements", "state"), ("batch", "seq_len", "nheads", "head_dim", "d_state")),
    count=ssm_work,
    laws=("stream", "mamba2"),
    choose=ssm_law,
    table=(
        TableOperator(
            "mamba2",
            ("batch", "seq_len", "nheads", "head_dim", "d_state"),
            ("phase", "num_tokens", "d_model", "d_conv", "n_groups", "chunk_size", "implementation"),
            dtype=False,
            choices={"phase": ("prefill", "decode", "context", "generation")},
        ),
    ),
    operators=alike("selective_scan_fwd SelectiveScanFn", sizes(Reading.STATE_SCAN, 0)),
    words=(UserWords(190, "scan", "ssm mamba lstm gru rnn rwkv"),),
    streams=Streams.OWN,
)

FAMILIES = (SSM,)
