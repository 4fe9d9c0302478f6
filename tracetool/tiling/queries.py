"""How attention lies on the chip: tiles of queries over tiles of keys, heads packed, keys split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.vocabulary.arrays import Floats


@dataclass(frozen=True)
class QueryTiles:
    """Query tiles of one head (or group of heads) of one sequence, all of shape (n,)."""

    tiles: Floats  # query tiles
    visits: Floats  # key tiles over all query tiles
    longest: Floats  # key tiles of the last query tile


def causal_tiles(q_len: Floats, seen: Floats, query_tile: Floats, key_tile: float) -> QueryTiles:
    r"""Return how many key tiles causal query tiles visit.

    Parameters
    ----------
    q_len : array, shape (n,)
        Queries, the last lined up with the last key. [tokens]
    seen : array, shape (n,)
        Keys the last query sees: the sequence, or a window. [tokens]
    query_tile : array, shape (n,)
        Queries of one tile; below 1 where many heads share one. [tokens]
    key_tile : float
        Keys of one tile. [tokens]

    Notes
    -----
    Tile :math:`i` ends at query :math:`(i+1) b_q` and visits
    :math:`\min(\lceil (i+1) b_q / b_k \rceil, \lceil (w + b_q) / b_k \rceil)` key tiles; tiles above
    the diagonal are skipped. The sum is taken in closed form; a query tile narrower than a key tile
    still visits whole ones, half of one more on average.

    Examples
    --------
    >>> one = np.array([512.0])
    >>> causal_tiles(one, one, np.array([128.0]), 128.0).visits.tolist()
    [10.0]
    """
    tiles = np.ceil(q_len / query_tile)
    most = np.ceil((seen + query_tile) / key_tile)
    ratio = query_tile / key_tile
    rising = np.minimum(tiles, np.floor(most / ratio))
    rounding = np.where(ratio >= 1.0, 0.0, (1.0 - ratio) / 2.0)
    visits = ratio * rising * (rising + 1.0) / 2.0 + rounding * rising + (tiles - rising) * most
    longest = np.maximum(np.minimum(np.ceil(tiles * ratio), most), 1.0)
    return QueryTiles(tiles, np.maximum(visits, tiles), longest)


def full_tiles(q_len: Floats, keys: Floats, query_tile: Floats, key_tile: float) -> QueryTiles:
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
