"""Operands of 2048 x 2048 by pattern: the bits of a sample of neighbors, as the measured products had them.

Patterns are those of Gregersen et al., Input-Dependent Power Usage in GPUs (SC'24 workshops): normal numbers
by spread or mean, few distinct values, bits flipped, made random or zeroed from either end, sorted along
rows or columns, sparse. ``k`` is the axis of the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from tracetool.model.operands import OperandActivity, operand_activity

SIDE = 2048
K = (np.linspace(100, 1900, 8).astype(int)[:, None] + np.arange(16)).ravel()
FREE = (np.array([200, 900, 1500])[:, None] + np.arange(24)).ravel()
UNSIGNED = {"fp16": np.uint16, "fp32": np.uint32, "int8": np.uint8}
VALUE = {"fp16": np.float16, "fp32": np.float32, "int8": np.int8}
SUM = {"fp16": np.float16, "fp32": np.float32, "int8": np.int32}


def _quantiles(ranks: Any, part: float, generator: Any) -> Any:
    """Standard normal numbers at ranks from 0 to 1; above ``part`` unsorted, of what sorting left."""
    rest = generator.uniform(part, 1.0, ranks.shape) if part < 1.0 else ranks
    return ndtri(np.clip(np.where(ranks < part, ranks, rest), 1e-12, 1 - 1e-12))


def operand(dtype: str, pattern: str, parameter: float, seed: int) -> Any:
    """Return the bits of a sample of one operand, (k, free)."""
    generator, shape = np.random.default_rng(seed), (len(K), len(FREE))
    number = int(pattern.split("-", maxsplit=1)[0]) if "-" in pattern else 0
    mean, spread = 0.0, 32.0 if dtype == "int8" else 1024.0
    if number == 1:
        spread = parameter
    elif number in (2, 7):
        mean, spread = parameter, 8.0 if dtype == "int8" else 1.0
    standard = generator.standard_normal(shape)
    rows, columns = K[:, None], FREE[None, :]
    if number == 3:
        distinct = generator.standard_normal(max(int(parameter), 1))
        standard = distinct[generator.integers(0, len(distinct), shape)]
    elif number in (4, 5, 6):
        standard = np.full(shape, standard[0, 0])
    sorted_part = 1.0 if number in (7, 12) else parameter
    if number in (7, 8, 12, 13) and sorted_part > 0:
        standard = _quantiles((rows * SIDE + columns + 0.5) / SIDE**2, sorted_part, generator)
    elif number == 9 and parameter > 0:
        standard = _quantiles((columns * SIDE + rows + 0.5) / SIDE**2, parameter, generator)
    elif number == 10 and parameter > 0:
        standard = _quantiles((columns + generator.random(shape)) / SIDE, parameter, generator)
    values = mean + spread * standard
    if number in (11, 12):
        values = np.where(generator.random(shape) < parameter, 0.0, values)
    if dtype == "int8":
        values = np.clip(np.rint(values), -128, 127)
    with np.errstate(over="ignore"):
        bits = values.astype(VALUE[dtype]).view(UNSIGNED[dtype])
    return _changed(bits, number, int(parameter), generator)


def _changed(bits: Any, number: int, count: int, generator: Any) -> Any:
    kind, width = bits.dtype.type, 8 * bits.dtype.itemsize
    every = (1 << width) - 1
    lowest, highest = (1 << count) - 1, every ^ ((1 << (width - count)) - 1) if count <= width else every
    if number == 4 and count:
        chosen = np.argsort(generator.random((bits.size, width)), axis=1)[:, :count].astype(np.uint64)
        return bits ^ np.bitwise_or.reduce(np.uint64(1) << chosen, axis=1).astype(kind).reshape(bits.shape)
    if number in (5, 6):
        part = lowest if number == 5 else highest
        noise = generator.integers(0, every + 1, bits.shape, dtype=np.uint64).astype(kind)
        return (bits & kind(every ^ part)) | (noise & kind(part))
    if number in (14, 15):
        return bits & kind(every ^ (lowest if number == 14 else highest))
    return bits


def activity(dtype: str, pattern: str, parameter: float) -> OperandActivity:
    """Return the mean activity of a pattern over a few draws."""
    draws = 6 if pattern.split("-", maxsplit=1)[0] in {"3", "4", "5", "6"} else 2
    shares = []
    for seed in range(11, 11 + 13 * draws, 13):
        second = "9-sort-columns" if pattern.startswith("13") else pattern
        bits = operand(dtype, pattern, parameter, seed), operand(dtype, second, parameter, seed + 1)
        values = tuple(b.view(VALUE[dtype]).astype(SUM[dtype]) for b in bits)
        one = operand_activity(bits[0], bits[1], (values[0], values[1]), (16, 24))
        shares.append([one.neighbor, one.along_k, one.result, one.live])
    return OperandActivity(*np.mean(shares, axis=0).tolist())
