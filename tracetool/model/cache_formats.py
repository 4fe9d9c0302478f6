"""Kernels by the formats of keys and values that they were measured with on a GPU.

A library reads a cache of 8 bits by another kernel than one of 16, or by another path of one: what was
measured with the one says little about the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.dtype import BYTES
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.families.implementations import implementations
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu
from tracetool.model.mixtures import Member


def by_cache_width(law: Law, rows: OperatorColumns, places: Ints) -> list[tuple[float, Ints]]:
    """Return the places of rows by the bytes of a key's number; all together where a law has no such. [B]"""
    if not any(one.laws[law.name].kv_formats for one in implementations(law.name)):
        return [(0.0, places)]
    width = _widths(rows)[places]
    return [(float(one), places[width == one]) for one in np.unique(width)]


def _widths(rows: OperatorColumns) -> Floats:
    words, of_cache = dtype_of(rows, "bf16"), rows.text("kv_dtype")
    return element_bytes(np.where(of_cache == "", words, of_cache).astype(object), 2.0)


def measured_with(
    law: Law, gpu: Gpu, members: Sequence[Member], width: float
) -> tuple[tuple[Member, ...], bool]:
    """Return the members measured with keys of ``width`` bytes, and whether any was; all of them if none.

    Members whose formats nobody states are taken to have been.
    """
    stated = {one.name: one.laws[law.name] for one in implementations(law.name)}

    def reads(member: Member) -> bool:
        formats = stated[member.name].kv_formats_on(gpu) if member.name in stated else frozenset()
        return not formats or any(BYTES[one] == width for one in formats)

    able = tuple(member for member in members if reads(member))
    if not width or not able:
        return tuple(members), not width
    if all(member.bounds_only for member in able):
        able = tuple(replace(member, bounds_only=False) for member in able)
    return able, True
