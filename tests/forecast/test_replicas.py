"""Requests divided over attention replicas: each is whole on one of them."""

from __future__ import annotations

from typing import Any

import pytest

import tracetool as tt
from tracetool.api.forecast import ForecastResult
from tracetool.forecast.passes import Forward, Parallel, Step, busiest
from tracetool.forecast.serving import Traffic, mixed_pass, prompt_pass

ASKED: dict[str, Any] = {"gpu": "h100-sxm", "isl": 8000}
FOUR: dict[str, Any] = {"dp": 4, "ep": 4}


def _asked(**values: Any) -> ForecastResult:
    return tt.forecast("qwen3-30b-a3b", **{**ASKED, **values})


def _times_ms(**values: Any) -> dict[str, float]:
    """Time of each operator of a pass."""
    return {part["module"]: part["time_ms"] for part in _asked(**values).to_dict()["operators"]}


@pytest.mark.parametrize(
    ("requests", "replicas", "most"),
    [(1, 4, 1), (4, 4, 1), (5, 4, 2), (64, 4, 16), (4.5, 4, 1.5), (2.5, 1, 2.5)],
)
def test_the_busiest_replica_holds_whole_requests(requests: float, replicas: int, most: float) -> None:
    assert busiest(requests, replicas) == most


@pytest.mark.parametrize("requests", [1, 3, 4, 5, 16, 63])
def test_every_token_is_on_a_replica_or_beside_the_busiest(requests: int) -> None:
    step = Step(Forward(requests, 100, requests, 50, 50), Parallel(dp=4, ep=4))
    assert step.all_tokens == requests * 51
    assert step.all_tokens / 4 <= step.tokens <= step.all_tokens
    assert step.tokens == step.logit_rows / 2 * 51 == -(-requests // 4) * 51


@pytest.mark.parametrize("running", [1, 5, 8, 100])
@pytest.mark.parametrize("prompt", [100, 8000, 20_000])
def test_rounds_take_in_every_prompt_once(running: int, prompt: int) -> None:
    traffic = Traffic(running, prompt, 1.0, 8192, replicas=4)
    step = Step(prompt_pass(traffic), Parallel(dp=4, ep=4))
    assert traffic.rounds * step.all_tokens == pytest.approx(running * prompt)
    assert traffic.rounds * step.tokens == pytest.approx(-(-running // 4) * prompt)
    assert step.tokens <= 8192 * (1 + 1e-9)  # the budget is each replica's
    assert Step(mixed_pass(traffic), Parallel(dp=4, ep=4)).all_tokens <= 4 * 8192 * (1 + 1e-9)


def test_a_prompt_is_whole_on_one_replica() -> None:
    alone, shared = _times_ms(mode="prefill", bs=1), _times_ms(mode="prefill", bs=1, **FOUR)
    for module in ("layers.*.self_attn.attn", "layers.*.self_attn.qkv_proj"):
        assert shared[module] == pytest.approx(alone[module])
    assert shared["layers.*.mlp.experts"] < alone["layers.*.mlp.experts"]
    four = _times_ms(mode="prefill", bs=4, **FOUR)
    assert four["layers.*.self_attn.attn"] == pytest.approx(alone["layers.*.self_attn.attn"])


def test_no_replica_decodes_less_than_a_request() -> None:
    alone, shared = (_times_ms(mode="decode", bs=1, **other) for other in ({}, FOUR))
    assert shared["layers.*.self_attn.attn"] == pytest.approx(alone["layers.*.self_attn.attn"])


def test_replicas_without_a_request_wait_and_are_named() -> None:
    one, four = (_asked(mode="prefill", bs=n, **FOUR) for n in (1, 4))
    assert any("3 of 4 attention replicas hold no request" in note for note in one.notes)
    assert not [note for note in four.notes if "attention replicas" in note]
    power = [made.frame["power_w"][0] for made in (one, four)]
    assert power[0] < 0.85 * power[1]


def test_a_replica_holds_the_cache_of_whole_requests() -> None:
    one, four = (_asked(mode="decode", bs=n, **FOUR).frame.to_dicts()[0] for n in (1, 4))
    assert one["memory_gib"] == pytest.approx(four["memory_gib"], rel=0.01)
