"""Steps of training as a whole: what must hold of any model, and what becomes of cases that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

import tracetool as tt
from tracetool.core.errors import BadInput
from tracetool.forecast.case import Case
from tracetool.forecast.config import read_model
from tracetool.forecast.forecast import forecast_cases
from tracetool.forecast.model import Parallel
from tracetool.forecast.training_memory import weights_of
from tracetool.forecast.training_step import divide_training
from tracetool.hardware.load import load_gpu

STEP: dict[str, Any] = {"gpu": "h100-sxm", "mode": "train", "bs": 1, "gbs": 16, "seq": 2048}


def one(model: str = "llama-3.1-8b", **values: Any) -> dict[str, Any]:
    return tt.forecast(model, **{**STEP, **values}).frame.to_dicts()[0]


def facts(model: str = "llama-3.1-8b", **values: Any) -> dict[str, float]:
    return dict(tt.forecast(model, **{**STEP, **values}).source.facts)


def test_figures_lie_in_their_intervals_and_agree() -> None:
    row = one(dp=8)
    for name in ("step_ms", "power_w", "energy_per_item_j", "memory_gib"):
        assert 0 < row[f"{name}_low"] < row[name] <= row[f"{name}_high"]
    assert row["energy_per_item_j"] * 16 == pytest.approx(row["power_w"] * row["step_ms"] / 1e3)
    assert row["tokens_per_s"] == pytest.approx(16 * 2048 / row["step_ms"] * 1e3)


def test_no_step_beats_the_peak() -> None:
    # six operations a weight and token (Kaplan et al., 2020, section 2.1) at 989 TFLOP/s of dense bf16
    weights = 8.03e9 - 128256 * 4096
    assert one()["step_ms"] > 1e3 * 6 * weights * 16 * 2048 / 989e12


@pytest.mark.parametrize(
    ("model", "division", "seconds"),
    [
        ("llama-3.1-8b", {"gpus": 8, "cp": 2, "gbs": 128}, 12.27),
        ("llama-3.1-70b", {"gpus": 64, "tp": 4, "pp": 4, "cp": 2, "vpp": 5, "gbs": 128}, 14.66),
        ("llama-3.1-405b", {"gpus": 512, "tp": 8, "pp": 8, "cp": 2, "vpp": 8, "gbs": 256}, 19.78),
    ],
)
def test_steps_in_bf16_take_as_long_as_nvidia_publishes(
    model: str, division: dict[str, int], seconds: float
) -> None:
    # NVIDIA dgxc-benchmarking, recipe llama3.1 for NeMo 25.02 on DGX H100
    row = one(model, seq=8192, dtype="bf16", **division)
    assert 0.86 < row["step_ms"] / (1e3 * seconds) < 1.05
    assert row["step_ms_low"] < 1e3 * seconds < row["step_ms_high"]


def test_products_in_16_bits_reach_what_cublas_sustains_under_the_cap() -> None:
    # 735 TFLOP/s over 15 s of products of 8192 cubed at 700 W (H800 SXM, cuBLASLt, random bf16)
    parts = tt.forecast("llama-3.1-8b", **{**STEP, "seq": 8192, "gbs": 1}).source.parts
    (milliseconds,) = parts.filter(parts["module"].str.ends_with("mlp.gate_up_proj"))["time_ms"]
    rate = 2 * 8192 * 28672 * 4096 * 32 / (milliseconds * 1e-3)
    assert 0.9 < rate / 735e12 < 1.1


def test_recomputing_every_layer_costs_a_third_of_the_passes_and_saves_memory() -> None:
    plain, again = one(), one(recompute="full")
    assert 1.2 < again["step_ms"] / plain["step_ms"] < 1.4
    assert facts(recompute="full")["activations_gib"] < 0.5 * facts()["activations_gib"]


def test_bubbles_are_the_stages_less_one_over_the_micro_batches() -> None:
    values = facts(gpus=4, pp=4)
    passes = values["forward_ms"] + values["backward_ms"]
    assert values["bubble_ms"] / passes == pytest.approx(3 / 16)
    assert facts(gpus=4, pp=4, vpp=4)["bubble_ms"] == pytest.approx(values["bubble_ms"] / 4)


def test_more_micro_batches_share_one_exchange_and_one_bubble() -> None:
    few, many = (one(gpus=8, pp=2, gbs=n) for n in (8, 128))
    assert many["step_ms"] < 16 * few["step_ms"]
    assert many["energy_per_item_j"] < few["energy_per_item_j"]


def test_zero_divides_state_then_gradients_then_weights() -> None:
    shares = [facts(dp=8, zero=zero) for zero in (0, 1, 2, 3)]
    for stage, name in ((1, "optimizer_gib"), (2, "gradients_gib"), (3, "weights_gib")):
        for zero in (0, 1, 2, 3):
            expected = shares[0][name] / (8 if zero >= stage else 1)
            assert shares[zero][name] == pytest.approx(expected)
    # 2 bytes of weights, 2 of gradients, 12 of master and two moments (ZeRO, 2020, section 3.1)
    assert shares[0]["optimizer_gib"] == pytest.approx(6 * shares[0]["weights_gib"])


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_gpus_that_share_layers_divide_all_activations(recompute: str) -> None:
    # sbh (34 + 5as/h) / t with sequence parallel (Korthikanti et al., 2022, section 4.2.2, equation 4)
    held = [
        facts("llama-3.1-70b", gpus=tp, tp=tp, seq=8192, gbs=1, recompute=recompute)["activations_gib"]
        for tp in (1, 2, 4, 8)
    ]
    assert held == pytest.approx([held[0] / tp for tp in (1, 2, 4, 8)], rel=1e-3)


def test_published_steps_fit_their_gpus() -> None:
    # NVIDIA dgxc-benchmarking, recipe llama3.1 for NeMo 25.02: 70 and 405 billion weights on H100 of 80 GB
    for model, division in (
        ("llama-3.1-70b", {"gpus": 64, "tp": 4, "pp": 4, "cp": 2, "vpp": 5, "gbs": 128}),
        ("llama-3.1-405b", {"gpus": 512, "tp": 8, "pp": 8, "cp": 2, "vpp": 8, "gbs": 256}),
    ):
        row = one(model, seq=8192, dtype="bf16", **division)
        assert row["memory_gib"] < load_gpu("h100-sxm").memory_bytes / 2**30


def test_replicas_keep_the_passes_and_exchange_gradients_beside_them() -> None:
    alone, eight = facts(gbs=2, clock_mhz=1400), facts(dp=8, gbs=16, clock_mhz=1400)  # below the cap
    assert alone["forward_ms"] == pytest.approx(eight["forward_ms"])
    assert "gradients_ms" not in alone
    assert eight["exposed_exchange_ms"] < eight["gradients_ms"] + eight["weights_ms"]


def test_replicas_of_whole_servers_exchange_through_one_adapter_a_gpu() -> None:
    """Eight H100 a replica: the others are in other servers, 50 GB/s away in place of NVLink's 450."""
    weights = 8.03e9 / 8
    gradients = weights * 2 * 7 / 8  # in 16 bits, reduced and scattered among eight
    spread = facts(tp=8, dp=8, gbs=64)
    assert 0.9 < gradients / 50e9 / (spread["gradients_ms"] * 1e-3) <= 1.0
    assert spread["gradients_ms"] > 5.0 * facts(tp=1, dp=8, gbs=64)["gradients_ms"] / 8


def test_formats_of_fewer_bits_take_less_time() -> None:
    wide, half, narrow = (one(dtype=d)["step_ms"] for d in ("fp32", "bf16", "fp8"))
    assert narrow < half < wide


def test_experts_are_divided_over_the_replicas() -> None:
    # Qwen3-30B-A3B as published: 128 experts of 3 x 2048 x 768 in each of 48 layers
    model = read_model("qwen3-30b-a3b")
    dense, experts = weights_of(model, Parallel())
    assert dense + experts == pytest.approx(model.parameters, rel=1e-3)
    local = weights_of(model, divide_training(Case(gpus=16, ep=16)).parallel)
    assert local[0] == pytest.approx(dense)
    assert local[1] == pytest.approx(experts / 16, rel=0.02)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"gbs": 3, "dp": 2}, "gbs"),
        ({"recompute": "some"}, "recompute"),
        ({"dtype": "int8"}, "dtype"),
        ({"zero": 7}, "zero"),
        ({"optimizer": "lamb?"}, "optimizer"),
        ({"attention": "slow"}, "attention"),
        ({"bs": 1.5}, "bs"),
        ({"gpus": 6, "tp": 4}, "gpus"),
        ({"gpus": 8, "tp": 4, "ep": 6}, "ep"),
        ({"tp": 7}, "num"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput, match=field):
        one(**values)


def test_pipelines_of_pictures_are_not_trained() -> None:
    with pytest.raises(BadInput, match="mode"):
        one("flux.1-dev")


def test_a_step_that_does_not_fit_says_so() -> None:
    result = tt.forecast("llama-3.1-70b", **STEP)
    assert "do not fit" in " ".join(result.notes)


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({}, "--zero 3"),
        ({"tp": 2, "dp": 2, "zero": 3, "bs": 64, "gbs": 128}, "--recompute full"),
        ({"dp": 16}, ""),
    ],
)
def test_a_note_on_memory_names_what_would_fit(values: dict[str, Any], fix: str) -> None:
    notes = [n for n in tt.forecast("llama-3.1-8b", **{**STEP, **values}).notes if "do not fit" in n]
    assert len(notes) == bool(fix)
    assert fix in " ".join(notes)


@pytest.mark.parametrize("attention", ["flash", "eager"])
def test_operator_by_operator_takes_longer_than_fused_layers(attention: str) -> None:
    values = {"optimizer": "none", "gbs": 1, "attention": attention}
    assert one("llama-3.2-1b", stack="torch", **values)["step_ms"] > one("llama-3.2-1b", **values)["step_ms"]


@pytest.mark.parametrize("zero", [1, 3])
def test_no_power_is_above_the_limit(zero: int) -> None:
    row = one(gpus=8, gbs=64, seq=4096, zero=zero, recompute="full")
    assert row["power_w"] <= row["power_w_high"] <= 8 * 700


@pytest.mark.parametrize(
    ("division", "named"),
    [
        ({"gpus": 7, "tp": 2}, "tp = 2 "),
        ({"gpus": 7, "tp": 2, "pp": 2}, "tp x pp = 4 "),
        ({"gpus": 8, "tp": 2, "dp": 3}, "tp x dp = 6 "),
    ],
)
def test_gpus_that_cannot_be_divided_are_told_by_what_was_stated(
    division: dict[str, int], named: str
) -> None:
    with pytest.raises(BadInput) as error:
        one(**division)
    assert f"is not a multiple of {named}" in error.value.line()


@pytest.mark.parametrize(("mode", "gathers"), [("train", False), ("decode", True)])
def test_stages_of_whole_servers_send_through_their_adapters(mode: str, *, gathers: bool) -> None:
    """Eight GPUs a stage: each sends its eighth of the activations to the next server, 50 GB/s."""
    stated = {"model": "llama-3.1-70b", "gpu": "h100-sxm", "mode": mode, "tp": 8, "pp": 2, "bs": 1}
    (outcome,) = forecast_cases(
        [{**stated, "isl": 8192, "seq": 8192, "gbs": 16} if mode == "train" else stated]
    )
    assert outcome.forecast is not None
    rows = {str(part.row.get("module")): part.row for part in outcome.forecast.parts}
    tokens = 8192 if mode == "train" else 1
    assert rows["stage"]["rank_stride"] == 8.0
    assert rows["stage"]["bytes"] == pytest.approx(tokens * 8192 * 2.0 / 8)
    assert ("stage.gather" in rows) == gathers


@pytest.mark.parametrize("dp", [1, 4])
def test_all_replicas_of_a_stage_stand_before_the_next(dp: int) -> None:
    stated = {"model": "llama-3.1-70b", "gpu": "h100-sxm", "mode": "train", "tp": 2, "pp": 2, "gbs": 16}
    (outcome,) = forecast_cases([{**stated, "dp": dp}])
    assert outcome.forecast is not None
    sends = [part.row for part in outcome.forecast.parts if part.row.get("kind") == "send_recv"]
    assert [row["rank_stride"] for row in sends] == [2.0 * dp] * len(sends)
    assert sends
