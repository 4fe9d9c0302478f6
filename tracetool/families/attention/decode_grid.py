"""Decode attention's grid: which kernel takes a row, how it splits keys, and how blocks fill the GPU.

Equation and sources: docs/families/decode.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.families.attention.decode_hosts import SEGMENTS, XQA
from tracetool.families.attention.problem import Scores, converts_queries
from tracetool.families.attention.tile_sizes import capability, split_keys_of_tile
from tracetool.families.attention.tiling import (
    efficient_split,
    even_split,
    growing_split,
    rooted_split,
    split_keys,
)
from tracetool.families.law import Coefficients
from tracetool.hardware.gpu import Gpu

#: Query rows a tile of tensor cores holds, and takes at once. [rows] Both a prior.
ROWS, UNIT_ROWS = 64.0, 8.0
#: Keys a step of the kernel without tensor cores takes, a prior; and keys its host code splits by, the parts
#: of NVIDIA/TensorRT-LLM's XQA (docs/families/decode.md). [tokens]
VECTOR_KEYS, DISPATCH_KEYS = 32.0, 128.0
#: The choice of ``split_fill`` that is FlashAttention 3's [1], and key tiles up to which that does not split
#: [tiles]. By definition of Dao-AILab/flash-attention, ``hopper/heuristics.h``; tiles by ``tile_size.h``.
EVEN, FEW_TILES = 2, 4.0
#: Lanes up to which vLLM's Triton kernels split keys, and into how many parts. [1] By definition of it:
#: ``decode_hosts.py``.
MOST_SPLIT, SPLIT_PARTS = 128.0, 16.0
#: The compute capabilities whose XQA splits keys in 8 bits, the first of which has such a kernel of its own.
#: [1] By definition of NVIDIA/TensorRT-LLM, ``attentionOp.cpp`` and ``decoderXQAImplPrecompiled.cpp``.
XQA_SPLIT_8 = (9, 12)


@dataclass(frozen=True)
class DecodeGrid:
    """Grid of decode attention in a library; all of shape (n,)."""

    kv8: Bools  # rows whose cache is of 8 bits
    own8: Bools  # of those, rows with a kernel of their own
    factors8: Bools  # of those, rows that the coefficients of 8 bits hold for
    vector: Bools  # rows whose kernel has no tensor cores
    windowed: Bools  # rows whose queries do not see every key
    visible_keys: Floats  # keys that are read for a query [tokens]
    query_rows: Floats  # queries of a sequence that share keys
    key_tile: Floats  # keys of a step [tokens]
    query_tiles: Floats  # tiles of queries
    tiles: Floats  # tiles of keys that each meets
    parts: Floats  # blocks that share the keys of a query tile
    slots: Floats  # blocks that run at a time
    in_8_bits: Bools  # rows whose queries are converted, so that products are in FP8 too

    @cached_property
    def steps(self) -> Floats:
        """Tiles of keys that one block takes."""
        return np.maximum(1.0, np.ceil(self.tiles / self.parts))

    @cached_property
    def blocks(self) -> Floats:
        """Blocks in all."""
        return np.asarray(self.query_tiles * self.parts)

    @cached_property
    def waves(self) -> Floats:
        """Times that blocks fill the GPU, the last one begun counted whole."""
        return np.ceil(self.blocks / self.slots)

    def pick(self, c: Coefficients, with_tensor_cores: str, without: str) -> Floats:
        """Return a coefficient of the kernel that takes each row, by its names."""
        return np.where(self.vector, c[without], c[with_tensor_cores])


def decode_grid(s: Scores, gpu: Gpu, c: Coefficients) -> DecodeGrid:
    """Return the grid of decode attention in a library with such coefficients."""
    group, kv8 = s.heads / s.kv_heads, s.kv_size <= 1.0
    own8 = _own_kernel(kv8, relative_dim(s), gpu, c)
    factors8 = own8 if c["split_fill"] == XQA else kv8  # XQA's kernel for 16 bits converts keys of 8
    window_keys = np.minimum(s.kv_len, s.window)
    windowed = window_keys < s.kv_len
    vector = _without_units(group, kv8, s.batch * s.kv_heads, window_keys, gpu, c)
    visible_keys = window_keys + np.where(vector | kv8, 0.0, c["outside"]) * (s.kv_len - window_keys)
    key_tile = np.where(vector, VECTOR_KEYS, _key_tile(s, gpu, c))
    # a library that packs the heads of a group by a copy may not do so where a window is set
    apart = vector | (np.isfinite(s.window) & (c["pack_windowed"] < 1.0))
    query_rows = np.where(apart, 1.0, group) * s.q_len
    query_tiles = s.batch * np.where(apart, s.heads, s.kv_heads) * np.ceil(query_rows / ROWS)
    slots = float(gpu.sm_count) * np.where(vector, 1.0, c["resident"])
    all_tiles = np.ceil(s.kv_len / key_tile)

    least = np.maximum(np.where(vector, c["vector_least_keys"], c["least_keys"]), key_tile)
    by_seen = kv8 if c["split_seen"] > 1 else np.full(len(kv8), c["split_seen"] > 0)
    keys = np.where(by_seen, visible_keys, s.kv_len)
    kv_splits = _split(query_tiles, query_tiles / s.batch, slots, keys, key_tile, least, vector, c)
    # segments are launched whether there are tiles for them or not
    kv_splits = np.minimum(kv_splits, all_tiles if c["split_fill"] != SEGMENTS else np.inf)
    kv_splits = np.minimum(kv_splits, c["most_parts"])
    if c["split_fill"] == XQA and not XQA_SPLIT_8[0] <= capability(gpu) < XQA_SPLIT_8[1]:
        kv_splits = np.where(kv8 & ~vector, 1.0, kv_splits)
    if c["split_single"] <= 0:
        kv_splits = np.where((group <= 1.0) | (apart & ~vector), 1.0, kv_splits)
    return DecodeGrid(
        kv8=kv8,
        own8=own8,
        factors8=factors8,
        vector=vector,
        windowed=windowed,
        visible_keys=visible_keys,
        query_rows=query_rows,
        key_tile=key_tile,
        query_tiles=query_tiles,
        tiles=np.minimum(all_tiles, np.ceil(visible_keys / key_tile) + windowed),
        parts=kv_splits,
        slots=slots,
        in_8_bits=_multiplied_in_8(s, factors8, gpu, c) & ~vector,
    )


def relative_dim(s: Scores) -> Floats:
    """Return the elements of a key and its value, relative to 256. Shape (n,). [1]"""
    return np.asarray((s.head_dim + s.value_dim) / 256.0)


def _without_units(
    group: Floats, kv8: Bools, batch_heads: Floats, keys: Floats, gpu: Gpu, c: Coefficients
) -> Bools:
    """Return the rows that run without tensor cores.

    A library that has such a kernel uses it for heads that share no keys, for groups too large for
    its tiles, and, in 16 bits, while parts of 128 keys would fill less than a quarter of the SMs.
    """
    if c["vector_heads"] == 0:
        return np.zeros(len(group), dtype=np.bool_)
    if c["vector_heads"] < 0:  # the negative of the heads, where those that share none have tensor cores
        return np.asarray(group >= -c["vector_heads"])
    few = batch_heads * np.maximum(1.0, np.floor(keys / DISPATCH_KEYS)) * 4.0 < gpu.sm_count
    return np.asarray((group <= 1.0) | (group >= c["vector_heads"]) | (~kv8 & few & (c["dispatch"] > 0)))


def _own_kernel(kv8: Bools, dim: Floats, gpu: Gpu, c: Coefficients) -> Bools:
    """Return the rows of 8 bits with a kernel of their own: others take the one for 16 bits. Shape (n,)."""
    if c["split_fill"] == XQA and capability(gpu) != XQA_SPLIT_8[0]:
        return np.zeros(len(kv8), dtype=np.bool_)
    return np.asarray(kv8 & (dim * 128.0 >= c["kv8_least_dim"]))


def _multiplied_in_8(s: Scores, narrow: Bools, gpu: Gpu, c: Coefficients) -> Bools:
    """Return the rows of tensor cores whose queries are converted to the 8 bits of ``narrow`` keys. (n,)"""
    return np.asarray(narrow & s.float_keys & (s.size > 1.0) & s.tensor & converts_queries(gpu, c))


def _split(
    query_tiles: Floats,
    of_one: Floats,
    slots: Floats,
    keys: Floats,
    tile: Floats,
    least: Floats,
    vector: Bools,
    c: Coefficients,
) -> Floats:
    """Return into how many parts a library splits the keys of each query tile. Shape (n,).

    ``of_one`` are the query tiles of one sequence, ``tile`` the keys of a step, ``least`` those of a part,
    and ``vector`` the rows without tensor cores.
    """
    if c["split_fill"] == XQA:
        rooted = rooted_split(query_tiles, slots / c["resident"], keys, query_tiles / of_one)
        return np.where(vector, split_keys(query_tiles, slots * c["split_waves"], keys, least), rooted)
    if c["split_fill"] == SEGMENTS:
        return np.where(query_tiles <= MOST_SPLIT, SPLIT_PARTS, 1.0)
    if c["split_fill"] > EVEN:
        return growing_split(query_tiles, slots / c["resident"], keys)
    if c["split_fill"] == EVEN:
        tiles = np.ceil(keys / tile)
        even = np.minimum(even_split(query_tiles, slots, tiles), efficient_split(of_one, slots, tiles))
        return np.where(tiles <= FEW_TILES, 1.0, even)
    if c["split_fill"] > 0:
        return efficient_split(query_tiles, slots * c["split_waves"], np.ceil(keys / least))
    return split_keys(query_tiles, slots * c["split_waves"], keys, least)


def _key_tile(s: Scores, gpu: Gpu, c: Coefficients) -> Floats:
    """Return the keys of a tile of tensor cores, as a library sizes them. Shape (n,). [tokens]"""
    if 0 < c["tile_rows"] <= ROWS:
        return split_keys_of_tile(s, gpu, c["tile_rows"])
    if c["split_fill"] == EVEN:
        return np.where(s.head_dim > 192, 80.0, np.where(s.head_dim > 128, 96.0, 128.0))
    return np.full(len(s.batch), c["key_tile"])
