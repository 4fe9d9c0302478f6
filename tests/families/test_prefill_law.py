"""The prefill law holds the coefficients its page explains, and no more than the ablation left."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tracetool.families.attention.prefill import PREFILL
from tracetool.hardware.load import load_gpu
from tracetool.replay.operator_tables import read_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "families" / "prefill.md"
#: Coefficients left by ``benchmarks/ablate_law.py``, and ``l2_hit``, worth 5 points on an L40S: one more must
#: be worth its place on shapes left out.
MOST = 25


def test_the_law_has_no_more_coefficients_than_the_ablation_left() -> None:
    assert len(PREFILL.priors) <= MOST


def test_the_page_explains_every_coefficient() -> None:
    table = PAGE.read_text("utf-8").split("\n| coefficient |", 1)[1].split("\n\n", 1)[0]
    explained = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(explained) == sorted(PREFILL.priors)


def _core(dim: int, queries: int, **given: float) -> float:
    """Core clocks of one layer of a vision encoder: no mask, every query sees every key."""
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 32, "q_len": queries}
    row |= {"heads": 16, "head_dim": dim, "causal": False}
    rows = read_table(pl.DataFrame([row])).rows
    return float(PREFILL.pieces(rows, load_gpu("h100-sxm"), given).core_cycles[0])


@pytest.mark.parametrize("queries", [13, 197, 577, 4096])
def test_heads_of_72_cost_what_those_of_80_do(queries: int) -> None:
    assert _core(72, queries) == pytest.approx(_core(80, queries), rel=0.05)  # what L2 gives is not padded
    assert _core(72, queries) > _core(64, queries)


def test_lengths_between_tiles_cost_a_whole_tile() -> None:
    tile = {"query_tile": 64.0, "tail_share": 1.0}
    assert _core(64, 577, **tile) == pytest.approx(_core(64, 640, **tile), rel=1e-6)
    assert _core(64, 641, **tile) > 1.05 * _core(64, 640, **tile)


@pytest.mark.parametrize("dim", [64, 72, 96])
def test_flash_attention_3_takes_192_queries_up_to_heads_of_96(dim: int) -> None:
    sized = {"by_head": 1.0, "spare_share": 1.0}
    assert _core(dim, 192, **sized) < 0.7 * _core(dim, 256, **sized)
    assert _core(128, 192, **sized) == pytest.approx(_core(128, 256, **sized), rel=0.02)


def test_without_a_mask_twice_the_tiles_of_a_causal_prefill_are_visited() -> None:
    row = {"op": "attention", "phase": "prefill", "dtype": "bf16", "batch": 4, "q_len": 8192, "heads": 16}
    frame = pl.DataFrame([{**row, "head_dim": 64, "causal": causal} for causal in (True, False)])
    causal, whole = PREFILL.pieces(read_table(frame).rows, load_gpu("h100-sxm"), {}).core_cycles
    assert 1.8 < whole / causal < 2.0
