"""The family ssm: state-space scans and recurrent cells."""

from __future__ import annotations

from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.spec import Family, Streams, TableOperator, UserWords
from tracetool.families.ssm.law import SSM_LAWS, ssm_law
from tracetool.families.ssm.problem import ssm_work

SSM = Family(
    name="ssm",
    meaning="state-space scan, recurrent cells",
    example="selective_scan_fwd_kernel",
    place=190,
    shares=(0.55, 0.35, 0.10),
    needs=(
        ("elements", "state"),
        ("batch", "seq_len", "nheads", "head_dim", "d_state"),
        ("batch", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
    ),
    count=ssm_work,
    laws=SSM_LAWS,
    choose=ssm_law,
    table=(
        TableOperator(
            "mamba2",
            ("batch", "seq_len", "nheads", "head_dim", "d_state"),
            ("phase", "num_tokens", "d_model", "d_conv", "n_groups", "chunk_size", "state_dtype"),
            dtype=False,
            choices={"phase": ("prefill", "decode", "context", "generation")},
        ),
        TableOperator(
            "gdn",
            ("batch", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
            ("phase", "num_tokens", "d_model", "d_conv"),
            dtype=False,
            choices={"phase": ("prefill", "decode", "context", "generation")},
        ),
    ),
    operators=same_sizes("selective_scan_fwd SelectiveScanFn", sizes(Reading.STATE_SCAN, 0)),
    words=(UserWords(190, "scan", "ssm mamba lstm gru rnn rwkv"),),
    streams=Streams.OWN,
)

FAMILIES = (SSM,)
