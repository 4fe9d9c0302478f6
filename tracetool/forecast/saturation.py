r"""Training by efficiencies that saturate: a few coefficients in place of the kernels' laws.

After Tchakoute, Tadonki, Dokladal and Mesri, "A Framework for Analytical Performance and Energy Prediction of
DL Training on GPUs", SBAC-PAD 2025, of which only the abstract is public: the form is ours. An operator takes

.. math:: t = \max\left(\frac{F}{\eta_p \, s(d) \, P_p}, \frac{Q}{\eta_m B}\right) + t_l, \quad
    s(d) = \prod_{d \in \{m, n, k\}} \frac{d}{d + d_0}

with operations F, bytes Q, the peak P of the precision p and the bandwidth B. Shared parameters count as they
run: operations and activations of every executed layer, weights, gradients and optimizer of the unique ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import tomli

from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.dtype import BYTES
from tracetool.core.interval import Z90
from tracetool.families import names
from tracetool.families.formats import product_rate
from tracetool.forecast.pricing import PassRows, PricedPass, Row, ladder_mhz
from tracetool.hardware.gpu import Gpu
from tracetool.model.idle import idle_power_w
from tracetool.model.power_files import power_calibration_of

#: Families of operators that have an efficiency of their own, in the order of the arrays.
KINDS: Final = ("product", "attention", "stream", "exchange")
_PRODUCT, _ATTENTION, _STREAM, _EXCHANGE = range(len(KINDS))
#: Precisions with an efficiency of their own; others take that of bf16.
PRECISIONS: Final = ("fp32", "tf32", "fp16", "bf16")
METHOD: Final = "saturation"
#: Bytes of activations: TF32 is a precision of products alone.
_BYTES: Final = {**BYTES, "tf32": 4.0}


@dataclass(frozen=True)
class Saturation:
    """Coefficients of the method; see ``saturation.toml``.

    None belongs to a model: :func:`refined` finds scalars of models from one's own runs.
    """

    product: Mapping[str, float]  # highest efficiency of products by precision [1]
    attention: float  # highest efficiency of attention's products, over that of products [1]
    stream: float  # share of the bandwidth passes over memory reach [1]
    half: float  # size of a product at which a dimension halves its efficiency [1]
    launch_s: float  # time of an operator beside its work [s]
    link: float  # share of the link's bandwidth exchanges reach [1]
    compute_power: float  # share of the span from idle power to the limit, of products at their peak [1]
    memory_power: float  # the same, of memory at its bandwidth [1]
    time_sd: float  # spread of times of models left out [ln]
    power_sd: float  # spread of powers [ln]


@cache
def delivered() -> Saturation:
    """Return the coefficients in ``saturation.toml``."""
    document = tomli.loads(Path(__file__).with_name("saturation.toml").read_text("utf-8"))
    scalars = {name: float(entry["value"]) for name, entry in document["all"].items()}
    return Saturation({p: float(entry["value"]) for p, entry in document["product"].items()}, **scalars)


@dataclass(frozen=True)
class OperatorWork:
    """Work of n operators, whatever GPU runs them. Shape (n,) each."""

    kind: Ints  # place in KINDS
    precision: Texts
    flops: Floats
    moved_bytes: Floats
    sizes: Floats  # (n, 3) m, n, k of products; infinite where they do not limit
    ranks: Floats


def operator_work(rows: Sequence[Row]) -> OperatorWork:
    """Return the work of operator rows, one launch of each."""
    work = [_work(row) for row in rows]
    kind, flops, moved, sizes = (list(column) for column in zip(*work, strict=True))
    return OperatorWork(
        np.array(kind, np.int64),
        np.array([_precision(row) for row in rows], object),
        np.array(flops, np.float64),
        np.array(moved, np.float64),
        np.array(sizes, np.float64),
        np.array([_value(row, "ranks", 1.0) for row in rows], np.float64),
    )


_FREE: Final = (np.inf, np.inf, np.inf)


def _value(row: Row, name: str, default: float) -> float:
    value = row.get(name)
    return default if value is None else float(value)


def _precision(row: Row) -> str:
    dtype = str(row.get("dtype") or "bf16")
    return dtype if dtype in PRECISIONS else "bf16"


def _work(row: Row) -> tuple[int, float, float, tuple[float, float, float]]:
    """Return kind, operations, bytes and sizes of a row."""
    size = _BYTES.get(str(row.get("dtype") or "bf16"), 2.0)
    op = row["op"]
    if op == names.GEMM:
        batch, m, n, k = (_value(row, name, 1.0) for name in ("batch", "m", "n", "k"))
        return _PRODUCT, 2.0 * batch * m * n * k, size * batch * (m * k + k * n + m * n), (m, n, k)
    if op == names.MOE:
        tokens, hidden, inner, chosen, experts = (
            _value(row, name, 1.0) for name in ("tokens", "hidden", "intermediate", "top_k", "experts")
        )
        gpus = max(_value(row, "ep", 1.0), 1.0) * max(_value(row, "tp", 1.0), 1.0)
        flops = 6.0 * tokens * chosen * hidden * inner / gpus
        weights = 3.0 * experts * hidden * inner / gpus
        rows = max(tokens * chosen / experts, 1.0)
        return (
            _PRODUCT,
            flops,
            size * (weights + 2.0 * tokens * chosen * hidden / gpus),
            (rows, inner, hidden),
        )
    if op == names.ATTENTION:
        batch, q_len, kv_len, heads, width = (
            _value(row, name, 1.0) for name in ("batch", "q_len", "kv_len", "heads", "head_dim")
        )
        causal_share = 0.5 if _value(row, "causal", 0.0) and q_len > 1 else 1.0
        flops = 4.0 * batch * heads * q_len * kv_len * width * causal_share
        return (
            _ATTENTION,
            flops,
            size * batch * heads * width * 2.0 * (q_len + kv_len),
            (q_len, kv_len, np.inf),
        )
    if op == names.COLLECTIVE:
        return _EXCHANGE, 0.0, _value(row, "bytes", 0.0), _FREE
    if op == "conv2d":
        batch, height, wide, channels, filters = (
            _value(row, name, 1.0) for name in ("batch", "height", "width", "channels", "filters")
        )
        stride, taps = _value(row, "stride", 1.0), _value(row, "kernel_h", 1.0) * _value(row, "kernel_w", 1.0)
        pixels, depth = batch * height * wide / stride**2, channels * taps / _value(row, "groups", 1.0)
        moved = size * (batch * height * wide * channels + pixels * filters + depth * filters)
        return _PRODUCT, 2.0 * pixels * filters * depth, moved, (pixels, filters, depth)
    elements = _value(row, "elements", 0.0) or _value(row, "rows", 1.0) * _value(row, "cols", 1.0)
    return _STREAM, 0.0, size * elements * (_value(row, "reads", 1.0) + _value(row, "writes", 1.0)), _FREE


def _peak(work: OperatorWork, gpu: Gpu) -> Floats:
    """Return the peak of products of each operator; matrix cores multiply fp32 too on some. [FLOP/clk/SM]"""
    rate = product_rate(work.precision, gpu)
    return np.where(work.precision == "fp32", np.maximum(rate, gpu.matrix_fp32), rate)


def operator_times(work: OperatorWork, gpu: Gpu, clock_mhz: Floats, of: Saturation) -> Floats:
    """Return the time of a launch of each operator at each clock. Shape (n, c). [s]"""
    shares = (1.0 / (1.0 + of.half / work.sizes)).prod(axis=1)
    best = np.array([of.product.get(p, of.product["bf16"]) for p in work.precision])
    best = np.where(work.kind == _ATTENTION, of.attention * best, best)
    rate = gpu.sm_count * _peak(work, gpu) * best * shares * 1e6
    compute = work.flops[:, None] / (rate[:, None] * np.asarray(clock_mhz, np.float64)[None])
    memory = work.moved_bytes / (of.stream * gpu.dram_bytes_per_s)
    link = gpu.link_rate(work.ranks) if gpu.link_ranks > 1 else gpu.pcie_bytes_per_s
    ring = 2.0 * (1.0 - 1.0 / np.maximum(work.ranks, 1.0)) * work.moved_bytes / (of.link * link)
    memory = np.where(work.kind == _EXCHANGE, ring, memory)
    return np.asarray(np.maximum(compute, memory[:, None]) + of.launch_s)


def saturated(one: PassRows, *, ladder: bool = False, of: Saturation | None = None) -> PricedPass:
    r"""Return a pass priced by the method.

    .. math:: P = P_{idle} + (P_{limit} - P_{idle}) \, (a_c U_c + a_m U_m) \, f V^2 / (f_0 V_0^2)

    with the shares U of the peak of products and of the bandwidth an operator reaches.
    """
    gpu, work, of = one.gpu, operator_work(one.rows), of or delivered()
    clocks = ladder_mhz(gpu, one.clock_mhz) if ladder else np.array([one.clock_mhz], np.float64)
    time = operator_times(work, gpu, clocks, of)
    idle = idle_power_w(gpu, clocks, power_calibration_of(gpu))
    peak = gpu.sm_count * _peak(work, gpu)[:, None] * 1e6 * clocks[None]
    busy = work.flops[:, None] / (peak * time)
    exchange: Bools = work.kind == _EXCHANGE
    moved = np.where(exchange, 0.0, work.moved_bytes)[:, None] / (gpu.dram_bytes_per_s * time)
    step = clocks * gpu.voltage_v(clocks) ** 2
    scale = step / (gpu.clock_boost_mhz * float(gpu.voltage_v(gpu.clock_boost_mhz)) ** 2)
    share = of.compute_power * busy + of.memory_power * moved
    above = (gpu.power_limit_w - gpu.idle_w) * share * scale[None]
    families = np.array([_FAMILY[kind] for kind in work.kind.tolist()], object)
    time_factor, power_factor = np.exp(Z90 * of.time_sd), np.exp(Z90 * of.power_sd)
    ones = np.ones(len(one.rows))
    return PricedPass(
        rows=one.rows,
        counts=np.array([_value(row, "count", 1.0) for row in one.rows]),
        family=families,
        basis=np.full(len(one.rows), f"{METHOD}: efficiencies of whole steps", object),
        clocks_mhz=clocks,
        idle_w=np.asarray(idle, np.float64),
        duration_s=time,
        energy_j=time * (idle[None] + above),
        base_j=time * idle[None],
        low=ones / time_factor,
        high=ones * time_factor,
        power_low=np.full(time.shape, 1.0 / power_factor),
        power_high=np.full(time.shape, power_factor),
        bound=np.zeros(time.shape, np.int64),
    )


_FAMILY: Final = (names.GEMM, names.ATTENTION, names.ELEMENTWISE, names.COLLECTIVE)


def refined(
    residual: Floats, models: Sequence[str], precisions: Sequence[str], prior_sd: float, noise_sd: float
) -> tuple[dict[str, float], dict[str, float]]:
    r"""Return scalars of models and of precisions by iterative refinement with shrinkage.

    Parameters
    ----------
    residual : array, shape (n,)
        ln of measured over predicted time of each run.
    models, precisions : sequence of str
        Of each run.
    prior_sd, noise_sd : float
        Spread of scalars about one, and of runs about their model. [ln]

    Notes
    -----
    In turns the scalar of each model, then of each precision, is the mean of what the others leave, shrunk:
    :math:`\ln s = \sum_i r_i / (n + \sigma^2 / \tau^2)`, until none changes by more than 0.5 %.
    """
    pull = (noise_sd / prior_sd) ** 2
    scalars: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for _ in range(100):
        before = dict(scalars[0]), dict(scalars[1])
        for scalars_fitted, labels, scalars_fixed, fixed_labels in (
            (scalars[0], models, scalars[1], precisions), (scalars[1], precisions, scalars[0], models),
        ):  # fmt: skip
            remainder = residual - np.array([scalars_fixed.get(label, 0.0) for label in fixed_labels])
            for label in dict.fromkeys(labels):
                chosen = np.array([one == label for one in labels])
                scalars_fitted[label] = float(remainder[chosen].sum() / (chosen.sum() + pull))
        moved = [abs(s.get(k, 0.0) - b.get(k, 0.0)) for s, b in zip(scalars, before, strict=True) for k in s]
        if max(moved) < 0.005:
            break
    return tuple({k: float(np.exp(v)) for k, v in one.items()} for one in scalars)  # type: ignore[return-value]
