"""Mixtures of experts: tokens per expert, FLOPs and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.families.formats import dtype_of, element_bytes, on_tensor, product_rate
from tracetool.hardware.gpu import Gpu
from tracetool.vocabulary.arrays import Bools, Floats
from tracetool.vocabulary.operators import OperatorColumns
from tracetool.vocabulary.work import Work


@dataclass(frozen=True)
class Experts:
    """Layers of experts as one GPU of the group sees them, all of shape (n,)."""

    pairs: Floats  # token-expert pairs computed here
    local: Floats  # experts held here
    active: Floats  # experts that get a token
    hidden: Floats
    inner: Floats  # intermediate size per GPU
    tokens: Floats
    size: Floats  # bytes of a weight [B]
    rate: Floats  # [FLOP/clk/SM]
    tensor: Bools


def expert_layers(rows: OperatorColumns, gpu: Gpu) -> Experts:
    """Return the expert layers of rows.

    Experts are divided over ``ep`` GPUs, the intermediate size over ``tp``. With random routing the
    expected number of the E local experts that get at least one of P pairs is E (1 - (1 - 1/E)^P).
    """
    tokens = np.maximum(rows.number("tokens", 1.0), 1.0)
    top_k = np.maximum(rows.number("top_k", 1.0), 1.0)
    experts = np.maximum(rows.number("experts", 1.0), 1.0)
    ep, tp = np.maximum(rows.number("ep", 1.0), 1.0), np.maximum(rows.number("tp", 1.0), 1.0)
    local = np.maximum(experts / ep, 1.0)
    pairs = np.maximum(tokens * top_k / ep, 1.0)
    even = rows.text("distribution", "balanced") == "balanced"
    spread = local * -np.expm1(pairs * np.log1p(-1.0 / np.maximum(local, 1.0 + 1e-9)))
    active = np.where(even, np.minimum(local, pairs), np.minimum(spread, pairs))
    words = dtype_of(rows, "bf16")
    return Experts(
        pairs, local, np.maximum(active, 1.0), rows.number("hidden", 1.0),
        np.maximum(rows.number("intermediate", 1.0) / tp, 1.0), tokens,
        element_bytes(words, 2.0), product_rate(words, gpu), on_tensor(words, gpu),
    )  # fmt: skip


def moe_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of expert layers: gate and up, then down, each expert's weights read once."""
    e = expert_layers(rows, gpu)
    flops = 2.0 * e.pairs * 3.0 * e.hidden * e.inner
    weights = e.active * 3.0 * e.hidden * e.inner * e.size
    per_expert = e.pairs / e.active
    padded = np.ceil(per_expert / 16.0) * 16.0 / per_expert
    passing = e.pairs * (2.0 * e.hidden + 3.0 * e.inner) * 2.0 + e.tokens * e.hidden * 2.0
    tiles = np.maximum(np.ceil(per_expert / 128.0), 1.0)
    filled = weights * tiles + passing
    return Work.of(
        len(rows),
        useful_flops=flops,
        tensor_flops=np.where(e.tensor, flops * padded, 0.0),
        fp32_flops=np.where(e.tensor, 4.0 * e.pairs * e.inner, flops),
        sfu_ops=e.pairs * e.inner,
        int_ops=4.0 * e.pairs * e.inner,
        shared_bytes=2.0 * filled,
        l2_bytes=filled,
        dram_bytes=weights + passing,
    )
