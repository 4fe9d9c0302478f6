"""Mixtures of experts: tokens per expert, FLOPs and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import activation_bytes, dtype_of, element_bytes, on_tensor, product_rate
from tracetool.families.gemm.problem import product_work
from tracetool.hardware.gpu import Gpu

#: Groups experts are taken in, by how many tokens they get. [groups] A prior: a setting of the method, which
#: no measurement decided.
GROUPS = 12


@dataclass(frozen=True)
class Experts:
    """Layers of experts as one GPU sees them, of shape (n,), by group of experts (groups, n)."""

    pairs: Floats  # token-expert pairs computed here
    count: Floats  # touched experts of each group (groups, n)
    tokens_each: Floats  # tokens of one of them (groups, n)
    hidden: Floats
    inner: Floats  # intermediate size per GPU
    tokens: Floats
    top_k: Floats
    experts: Floats
    size: Floats  # bytes of a weight [B]
    passing_size: Floats  # bytes of an activation the products take [B]
    rate: Floats  # [FLOP/clk/SM]
    tensor: Bools


def expert_layers(rows: OperatorColumns, gpu: Gpu, skew: float = 0.9, imbalance: float = 0.4) -> Experts:
    r"""Return the expert layers of rows.

    Parameters
    ----------
    skew : float
        Factor on the exponent a power-law distribution states.
    imbalance : float
        Growth of the busiest GPU's share with the number of GPUs the experts are divided over.

    Notes
    -----
    Experts are divided over ``ep`` GPUs, the intermediate size over ``tp``. An expert of rank
    :math:`r` gets a share :math:`\propto r^{-a}` of the pairs (balanced: :math:`a = 0`); ranks are
    taken in groups, each expert of a group alike. With :math:`n` pairs expected, an expert is
    touched with probability :math:`1 - e^{-n}`.
    """
    tokens = np.maximum(rows.number("tokens", 1.0), 1.0)
    top_k = np.maximum(rows.number("top_k", 1.0), 1.0)
    experts = np.maximum(rows.number("experts", 1.0), 1.0)
    ep, tp = np.maximum(rows.number("ep", 1.0), 1.0), np.maximum(rows.number("tp", 1.0), 1.0)
    local = np.maximum(experts / ep, 1.0)
    exponent = skew * _exponent(rows)
    pairs = tokens * top_k / ep * np.where(exponent > 0, ep**imbalance, 1.0)
    pairs = np.maximum(np.minimum(pairs, tokens * np.minimum(top_k, local)), 1e-3)
    rank = (np.arange(GROUPS) + 0.5)[:, None] / GROUPS * local + 0.5
    share = rank**-exponent
    share = share / share.sum(axis=0) / (local / GROUPS)
    each = np.minimum(pairs * share, tokens)
    touched = -np.expm1(-np.maximum(each, 1e-9))
    words = dtype_of(rows, "bf16")
    return Experts(
        pairs, local / GROUPS * touched, each / touched, rows.number("hidden", 1.0),
        np.maximum(rows.number("intermediate", 1.0) / tp, 1.0), tokens, top_k, experts,
        element_bytes(words, 2.0), activation_bytes(words, gpu, 2.0), product_rate(words, gpu),
        on_tensor(words, gpu),
    )  # fmt: skip


def _exponent(rows: OperatorColumns) -> Floats:
    """Read the exponent of ``power_law_1.2``; 0 of anything else."""
    names, places = np.unique(rows.text("distribution", "balanced").astype(str), return_inverse=True)
    found = [
        _number(name.removeprefix("power_law_")) if name.startswith("power_law") else 0.0 for name in names
    ]
    return np.asarray(found, dtype=np.float64)[places.reshape(-1)]


def _number(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 4.0)
    except ValueError:
        return 1.0


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
    flops = 2.0 * e.pairs * 3.0 * e.hidden * e.inner
    tiles = (e.count * np.ceil(e.tokens_each / tile)).sum(axis=0)
    issued = np.maximum(2.0 * tiles * tile * 3.0 * e.hidden * e.inner, flops)
    active = np.maximum(e.count.sum(axis=0), 1e-3)
    weights = active * 3.0 * e.hidden * e.inner * e.size
    passing = e.pairs * (2.0 * e.hidden + 3.0 * e.inner) * 2.0 + e.tokens * e.hidden * 2.0
    filled = weights * np.maximum(tiles / active, 1.0) + passing
    return Work.of(
        len(e.pairs),
        useful_flops=flops,
        tensor_flops=np.where(e.tensor, issued, 0.0),
        fp32_flops=np.where(e.tensor, 4.0 * e.pairs * e.inner, issued),
        sfu_ops=e.pairs * e.inner,
        int_ops=4.0 * e.pairs * e.inner,
        shared_bytes=2.0 * filled,
        l2_bytes=filled,
        dram_bytes=weights + passing,
    )
