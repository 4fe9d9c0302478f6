"""Fused attention, prefill, decode and backward."""

from __future__ import annotations

from tracetool.families.family import Family
from tracetool.families.scores import attention_work

FAMILY = Family(
    count=attention_work,
    needs=(("q_len", "heads", "head_dim"),),
    shares=(0.60, 0.30, 0.10),
    pipe="tensor",
)
