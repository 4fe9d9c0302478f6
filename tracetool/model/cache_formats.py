"""Kernels by the formats of keys and values that they were measured with on a GPU.

A library reads a cache of 8 bits by another kernel than one of 16, or by another path of one: what was
measured with the one says little about the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.dtype import BYTES
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.families.implementations import implementations
from tracetool.families.law import Law
from tracetool.hardware.gpu import Gpu
from tracetool.model.mixtures import Member


def cache_widths(law: Law, rows: OperatorColumns) -> Floats | None:
    """Return the bytes of a key's number in each row; None where a law's kernels have no keys. (n,) [B]"""
    if not any(one.laws[law.name].kv_formats for one in implementations(law.name)):
        return None
    words, of_cache = dtype_of(rows, "bf16"), rows.text("kv_dtype")
    return element_bytes(np.where(of_cache == "", words, of_cache).astype(object), 2.0)


def measured_with(
    law: Law, gpu: Gpu, members: Sequence[Member], width: float
) -> tuple[tuple[Member, ...], bool]:
    """Return the members measured with keys of ``width`` bytes, and whether any was; all of them if none.

    A width of 0 is of kernels without keys: all members were measured so. Members whose formats nobody states
    are taken to have been.
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
