"""Experts of a training step: their products hold the work of the layer, and links say what a server is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracetool.forecast.case import Case
from tracetool.forecast.config import read_model
from tracetool.forecast.experts import Experts
from tracetool.forecast.model import Forward, Parallel
from tracetool.forecast.training_experts import trained_experts
from tracetool.forecast.training_step import divide_training, plan_training
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu

MODEL = read_model("qwen3-30b-a3b")
TOKENS = 4096.0


def _rows(parallel: Parallel, linked: int = 8, *, fused: bool = True) -> list[dict[str, float | str]]:
    forward = Forward(0, 0, float(parallel.dp), TOKENS, TOKENS, TOKENS)
    return trained_experts(MODEL.operators(forward, parallel), parallel, linked, fused=fused)


@pytest.mark.parametrize("parallel", [Parallel(), Parallel(dp=8, ep=8), Parallel(tp=2, dp=4, ep=8)])
def test_products_of_experts_hold_the_work_of_the_layer(parallel: Parallel) -> None:
    counted = sum(
        2.0 * float(r["count"]) * float(r["m"]) * float(r["n"]) * float(r["k"]) * float(r["batch"])
        for r in _rows(parallel)
        if str(r["module"]).endswith((".experts.gate_up_proj", ".experts.down_proj"))
    )
    # three matrices of 2048 by 768 for each of eight experts a token, in each of 48 layers
    tokens = TOKENS * parallel.dp / parallel.ep
    assert counted == pytest.approx(2.0 * tokens * 48 * 8 * 3 * 2048 * 768, rel=1e-6)


def test_one_operator_stands_for_the_experts_where_they_are_not_grouped() -> None:
    rows = _rows(Parallel(), fused=False)
    assert [r["distribution"] for r in rows if r["op"] == "moe"] == ["balanced"]


def test_a_rack_of_links_sends_each_token_to_each_of_its_experts() -> None:
    parallel = Parallel(dp=16, ep=16)

    def sent(linked: int) -> float:
        rows = _rows(parallel, linked)
        return next(float(r["bytes"]) for r in rows if str(r["module"]).endswith(".dispatch"))

    assert sent(72) == pytest.approx(TOKENS * 2048 * 2 * 8)
    # two servers: a token reaches a server unless none of its eight experts is there; the mean of once to
    # each server and once to each expert
    assert sent(8) == pytest.approx(TOKENS * 2048 * 2 * (2 * (1 - 0.5**8) + 8) / 2)


def _exchange_s(case: Case, gpu: Gpu) -> tuple[float, float]:
    """Return what a dispatch takes over its law, and the host's time that nothing hides. [1, s]"""
    plan = plan_training(case, MODEL, gpu, divide_training(case), gpu.clock_boost_mhz)
    row = next(r for r in plan.stages[0].rows if str(r["module"]).endswith(".dispatch"))
    return plan._slower(row), plan.hosts[0].before_s


def test_experts_are_exchanged_beside_products_only_between_interleaved_stages() -> None:
    gpu = load_gpu("h100-sxm")
    case = Case(bs=1.0, seq=4096.0, gbs=64.0, gpus=64, pp=4, ep=16)
    alone, waits = _exchange_s(case, gpu)
    beside, _ = _exchange_s(replace(case, vpp=4), gpu)
    rack, _ = _exchange_s(replace(case, vpp=4), load_gpu("gb200"))
    assert (alone, rack) == (1.0, 1.0)
    assert beside < 1.0
    assert waits > 0.0


def test_biases_and_limits_of_experts_are_passes_of_their_own() -> None:
    """GPT-OSS has both: every expert's results are weighted, added and joined, and its inputs held back."""
    model, parallel = read_model("gpt-oss-120b"), Parallel(dp=8, ep=8)
    part = next(part for group in model.groups for part in group.parts if isinstance(part, Experts))
    assert part.bias
    assert part.clamped
    rows = model.operators(Forward(0, 0, 8.0, TOKENS, TOKENS, TOKENS), parallel)

    def moved(of: Experts | None) -> dict[str, tuple[float, float]]:
        """Return numbers moved and launches of passes by the ends of their names."""
        passes = [r for r in trained_experts(rows, parallel, 8, fused=True, part=of) if "elements" in r]
        each = {
            name: [r for r in passes if str(r["module"]).endswith(f".experts.{name}")] for name in _PASSES
        }
        return {
            name: (sum(_moved(r) for r in found), sum(float(r["count"]) for r in found))
            for name, found in each.items()
        }

    without, beside = moved(None), moved(part)
    pairs = 36 * TOKENS * 8 * 4 / 8  # of all layers on one of eight GPUs
    assert without["bias"] == without["biased"] == without["clamp"] == (0, 0)
    assert beside["act"] == without["act"]
    # limits of both halves, and their joining: each reads and writes 2 x 2880 numbers of a pair
    assert beside["clamp"] == (pytest.approx(pairs * 2 * 2880 * 2 * 2), 2 * 36)
    # 16 experts on a GPU: a product by the weight, and an addition, each of 2880 numbers of a pair
    assert beside["bias"] == (pytest.approx(2 * pairs * 2880 * 2), 36 * 2 * 16)
    assert beside["biased"] == (pytest.approx(pairs * 2880 * 2), 36)


_PASSES = ("act", "clamp", "bias", "biased")


def _moved(row: dict[str, float | str]) -> float:
    return float(row["count"]) * float(row["elements"]) * (float(row["reads"]) + float(row["writes"]))
