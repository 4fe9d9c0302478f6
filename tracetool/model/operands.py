"""Effect of operands' content on a product's power: bits that change, and zeros that change none.

A multiplier draws power where its inputs and its result change. Between one product and the next, random
numbers change half of their bits, sorted or equal ones few, and a product with zero changes no sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Numbers
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families import names
from tracetool.families.registry import families_where
from tracetool.families.spec import Sequence
from tracetool.hardware.priors import prior_number, prior_table

#: Column with the switching of each row's operands relative to that of random numbers; NaN: not known.
SWITCHING: Final = "operand_switching"
#: The same while the row was measured.
MEASURED_SWITCHING: Final = "measured_operand_switching"
_WEIGHT: Final = prior_table("operands.weight")
_DATA_SHARE: Final = prior_table("operands.data_share")
#: Relative spread of a power whose operands are stated, per switching away from random numbers, and of one
#: whose operands were not stated.
_STATED_SD, _UNKNOWN_SD = prior_number("operands.stated_spread"), prior_number("operands.unknown_spread")
_PRODUCTS: Final = (*families_where(lambda f: f.sequence is Sequence.PRODUCT), names.ATTENTION, names.MOE)
#: Numbers of bits that a result keeps of a product of integers; the rest repeats its sign. [bit] By
#: definition of the number format: twice 8.
_INTEGER_RESULT = 16


@dataclass(frozen=True)
class OperandActivity:
    """Share of the bits into and out of multipliers that change from one product to the next.

    Parameters
    ----------
    neighbor : float
        Share of bits in which an operand differs from its neighbor in the same row of the sum. [1]
    along_k : float
        The same from one term of a sum to the next. [1]
    result : float
        Share of bits in which two neighboring sums differ as they grow. [1]
    live : float
        Share of products of which neither operand is zero. [1]
    """

    neighbor: float
    along_k: float
    result: float
    live: float

    def switching(self) -> float:
        """Return the weighted sum of the shares; only its ratio to another content means anything. [1]"""
        return float(sum(_WEIGHT[share] * getattr(self, share) for share in _WEIGHT))


def operand_activity(
    first: Numbers, second: Numbers, values: tuple[Numbers, Numbers], runs: tuple[int, int]
) -> OperandActivity:
    r"""Return the activity of two operands of :math:`C_{mn} = \sum_k A_{km} B_{kn}`.

    Parameters
    ----------
    first, second : array of unsigned int, shapes (k, m) and (k, n)
        Bits of the operands, rows in the order in which a sum takes them.
    values : pair of array
        What the bits mean, of the same shapes, in the format that sums are kept in.
    runs : pair of int
        Rows and columns that lie next to one another in the tensors: samples are made of such runs.

    Notes
    -----
    Input-dependent power: Gregersen et al., SC'24 workshops; a register or bus costs energy for each bit
    that changes (Hamming distance), a multiplier none for a zero.
    """
    neighbor, along_k = (
        float(np.mean([distance(bits, runs) for bits in (first, second)]))
        for distance in (_neighbor_distance, _next_distance)
    )
    zero = [float((array == 0).mean()) for array in values]
    return OperandActivity(neighbor, along_k, _result_distance(*values), (1 - zero[0]) * (1 - zero[1]))


def _share_of_bits(changed: Numbers) -> float:
    changed_bits = np.unpackbits(np.ascontiguousarray(changed).view(np.uint8))
    return float(changed_bits.mean()) if changed_bits.size else 0.0


def _neighbor_distance(bits: Numbers, runs: tuple[int, int]) -> float:
    columns = bits.reshape(len(bits), -1, runs[1])
    return _share_of_bits(columns[..., 1:] ^ columns[..., :-1])


def _next_distance(bits: Numbers, runs: tuple[int, int]) -> float:
    rows = bits.reshape(-1, runs[0], bits.shape[1])
    return _share_of_bits(rows[:, 1:] ^ rows[:, :-1])


def _result_distance(first: Numbers, second: Numbers) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.cumsum(first[:, :, None] * second[:, None, :], axis=0, dtype=first.dtype)
    bits = np.ascontiguousarray(sums).view(f"u{sums.dtype.itemsize}")
    changed = bits[:, :, 1:] ^ bits[:, :, :-1]
    if first.dtype == np.int32:
        return _share_of_bits(changed & np.uint32(2**_INTEGER_RESULT - 1)) * 32 / _INTEGER_RESULT
    return _share_of_bits(changed)


def is_product_family(family: str) -> bool:
    """Return whether a family multiplies matrices."""
    return family in _PRODUCTS


def is_product(rows: OperatorColumns) -> Bools:
    """Return which rows multiply matrices, whose power follows their content. Shape (n,)."""
    return rows.in_families(*_PRODUCTS)


def content_factor(rows: OperatorColumns, work: Work) -> Floats:
    r"""Return the core domain's energy over that with random operands. Shape (n,).

    .. math:: 1 - d \, (1 - s)

    with d the share of a pipe's power over the base that follows its data, and s the switching of the
    operands over that of random ones.
    """
    if SWITCHING not in rows.columns:
        return np.ones(len(rows))
    switching = rows.number(SWITCHING, 1.0)
    if (switching == 1.0).all():
        return np.ones(len(rows))
    share = np.where(work.tensor_flops > 0, _DATA_SHARE["tensor"], 0.0)
    formats = np.array([_DATA_SHARE.get(str(dtype), _DATA_SHARE["tensor"]) for dtype in rows.text("dtype")])
    share = np.where(share > 0, share, formats)
    return np.asarray(np.where(is_product(rows), 1.0 - share * (1.0 - switching), 1.0))


def as_measured(columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the columns of rows as they were measured: with the content of that time."""
    measured = {k: v for k, v in columns.items() if k != SWITCHING}
    if MEASURED_SWITCHING in measured:
        measured[SWITCHING] = measured[MEASURED_SWITCHING]
    return measured


def content_sd(rows: OperatorColumns, measured: Bools) -> Floats:
    """Return the relative spread that the content of operands adds to each row's power. Shape (n,).

    Parameters
    ----------
    measured : array of bool, shape (n,)
        Rows scaled to a measured power: only a change of content away from the measured one adds.
    """
    switching = rows.number(SWITCHING)
    start = np.where(measured, rows.number(MEASURED_SWITCHING, 1.0), 1.0)
    stated = _STATED_SD * np.abs(np.where(np.isnan(switching), start, switching) - start)
    return np.where(is_product(rows) & ~np.isnan(switching), stated, unstated_sd(rows, measured))


def unstated_sd(rows: OperatorColumns, measured: Bools | bool = False) -> Floats:
    """Return the part of it due to unstated operands, for products without a measured power. Shape (n,).

    The error of coefficients that were fitted to runs of models, whose operands were not stated either,
    holds it already: once a run, since all of a run's operands are one draw.
    """
    unknown = np.isnan(rows.number(SWITCHING)) & ~np.asarray(measured)
    return np.where(is_product(rows) & unknown, _UNKNOWN_SD, 0.0)
