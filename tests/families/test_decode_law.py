"""Decode: heads that are packed or not, and what heads of no power of two take."""

from __future__ import annotations

import polars as pl
import pytest

from tracetool.families.attention.decode import DECODE
from tracetool.families.pieces import Pieces
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

GPU = load_gpu("l40s")


def _step(given: dict[str, float], **columns: float) -> Pieces:
    row: dict[str, object] = {"op": "attention", "phase": "decode", "dtype": "bf16", "batch": 64, "q_len": 1}
    row |= {"kv_len": 4096, "heads": 32, "kv_heads": 4, "head_dim": 128, **columns}
    return DECODE.pieces(read_table(pl.DataFrame([row])).rows, GPU, given)


def test_heads_of_a_group_apart_read_the_keys_once_each() -> None:
    packed, apart = (_step({"pack_windowed": habit}, window=4000.0).work.l2_bytes[0] for habit in (1.0, 0.0))
    assert apart == pytest.approx(8.0 * packed, rel=0.05)


def test_without_a_window_heads_are_packed_either_way() -> None:
    packed, apart = (_step({"pack_windowed": habit}).core_cycles[0] for habit in (1.0, 0.0))
    assert packed == apart


def test_heads_of_no_power_of_two_take_more_launches() -> None:
    given = {"odd_dim_us": 8.0}
    pace = 1980.0 / GPU.clock_boost_mhz
    more = _step(given, head_dim=192.0).fixed_s - _step(given, head_dim=256.0).fixed_s
    assert more[0] == pytest.approx(8e-6 * pace)
