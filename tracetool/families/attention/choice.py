"""Attention of either kind, heads with keys of their own and latent: its work, and the law of each row."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.attention.latent import is_latent, latent_work, latents
from tracetool.families.attention.memory_efficient import is_memory_efficient
from tracetool.families.attention.problem import heads_work
from tracetool.hardware.gpu import Gpu


def attention_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of attention rows."""
    latent = is_latent(rows)
    if not latent.any():
        return heads_work(rows, gpu)
    work = Work.of(len(rows))
    work.put(latent, latent_work(latents(rows.take(latent), gpu)))
    if not latent.all():
        work.put(~latent, heads_work(rows.take(~latent), gpu))
    return work


def attention_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place of each row's law: prefill, decode, latent of both, encoder, efficient. (n,)"""
    del gpu
    phase, q_len = rows.text("phase"), rows.number("q_len", 1.0)
    decode = (phase == "decode") | ((phase == "") & (q_len <= 1))
    latent = is_latent(rows)
    encoder = (rows.number("causal", 1.0) <= 0) & (phase == "prefill") & ~latent
    place = np.where(encoder, 4, np.where(decode, 1, 0) + np.where(latent, 2, 0))
    return np.asarray(np.where(is_memory_efficient(rows), 5, place), dtype=np.int64)
