"""Training by efficiencies that saturate: the form of the method, and how scalars are refined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.forecast.operator_rows import collective, elementwise, gemm, operator
from tracetool.forecast.saturation import delivered, operator_times, operator_work, refined
from tracetool.hardware.load import load_gpu

SMALL = {**CONFIG, "num_hidden_layers": 4}
STEP: dict[str, Any] = {"gpu": "a100-sxm", "mode": "train", "bs": 2, "seq": 512, "stack": "torch"}
BERT = {
    "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "vocab_size": 30000, "max_position_embeddings": 512, "type_vocab_size": 2,
}  # fmt: skip


def _one(model: Any = SMALL, **values: Any) -> dict[str, Any]:
    return tt.forecast(model, **{**STEP, "method": "saturation", **values}).frame.to_dicts()[0]


def _times(*rows: Any, clock_mhz: float = 1410.0) -> list[float]:
    times = operator_times(operator_work(rows), load_gpu("a100-sxm"), np.array([clock_mhz]), delivered())
    return [float(time) for time in times[:, 0] - delivered().launch_s]


def test_efficiency_saturates_with_every_dimension_of_a_product() -> None:
    gpu, of = load_gpu("a100-sxm"), delivered()
    rates = []
    for size in (64, 512, 4096, 8192):
        (time,) = _times(gemm("p", "bf16", size, size, size))
        rates.append(2.0 * size**3 / time / float(gpu.peak_flops("tensor_bf16", 1410)))
    assert rates == sorted(rates)
    assert 0.9 * of.product["bf16"] < rates[-1] < of.product["bf16"]


def test_work_is_that_of_the_rows() -> None:
    work = operator_work([
        gemm("p", "fp32", 8, 16, 32, batch=4),
        operator("attention", "a", dtype="bf16", batch=2.0, q_len=64.0, kv_len=64.0, heads=4.0, head_dim=32.0,
                 causal=1.0),
        elementwise("e", "fp32", 1000, reads=2, writes=1),
        collective("c", "all_reduce", 1e6, 4),
    ])  # fmt: skip
    assert work.flops.tolist() == [2 * 4 * 8 * 16 * 32, 4 * 2 * 4 * 64 * 64 * 32 / 2, 0, 0]
    assert work.moved_bytes[[2, 3]].tolist() == [12000, 1e6]


def test_precisions_differ_as_their_units_do() -> None:
    fp32, tf32, bf16 = (_one(dtype=d)["step_ms"] for d in ("fp32", "tf32", "bf16"))
    assert fp32 > 2 * tf32 > 2 * bf16


def test_shared_weights_save_the_optimizers_work_not_the_layers() -> None:
    shared = {
        **BERT,
        "model_type": "albert",
        "embedding_size": 128,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
    }
    rows = {kind: tt.forecast(model, **{**STEP, "method": "saturation"}) for kind, model in
            (("albert", shared), ("bert", BERT))}  # fmt: skip
    gemm_ms = {kind: result.parts.filter(family="gemm")["time_ms"].sum() for kind, result in rows.items()}
    assert gemm_ms["albert"] == pytest.approx(gemm_ms["bert"], rel=0.1)
    assert (
        rows["albert"].to_dict()["facts"]["optimizer_ms"]
        < 0.4 * rows["bert"].to_dict()["facts"]["optimizer_ms"]
    )


def test_figures_are_consistent() -> None:
    one, four = _one(gbs=8, bs=2), _one(gbs=8, bs=2, dp=4)
    for row in (one, four):
        assert row["energy_per_item_j"] == pytest.approx(row["power_w"] * row["step_ms"] / 1e3 / 8)
        assert row["step_ms_low"] < row["step_ms"] < row["step_ms_high"]
        assert row["covered"] == 0
    assert 0.2 < four["step_ms"] / one["step_ms"] < 0.6
    slow = _one(clock_mhz=900)
    assert slow["step_ms"] > _one()["step_ms"]
    assert slow["power_w"] < _one()["power_w"]


def test_scalars_are_found_again_and_drawn_to_one() -> None:
    rng = np.random.default_rng(3)
    models, precisions = ["a", "b", "c"] * 40, ["fp32", "bf16"] * 60
    truth = {"a": 0.8, "b": 1.0, "c": 1.4}
    residual = np.log([truth[m] for m in models]) + rng.normal(0.0, 0.02, 120)
    by_model, by_precision = refined(residual, models, precisions, 0.5, 0.02)
    for name, value in truth.items():
        assert by_model[name] * by_precision["fp32"] == pytest.approx(value, rel=0.02)
    few, _ = refined(np.log([1.5]), ["a"], ["fp32"], 0.1, 0.3)
    assert 1.0 < few["a"] < 1.1


@pytest.mark.parametrize(
    ("values", "part"), [({"mode": "serve"}, "--mode train"), ({"method": "magic"}, "known: laws")]
)
def test_where_it_does_not_apply_it_says_so(values: dict[str, Any], part: str) -> None:
    with pytest.raises(tt.BadInput, match=f"^method: .*{part}"):
        _one(**values)
