from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.operators import rows_of
from tracetool.families.attention.problem import heads_work
from tracetool.families.attention.tiling import causal_tiles, efficient_split, full_tiles, split_keys
from tracetool.hardware.load import load_gpu


def _visited(q_len: int, window: int, query_tile: int, key_tile: int) -> int:
    """Count key tiles one query tile after another."""
    visits = 0
    for first in range(0, q_len, query_tile):
        last = min(first + query_tile, q_len) - 1
        visits += last // key_tile - max(0, first - window + 1) // key_tile + 1
    return visits


@pytest.mark.parametrize("key_tile", [64, 96, 128, 160])
@given(
    q_len=st.integers(1, 6000), window=st.integers(1, 7000), query_tile=st.sampled_from([8, 16, 64, 128, 192])
)
def test_the_closed_form_counts_what_a_loop_counts(
    q_len: int, window: int, query_tile: int, key_tile: int
) -> None:
    seen = np.array([float(min(q_len, window))])
    found = causal_tiles(np.array([float(q_len)]), seen, np.array([float(query_tile)]), key_tile)
    # in closed form edges fall anywhere in a key tile: each query tile may be one off where they do not
    tiles = math.ceil(q_len / query_tile)
    counted = _visited(q_len, window, query_tile, key_tile)
    assert found.tiles[0] == tiles
    assert abs(found.visits[0] - counted) <= 1.0 + (1.0 if window < q_len else 0.5) * tiles
    if window >= q_len and key_tile % query_tile == 0:
        assert found.visits[0] == pytest.approx(counted, abs=1.0 + key_tile / query_tile / 4.0)


def test_a_packed_tile_visits_every_key_tile_up_to_its_queries() -> None:
    found = causal_tiles(np.array([1.0]), np.array([1.0]), np.array([128.0 / 32.0]), 128.0)
    assert found.tiles[0] == 1.0
    assert found.visits[0] == 1.0


@given(st.floats(1, 1e5), st.floats(1, 1e5))
def test_full_attention_visits_all(q_len: float, keys: float) -> None:
    found = full_tiles(np.array([q_len]), np.array([keys]), np.array([64.0]), 128.0)
    assert found.visits[0] == math.ceil(q_len / 64) * math.ceil(keys / 128)


@given(st.integers(1, 10_000), st.integers(1, 300), st.integers(1, 200_000), st.integers(32, 512))
def test_a_split_fills_the_gpu_and_never_cuts_below_the_least(
    blocks: int, slots: int, keys: int, least: int
) -> None:
    parts = split_keys(*(np.array([float(x)]) for x in (blocks, slots, keys, least)))[0]
    assert 1 <= parts <= max(1, math.ceil(keys / least))
    assert parts == 1 or parts * blocks <= slots


def test_parts_fill_waves_and_no_fewer_do() -> None:
    """No number of parts below the chosen one comes within 85 % of the best fill."""
    lanes, tiles, slots = 24.0, 50.0, 216.0
    chosen = efficient_split(np.array([lanes]), np.array([slots]), np.array([tiles]))[0]

    def fill(parts: float) -> float:
        return float(lanes * parts / slots / np.ceil(lanes * parts / slots))

    distinct = [
        1.0,
        *(p for p in np.arange(2.0, tiles + 1) if np.ceil(tiles / p) != np.ceil(tiles / (p - 1))),
    ]
    enough = 0.85 * max(fill(p) for p in distinct)
    assert fill(chosen) >= enough
    assert all(fill(p) < enough for p in distinct if p < chosen)


def test_full_gpus_and_short_keys_are_not_split() -> None:
    blocks, tiles = np.array([180.0, 1.0, 1e6]), np.array([64.0, 1.0, 1e4])
    assert efficient_split(blocks, np.full(3, 216.0), tiles).tolist() == [1.0, 1.0, 1.0]


def test_every_128_queries_draw_the_keys_from_l2() -> None:
    """200 queries are two tiles: 1,024 keys more are drawn twice, keys and values of 16 heads of 128."""
    one, more = (
        heads_work(
            rows_of("attention", phase="prefill", batch=2, q_len=200, kv_len=keys, heads=16, kv_heads=16,
                    head_dim=128, causal=0),
            load_gpu("h100-sxm"),
        ).l2_bytes[0]
        for keys in (4096, 5120)
    )  # fmt: skip
    assert more - one == pytest.approx(2 * 2 * 16 * 1024 * (128 + 128) * 2)
