"""Tiling of attention: tiles of queries over tiles of keys, heads packed, keys split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.families.attention.problem import Scores

#: Most parts [parts], and how near to the best fill is near enough [1], where a library splits keys by the
#: fill of waves. By definition of Dao-AILab/flash-attention, ``num_splits_heuristic``.
MOST_PARTS, NEARLY = 128.0, 0.85
#: A slot's share of all key tiles over the mean. [1] By definition of Dao-AILab/flash-attention,
#: ``hopper/flash_prepare_scheduler.cu``.
SHARE_MARGIN = 1.1
#: Keys from which a split grows with the logarithm of the keys. [tokens] By definition of sgl-project/sglang,
#: ``layers/attention/triton_backend.py``.
LOG_KEYS = 64.0
#: Least keys of a part [tokens], waves of blocks up to which keys are split [1], and most parts of all
#: sequences together [parts]. By definition of NVIDIA/TensorRT-LLM, ``decoderXQAImplCommon.h``.
XQA_KEYS, XQA_WAVES, XQA_PARTS = 128.0, 8.0, 6000.0


@dataclass(frozen=True)
class QueryTiles:
    """Query tiles of one head (or group of heads) of one sequence, all of shape (n,)."""

    tiles: Floats  # query tiles
    visits: Floats  # key tiles over all query tiles
    longest: Floats  # key tiles of the last query tile


def causal_tiles(
    q_len: Floats, visible_keys: Floats, query_tile: Floats, key_tile: Floats | float
) -> QueryTiles:
    r"""Return how many key tiles causal query tiles visit.

    Parameters
    ----------
    q_len : array, shape (n,)
        Queries, the last lined up with the last key. [tokens]
    visible_keys : array, shape (n,)
        Keys the last query sees: the sequence, or a window. [tokens]
    query_tile : array, shape (n,)
        Queries of one tile; below 1 where many heads share one. [tokens]
    key_tile : float or array, shape (n,)
        Keys of one tile. [tokens]

    Notes
    -----
    Tile :math:`i` ends at query :math:`(i+1) b_q`, begins :math:`w + b_q` keys before it or at the
    first, and visits every key tile it touches; tiles above the diagonal are skipped. Where no edge
    lies on another, :math:`r = 1 - \gcd(b_q, b_k) / b_k` of a key tile is visited in vain, half of
    it at either end:

    .. math:: v = \sum_{i < w / b_q} \left( \frac{(i+1) b_q}{b_k} + \frac r2 \right)
       + \sum_{i \ge w / b_q} \left( \frac{w + b_q}{b_k} + r \right)

    Examples
    --------
    >>> one = np.array([512.0])
    >>> causal_tiles(one, one, np.array([128.0]), 128.0).visits.tolist()
    [10.0]

    A window of 128 keys behind 16 queries spans 144 keys: two tiles of 128 wherever it begins, but for
    the first 8 of 3200 tiles of queries, which have no keys behind them.

    >>> causal_tiles(one * 100, np.array([128.0]), np.array([16.0]), 128.0).visits.tolist()
    [6392.0]
    """
    tiles = np.ceil(q_len / query_tile)
    ratio = query_tile / key_tile
    common_divisor = np.gcd(query_tile.astype(np.int64), np.asarray(key_tile, np.int64))
    ragged = 1.0 - np.where(query_tile == np.floor(query_tile), common_divisor, 0.0) / key_tile
    rising = np.minimum(tiles, np.ceil(visible_keys / query_tile))
    flat = (visible_keys + query_tile) / key_tile + ragged
    # the last query tile ends with the last query
    ended = np.where(rising < tiles, rising * ratio + ragged / 2.0, np.ceil(q_len / key_tile))
    before = np.maximum(rising - 1.0, 0.0)
    visits = ratio * before * (before + 1.0) / 2.0 + before * ragged / 2.0 + ended + (tiles - rising) * flat
    longest = np.maximum(np.minimum(np.ceil(q_len / key_tile), np.ceil(flat)), 1.0)
    return QueryTiles(tiles, np.maximum(visits, tiles), longest)


def full_tiles(q_len: Floats, keys: Floats, query_tile: Floats, key_tile: Floats | float) -> QueryTiles:
    """Return key tiles visited when every query sees every key."""
    tiles, each = np.ceil(q_len / query_tile), np.maximum(np.ceil(keys / key_tile), 1.0)
    return QueryTiles(tiles, tiles * each, each)


def split_keys(blocks: Floats, slots: Floats, keys: Floats, least: Floats) -> Floats:
    """Return into how many parts the keys of each block are split to fill the GPU. Shape (n,).

    Parameters
    ----------
    blocks, slots : array, shape (n,)
        Blocks without a split, and blocks the GPU holds.
    keys, least : array, shape (n,)
        Keys of a block, and keys a part has at least. [tokens]

    Examples
    --------
    >>> two = np.array([2.0, 2.0])
    >>> split_keys(
    ...     two, np.array([132.0, 132.0]), np.array([8192.0, 256.0]), np.array([128.0, 128.0])
    ... ).tolist()
    [64.0, 2.0]
    """
    most = np.maximum(1.0, np.ceil(keys / least))
    return np.asarray(np.clip(np.floor(slots / blocks), 1.0, most))


def even_split(blocks: Floats, slots: Floats, tiles: Floats) -> Floats:
    """Return the parts of the keys if every slot is to work through as many key tiles. Shape (n,).

    All key tiles of a batch, and a tenth more, are divided by the slots; a sequence takes as many parts as
    its tiles fill such shares (FlashAttention 3, ``prepare_varlen_num_blocks``).

    Parameters
    ----------
    blocks, slots : array, shape (n,)
        Blocks without a split, and blocks the GPU holds.
    tiles : array, shape (n,)
        Key tiles of a block.

    Examples
    --------
    >>> two = np.array([8.0, 64.0])
    >>> even_split(two, np.full(2, 132.0), np.array([64.0, 64.0])).tolist()
    [13.0, 2.0]
    """
    share = np.ceil(SHARE_MARGIN * blocks * tiles / slots)
    return np.asarray(np.maximum(np.ceil(tiles / share), 1.0))


def growing_split(blocks: Floats, slots: Floats, keys: Floats) -> Floats:
    r"""Return parts that fill the GPU once, and more of long sequences. Shape (n,).

    .. math:: s = \left\lceil \frac{S \max(\log_2 (L / 64), 1)}{B} \right\rceil

    of B blocks, S slots and L keys (SGLang, ``get_num_kv_splits_triton``, for sequences of one length).

    Examples
    --------
    >>> two = np.array([66.0, 66.0])
    >>> growing_split(two, np.full(2, 132.0), np.array([128.0, 4096.0])).tolist()
    [2.0, 12.0]
    """
    return np.asarray(np.ceil(slots * np.maximum(np.log2(keys / LOG_KEYS), 1.0) / blocks))


def rooted_split(blocks: Floats, slots: Floats, keys: Floats, batch: Floats) -> Floats:
    r"""Return parts that grow with the root of the keys, up to eight waves of blocks. Shape (n,).

    .. math:: s = \min\left(n, \sqrt{8 n}, \frac{8 S}{B}, \frac{6000}{b}\right), \quad n = L / 128

    of B blocks of b sequences, S slots and L keys (TensorRT-LLM's XQA, ``computeMultiBlockCount``).

    Examples
    --------
    >>> two, slots = np.array([2.0, 512.0]), np.full(2, 132.0)
    >>> rooted_split(two, slots, np.array([16384.0, 16384.0]), np.array([1.0, 64.0])).tolist()
    [32.0, 2.0]
    """
    kv_splits = np.maximum(np.floor(keys / XQA_KEYS), 1.0)
    kv_splits = np.minimum(kv_splits, np.round(np.sqrt(8.0 * kv_splits)))
    fewer = np.floor(np.minimum(kv_splits, XQA_WAVES * slots / blocks))
    return np.asarray(np.maximum(np.minimum(fewer, np.floor(XQA_PARTS / batch)), 1.0))


def efficient_split(blocks: Floats, slots: Floats, tiles: Floats) -> Floats:
    """Return the fewest parts of the keys whose waves are nearly as full as any number's. Shape (n,).

    A library that splits so takes no parts where blocks already fill 80 % of the slots, and else the least
    number within 85 % of the best fill of its last wave (FlashAttention, ``num_splits_heuristic``).

    It takes what :func:`even_split` does.

    Examples
    --------
    >>> two = np.array([2.0, 100.0, 2.0])
    >>> efficient_split(two, np.full(3, 108.0), np.array([64.0, 64.0, 1.0])).tolist()
    [32.0, 1.0, 1.0]
    """
    splits = np.ones(len(blocks))
    places = np.flatnonzero((blocks < 0.8 * slots) & (tiles > 1.0))
    few_blocks, room, all_tiles = blocks[places], slots[places], tiles[places]
    each = np.arange(1.0, np.minimum(MOST_PARTS, all_tiles.max(initial=1.0)) + 1.0)[:, None]
    waves = few_blocks * each / room
    full = waves / np.ceil(waves)
    # a number of parts that leaves the longest part as long as fewer do is not tried
    longest = np.ceil(all_tiles / each)
    tried = (each <= np.minimum(all_tiles, room)) & (
        longest != np.ceil(all_tiles / np.maximum(each - 1.0, 0.5))
    )
    tried[0] = True
    full = np.where(tried, full, 0.0)
    enough = tried & (full >= NEARLY * full.max(axis=0, initial=0.0))
    if places.size:
        splits[places] = enough.argmax(axis=0) + 1.0
    return splits


def with_skipped(tiles: QueryTiles, unwindowed: QueryTiles, share: Floats) -> QueryTiles:
    """Return tiles with the keys outside of a window that a kernel skips, or reads and masks.

    Each takes ``share`` of a step. Shape (n,). [1]
    """
    return QueryTiles(
        tiles.tiles,
        tiles.visits + share * np.maximum(unwindowed.visits - tiles.visits, 0.0),
        tiles.longest + share * np.maximum(unwindowed.longest - tiles.longest, 0.0),
    )


def in_pairs(block: QueryTiles, half: QueryTiles) -> QueryTiles:
    """Return tiles of blocks that hold two, each of which ends at its own diagonal. Shape (n,). [1]

    A visit is one of both: of two tiles that meet three and four tiles of keys, three and a half.

    >>> one = np.array([256.0, 384.0])
    >>> halves = causal_tiles(one, one, np.full(2, 128.0), 128.0)
    >>> pairs = in_pairs(causal_tiles(one, one, np.full(2, 256.0), 128.0), halves)
    >>> pairs.visits.tolist(), pairs.longest.tolist()
    ([1.5, 3.0], [1.5, 1.5])
    """
    last_alone = half.tiles % 2.0 > 0.0
    longest = np.where(last_alone, np.maximum(half.longest / 2.0, half.longest - 1.5), half.longest - 0.5)
    return QueryTiles(block.tiles, half.visits / 2.0, longest)


def chosen(first: Bools, one: QueryTiles, other: QueryTiles) -> QueryTiles:
    """Return some rows' tiles of ``one``, the rest of ``other``. Shape (n,). [1]"""
    pairs = ((one.tiles, other.tiles), (one.visits, other.visits), (one.longest, other.longest))
    return QueryTiles(*(np.where(first, a, b) for a, b in pairs))


def seen_tiles(s: Scores, visible_keys: Floats, width: Floats, key_tile: Floats) -> QueryTiles:
    """Return tiles of ``width`` query rows over the keys that each of them sees. Shape (n,). [1]"""
    causal = causal_tiles(s.q_len, visible_keys, width, key_tile)
    unmasked = full_tiles(s.q_len, visible_keys, width, key_tile)
    before = np.maximum(s.kv_len - s.q_len, 0.0)
    # keys before the first query are seen by every tile, as far as the window reaches
    extra = np.ceil(np.minimum(before, visible_keys) / key_tile)
    top = np.ceil((visible_keys + width) / key_tile + np.where(visible_keys < s.kv_len, 1.0, 0.0))
    visits = np.where(
        s.causal, np.minimum(causal.visits + causal.tiles * extra, causal.tiles * top), unmasked.visits
    )
    longest = np.where(s.causal, np.minimum(causal.longest + extra, top), unmasked.longest)
    return QueryTiles(causal.tiles, visits, longest)
