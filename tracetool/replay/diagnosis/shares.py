"""Share of each kernel signature's energy that every cause takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import FROM, Prediction
from tracetool.families import names
from tracetool.families.transfers.problem import within_gpu
from tracetool.hardware.gpu import Gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.diagnosis.causes import (
    BATCH,
    CAUSES,
    CHAIN,
    COPIES,
    MISALIGNED,
    PADDING,
    PLACE,
    PRECISION,
    SLOW,
    TAIL,
    USEFUL,
)
from tracetool.replay.diagnosis.neighbors import chain_shares
from tracetool.replay.diagnosis.references import Products, saved_share, usual_factor

#: A product counts as disturbed when it takes longer than its reference by more than this. [1] A prior: the
#: spread of tuned kernels about the model.
_SLOWER: Final = 1.15
#: A kernel is slow beyond the bound of the model and this times what it says. [1] A prior: transferred
#: coefficients err by as much.
_MUCH_SLOWER: Final = 1.5
#: Kernels shorter than this are launches, not waves. [s] A prior.
_SHORTEST_S: Final = 5e-6
#: Families whose tiles run in waves.
_WAVES: Final = (names.GEMM, names.CONV, names.ATTENTION)


@dataclass(frozen=True)
class Measured:
    """Measured time, energy and launches of s signatures as recorded.

    Parameters
    ----------
    time_s, energy_j : array, shape (s,)
        Of all launches, activities beside others sharing their moments. [s], [J]
    launches : array, shape (s,)
        Launches.
    duration_s : array, shape (s,)
        Mean of a launch. [s]
    idle_w : float
        Power with nothing running: measured in gaps where the log shows it. [W]
    """

    time_s: Floats
    energy_j: Floats
    launches: Floats
    duration_s: Floats
    idle_w: float


def kernel_shares(
    kernels: pl.DataFrame,
    rows: OperatorColumns,
    gpu: Gpu,
    clock_mhz: float,
    recorded: Prediction,
    from_shapes: Bools,
    measured: Measured,
    clock_shares: Mapping[str, Floats],
) -> Floats:
    r"""Return the share of each signature's energy that goes to each cause. Shape (s, causes), rows sum to 1.

    Parameters
    ----------
    kernels : DataFrame
        Activities: ``start_ns``, ``device``, ``stream``, ``signature``.
    rows : OperatorColumns
        One row a signature.
    gpu, clock_mhz
        What they ran on. [MHz]
    recorded : Prediction
        The model's, anchored on the recorded times, at that clock.
    from_shapes : array of bool, shape (s,)
        Signatures of known shape.
    measured : Measured
        Their times and energies.
    clock_shares : mapping of str to array, shape (s,)
        Share of each cause that is a clock, 0 to 1.

    Notes
    -----
    Causes take one after another their share :math:`w_c` of what those before left,
    :math:`x_c = w_c \prod_{b < c} (1 - w_b)`; what is left last is useful, so the shares sum to one.
    """
    products = Products.of(rows, gpu, clock_mhz, from_shapes)
    shares_of = {name: np.zeros(len(rows)) for name in PLACE}
    shares_of[COPIES] = np.where(_moves_only(rows), 1.0, 0.0)
    shares_of[CHAIN] = chain_shares(kernels, rows)
    _product_shares(shares_of, products, measured)
    disturbed = (shares_of[PRECISION] > 0) | (shares_of[MISALIGNED] > 0)
    shares_of[SLOW] = _slow(rows, gpu, clock_mhz, from_shapes & ~disturbed, measured)
    shares_of[BATCH] = np.where(disturbed, 0.0, _batch(products))
    disturbed_or_small = disturbed | (shares_of[BATCH] > 0)
    shares_of[PADDING] = np.where(disturbed_or_small, 0.0, _padding(recorded, from_shapes))
    shares_of[TAIL] = np.where(disturbed_or_small, 0.0, _tail(rows, recorded, from_shapes, measured))
    shares_of.update(clock_shares)
    shares, remaining = np.zeros((len(rows), len(CAUSES))), np.ones(len(rows))
    for one in CAUSES[1:]:
        shares[:, PLACE[one.name]] = remaining * shares_of[one.name]
        remaining = remaining - shares[:, PLACE[one.name]]
    shares[:, PLACE[USEFUL]] = remaining
    return shares


def _moves_only(rows: OperatorColumns) -> Bools:
    """Return which signatures only move data within the GPU. Shape (s,)."""
    return np.asarray((rows.family == names.COPY) | within_gpu(rows))


def _product_shares(shares_of: dict[str, Floats], products: Products, measured: Measured) -> None:
    """Fill in what products in a wide format or of odd sizes take over undisturbed ones."""
    if not products.known.any():
        return
    each_j = np.divide(
        measured.energy_j,
        measured.launches,
        out=np.zeros_like(measured.energy_j),
        where=measured.launches > 0,
    )
    plain_s, plain_j = products.modeled(aligned=True)
    time_factor = usual_factor(measured.duration_s, plain_s, measured.energy_j, products.usual)
    energy_factor = usual_factor(each_j, plain_j, measured.energy_j, products.usual)
    _, half_j = products.modeled(dtype="bf16", aligned=True)
    for name, which, reference_j in (
        (PRECISION, products.wide, half_j),
        (MISALIGNED, products.odd & (measured.duration_s > _SLOWER * time_factor * plain_s), plain_j),
    ):
        shares_of[name] = np.where(which, saved_share(energy_factor * reference_j, each_j), 0.0)


def _batch(products: Products) -> Floats:
    """Return the share of each product that more rows per pass over the weights would save. Shape (s,)."""
    enough = np.full(len(products.rows), np.ceil(products.enough / 8.0) * 8.0)
    if not products.small.any():
        return np.zeros(len(enough))
    _, now_j = products.modeled()
    _, then_j = products.modeled(few=enough)
    return np.where(products.small, saved_share(products.few / enough * then_j, now_j), 0.0)


def _padding(recorded: Prediction, from_shapes: Bools) -> Floats:
    """Return the share of each signature's energy spent on operations of padding. Shape (s,)."""
    work = recorded.timing.work
    issued = work.tensor_flops
    with np.errstate(divide="ignore", invalid="ignore"):
        extra = np.where(issued > 0, np.clip(1.0 - work.useful_flops / issued, 0.0, 1.0), 0.0)
    bound = recorded.timing.busy_s["tensor"][:, 0] > recorded.timing.busy_s["dram"][:, 0]
    counted = recorded.parts_j["compute"][:, 0] + recorded.parts_j["onchip"][:, 0]
    total_j = np.sum([part_j[:, 0] for part_j in recorded.parts_j.values()], axis=0)
    of = np.where(bound, 1.0, np.divide(counted, total_j, out=np.zeros_like(total_j), where=total_j > 0))
    return np.where(from_shapes, extra * of, 0.0)


def _tail(rows: OperatorColumns, recorded: Prediction, from_shapes: Bools, measured: Measured) -> Floats:
    """Return the share of SMs that idle in waves that are not full, at the power of idle ones. Shape (s,)."""
    timing = recorded.timing
    waiting = np.divide(
        timing.fixed_s, timing.duration_s[:, 0], out=np.zeros(len(rows)), where=timing.duration_s[:, 0] > 0
    )
    full = np.maximum(1.0 - np.clip(waiting, 0.0, 1.0), 1e-9)
    idle = np.clip(1.0 - timing.sm_active[:, 0] / full, 0.0, 1.0)
    waves = np.isin(rows.family.astype(str), _WAVES) & from_shapes & (measured.duration_s > _SHORTEST_S)
    bound = timing.busy_s["tensor"][:, 0] >= timing.busy_s["dram"][:, 0]
    return np.where(waves & bound, idle * _idle_share(measured), 0.0)


def _slow(rows: OperatorColumns, gpu: Gpu, clock_mhz: float, which: Bools, measured: Measured) -> Floats:
    """Return the share of idle energy beyond the time that a kernel's shapes need. Shape (s,)."""
    share = np.zeros(len(rows))
    moved = np.isin(rows.family.astype(str), (names.COLLECTIVE, names.MEMCPY, names.MEMSET))
    at = np.flatnonzero(which & ~moved)
    if not len(at):
        return share
    timing = predict_rows(rows.take(at), gpu, np.array([clock_mhz]), power_cap_w=np.inf).timing
    most_s = timing.duration_s[:, 0] * np.maximum(timing.high[:, 0], _MUCH_SLOWER)
    duration = measured.duration_s[at]
    with np.errstate(divide="ignore", invalid="ignore"):
        longer = np.where(duration > most_s, 1.0 - timing.duration_s[:, 0] / duration, 0.0)
    share[at] = longer * _idle_share(measured)[at]
    return share


def _idle_share(measured: Measured) -> Floats:
    """Return idle power over the mean power of each signature. Shape (s,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = measured.idle_w * measured.time_s / measured.energy_j
    return np.clip(np.nan_to_num(share), 0.0, 1.0)


def shaped(predicted_from: pl.Series) -> Bools:
    """Return which signatures' sizes the trace states. Shape (s,)."""
    return (predicted_from == FROM[0]).to_numpy()
