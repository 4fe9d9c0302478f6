"""The family attention: fused attention, prefill, decode and backward."""

from __future__ import annotations

from tracetool.families import names
from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.attention.choice import attention_law, attention_work
from tracetool.families.spec import Family, TableOperator, UserWords

ATTENTION = Family(
    name="attention",
    meaning="fused softmax(QK)V, forward or backward, or part of it",
    example="flash_fwd_kernel",
    place=30,
    shares=(0.60, 0.30, 0.10),
    pipe="tensor",
    needs=(("q_len", "kv_len", "heads", "head_dim"), ("q_len", "kv_len", "heads", "kv_lora_rank")),
    count=attention_work,
    laws=("prefill", "decode", "mla_prefill", "mla_decode", "encoder", "efficient_attention"),
    choose=attention_law,
    table=(
        TableOperator(
            "attention",
            ("batch", "q_len", "heads", "head_dim"),
            (
                "phase",
                "kv_len",
                "kv_heads",
                "causal",
                "window",
                "kv_dtype",
                "cache_write",
                "values_shared",
                "loop_operators",
            ),
            choices={"phase": ("prefill", "decode", "backward")},
            same={"kv_len": "q_len"},
            in_phase={"decode": ("kv_len",)},
            at_most={"kv_heads": "heads"},
            multiple_of={"heads": "kv_heads"},
        ),
        TableOperator(
            "mla",
            ("batch", "q_len", "heads", "kv_lora_rank"),
            ("phase", "kv_len", "rope_dim", "nope_dim", "v_dim", "kv_dtype"),
            choices={"phase": ("prefill", "decode")},
            same={"kv_len": "q_len"},
            in_phase={"decode": ("kv_len",)},
        ),
    ),
    operators={
        "_flash_attention_forward": sizes(Reading.ATTENTION, 0, 8, heads_first=False, longest=5, starts=3),
        "_flash_attention_backward": sizes(Reading.ATTENTION, 1, 11, heads_first=False, longest=8, starts=6),
        "_efficient_attention_forward": sizes(
            Reading.ATTENTION, 0, 9, heads_first=False, longest=6, starts=4
        ),
        "_efficient_attention_backward": sizes(
            Reading.ATTENTION, 1, 14, heads_first=False, longest=7, starts=5
        ),
        "scaled_dot_product_attention": sizes(Reading.ATTENTION, 0, 5, heads_first=True),
        "_scaled_dot_product_flash_attention": sizes(Reading.ATTENTION, 0, 4, heads_first=True),
        "_scaled_dot_product_efficient_attention": sizes(Reading.ATTENTION, 0, 6, heads_first=True),
        "_scaled_dot_product_cudnn_attention": sizes(Reading.ATTENTION, 0, 6, heads_first=True),
        "_scaled_dot_product_flash_attention_backward": sizes(Reading.ATTENTION, 1, 11, heads_first=True),
        "_flash_attn_forward": sizes(Reading.ATTENTION, 0, 5, heads_first=False),
        "_flash_attn_varlen_forward": sizes(Reading.ATTENTION, 0, 9, heads_first=False, longest=5, starts=3),
        **same_sizes("unified_attention unified_attention_with_output", sizes(Reading.PACKED_ATTENTION)),
    },
    words=(UserWords(10, "attention", "attention attn flashattn flashattention fmha mla sdpa"),),
    helpers={
        "splitkv_combine": names.SPLITK_REDUCE,
        "preprocess": names.REDUCTION,
        "convert": names.COPY,
    },
    inferred="kv_len",
)

FAMILIES = (ATTENTION,)
