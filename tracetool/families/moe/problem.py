"""Mixtures of experts: tokens per expert, FLOPs and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import (
    activation_bytes,
    dtype_of,
    element_bytes,
    full_rate_share,
    on_tensor,
    packed_share,
    product_rate,
)
from tracetool.families.gemm.problem import product_work
from tracetool.families.moe.routing import routed
from tracetool.hardware.gpu import Gpu

#: Word of the implementations that convert MXFP4 weights to 16 bits as they load them. [1] By definition of
#: sgl-project/sglang, ``Mxfp4MoEMethod.process_weights_after_loading``.
UPCAST = "fused_moe_triton"
#: Instructions for each weight that is converted to the 16 bits of what passes through: a conversion and a
#: product by its scale, each of two weights at once, and its way from and to shared memory. [1] A prior; 1
#: in its place errs by 1.2 points more where weights of 4 bits were measured on a B200.
CONVERTED_OPS = 2.0


@dataclass(frozen=True)
class Experts:
    """Layers of experts as one GPU sees them, of shape (n,), by group of experts (groups, n)."""

    pairs: Floats  # token-expert pairs computed here
    remote: Floats  # pairs of the same tokens with experts on other GPUs
    count: Floats  # touched experts of each group (groups, n)
    tokens_each: Floats  # tokens of one of them (groups, n)
    hidden: Floats
    inner: Floats  # intermediate size per GPU
    tokens: Floats
    first: Floats  # pairs with experts on other GPUs that a loop lets the first expert of this one compute
    top_k: Floats
    experts: Floats
    local: Floats  # experts of this GPU
    gate: Floats  # matrices of the first product: 2 with a gate beside the values, 1 without
    size: Floats  # bytes of a weight [B]
    passing_size: Floats  # bytes of an activation the products take [B]
    rate: Floats  # [FLOP/clk/SM]
    left: Floats  # share of the architecture's matrix rate [1]
    tensor: Bools
    packed: Floats | None = None  # FP32 operations whose lanes one outside tensor cores takes; none: one

    @property
    def converted(self) -> Bools:
        """Whether each weight is converted to the 16 bits of the activations."""
        return np.asarray((self.size < 2.0) & (self.passing_size >= 2.0))


def expert_layers(rows: OperatorColumns, gpu: Gpu, gate: float = 2.0, first: float = 0.0) -> Experts:
    """Return the expert layers of rows.

    Experts are divided over ``ep`` GPUs, of which the busiest is timed, the intermediate size over ``tp``.
    """
    tokens = np.maximum(rows.number("tokens", 1.0), 1.0)
    top_k = np.maximum(rows.number("top_k", 1.0), 1.0)
    experts = np.maximum(rows.number("experts", 1.0), 1.0)
    ep, tp = np.maximum(rows.number("ep", 1.0), 1.0), np.maximum(rows.number("tp", 1.0), 1.0)
    of_busiest = routed(rows, tokens, top_k, experts, ep)
    words = stored_formats(rows)
    local_tokens = tokens_here(
        rows, of_busiest.pairs, tokens, np.minimum(top_k, np.maximum(experts / ep, 1.0))
    )
    remote = np.maximum(local_tokens * top_k - of_busiest.pairs, 0.0)
    computes_remote = (rows.number("remote_to_first", first) > 0.0) & (ep > 1.0)
    added = np.where(computes_remote, remote, 0.0)
    return Experts(
        of_busiest.pairs + added, remote - added, of_busiest.count, of_busiest.tokens_each,
        rows.number("hidden", 1.0), np.maximum(rows.number("intermediate", 1.0) / tp, 1.0),
        np.where(computes_remote, local_tokens, tokens), added, top_k, experts,
        np.maximum(experts / ep, 1.0), _gate(rows, gate),
        element_bytes(words, 2.0), activation_bytes(words, gpu, 2.0), product_rate(words, gpu),
        full_rate_share(words, gpu), on_tensor(words, gpu), packed_share(words, gpu),
    )  # fmt: skip


def tokens_here(rows: OperatorColumns, pairs: Floats, tokens: Floats, most: Floats) -> Floats:
    """Return how many tokens have an expert on this GPU, of which one has at most ``most``. Shape (n,)."""
    dealt = np.minimum(pairs, tokens)
    drawn = tokens * -np.expm1(most * np.log1p(-np.minimum(pairs / (tokens * most), 1.0 - 1e-9)))
    return np.where(rows.text("distribution", "") == "balanced", dealt, np.minimum(drawn, dealt))


def stored_formats(rows: OperatorColumns) -> Texts:
    """Return the format of each row's weights in memory: 16 bits where a library converts as it loads."""
    words = dtype_of(rows, "bf16")
    if "implementation" not in rows.columns:
        return words
    names, places = rows.distinct("implementation")
    loaded = np.asarray([UPCAST in name.lower() for name in names], dtype=np.bool_)[places]
    return np.where(loaded & (words == "w4a16_mxfp4"), "bf16", words).astype(object)


def _gate(rows: OperatorColumns, otherwise: float) -> Floats:
    """Return the matrices of each row's first product: 1 where no gate is stated, or ``nongated`` called."""
    stated = rows.number("gated")
    matrices = np.full(len(rows), otherwise)
    if "implementation" in rows.columns:
        names, places = rows.distinct("implementation")
        matrices = np.asarray([1.0 if "nongated" in name.lower() else otherwise for name in names])[places]
    return np.where(np.isfinite(stated), np.where(stated > 0.0, 2.0, 1.0), matrices)


def moe_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of expert layers in tiles of 64, or of one product where only m, n, k are known."""
    if not np.isfinite(rows.number("tokens")).any():
        return product_work(rows, gpu)
    return layers_work(expert_layers(rows, gpu), 64.0)


def layers_work(e: Experts, tile: Floats | float) -> Work:
    """Return the work of expert layers: gate and up, then down, each touched expert's weights read once.

    Parameters
    ----------
    e : Experts
        n layers.
    tile : float or array, shape (n,)
        Tokens of a tile: every tile draws the weights from L2.
    """
    matrices = e.gate + 1.0
    flops = 2.0 * e.pairs * matrices * e.hidden * e.inner
    tiles = (e.count * np.ceil(e.tokens_each / tile)).sum(axis=0) + e.first / tile
    issued = np.maximum(2.0 * tiles * tile * matrices * e.hidden * e.inner, flops)
    active = np.maximum(e.count.sum(axis=0), 1e-3)
    weights = active * matrices * e.hidden * e.inner * e.size
    # every tile converts the weights it multiplies
    converted = np.where(e.converted, CONVERTED_OPS, 0.0) * tiles * matrices * e.hidden * e.inner
    passing = e.pairs * (2.0 * e.hidden + matrices * e.inner) * 2.0 + e.tokens * e.hidden * 2.0
    filled = weights * np.maximum(tiles / active, 1.0) + passing
    packed = 1.0 if e.packed is None else e.packed
    return Work.of(
        len(e.pairs),
        useful_flops=flops,
        tensor_flops=np.where(e.tensor, issued, 0.0),
        fp32_flops=np.where(e.tensor, 4.0 * e.pairs * e.inner, issued * packed),
        sfu_ops=e.pairs * e.inner,
        int_ops=4.0 * e.pairs * e.inner,
        instructions=converted,
        shared_bytes=2.0 * filled,
        l2_bytes=filled,
        dram_bytes=weights + passing,
    )
