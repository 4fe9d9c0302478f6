"""Continuous batching: how many prompts a step takes in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.forecast.engine import SAMPLING, engine_of
from tracetool.forecast.forecast import forecast_cases
from tracetool.forecast.pricing import PassRows, price
from tracetool.forecast.serving import Traffic, chunks, decode_pass, median_tokens, mixed_pass
from tracetool.forecast.tables import forecast_one
from tracetool.hardware.load import load_gpu


@pytest.mark.parametrize(("running", "output"), [(64, 400), (512, 400), (2000, 300), (500, 8000)])
def test_median_prompt_tokens_are_those_of_simulated_steps(running: float, output: float) -> None:
    traffic = Traffic(running, 400, output, 1e9)
    draw = np.random.default_rng(7)
    arrivals = draw.poisson(traffic.arrivals, 20_000)
    tokens = np.array([draw.exponential(400, n).sum() for n in arrivals])
    assert median_tokens(traffic) == pytest.approx(np.median(tokens), rel=0.05, abs=25.0)
    assert traffic.mixed_share == pytest.approx(np.mean(arrivals > 0), abs=0.02)
    assert traffic.prompt_tokens == pytest.approx(np.mean(tokens), rel=0.05)


@pytest.mark.parametrize(("running", "output"), [(1, 1), (1, 4), (2, 2), (3, 8)])
def test_no_step_takes_in_more_prompts_than_it_has_places(running: int, output: int) -> None:
    traffic = Traffic(running, 400, output, 1e9)
    draw = np.random.default_rng(7)
    arrivals = draw.binomial(running, 1 / output, 20_000)
    assert traffic.mixed_share == pytest.approx(np.mean(arrivals > 0), abs=0.02)
    others = draw.binomial(running - 1, 1 / output, 20_000)
    tokens = np.array([draw.exponential(400, n).sum() for n in others])
    assert median_tokens(traffic) == pytest.approx(np.median(tokens), rel=0.05, abs=25.0)


@pytest.mark.parametrize("output", [1, 4, 16, 64, 512])
def test_a_request_alone_waits_for_its_own_prompt_and_no_other(output: int) -> None:
    case = {"model": CONFIG, "gpu": "h100-sxm", "isl": 1024, "bs": 1}
    alone = figures_of({**case, "mode": "prefill"})["ttft_ms"]
    figures = figures_of({**case, "mode": "serve", "osl": output})
    assert figures["ttft_ms"] == pytest.approx(alone, rel=0.02)
    assert ("itl_ms" in figures) == (output > 1)


@pytest.mark.parametrize("isl", [1024, 20_000])
def test_no_engine_takes_in_prompts_faster_than_prompts_alone(isl: int) -> None:
    case = {"model": CONFIG, "gpu": "h100-sxm", "isl": isl}
    (outcome,) = forecast_cases([{**case, "mode": "serve", "osl": 1, "bs": 16, "sampling": "greedy"}])
    assert outcome.forecast is not None
    alone = figures_of({**case, "mode": "prefill", "bs": 8})["tokens_per_s"]
    assert outcome.forecast.figures["tokens_per_s"].value == pytest.approx(alone, rel=0.05)
    assert any("of 16 requests run at once, others wait" in note for note in outcome.forecast.notes)


def test_a_grid_of_single_tokens_is_judged_by_the_first() -> None:
    single = tt.forecast(CONFIG, gpu="h100-sxm", bs=[1, 8], osl=1)
    assert "TTFT within 5 %" in " ".join(single.best["goal"])
    some = tt.forecast(CONFIG, gpu="h100-sxm", bs=8, osl=[1, 16])
    assert some.frame["pareto_latency"].to_list() == [False, True]
    for result in (single, some):
        result.show()


def test_mean_of_steps_is_what_requests_bring() -> None:
    traffic = Traffic(256, 1000, 200, 8192)
    assert traffic.mixed_share * traffic.mixed_tokens == pytest.approx(traffic.prompt_tokens)
    assert traffic.prompt_tokens == pytest.approx(256 / 200 * 1000)


def test_no_step_takes_in_more_than_its_budget() -> None:
    traffic = Traffic(256, 20_000, 50, 8192)
    passed = mixed_pass(traffic)
    assert passed.tokens <= 8192 * (1 + 1e-9)
    assert passed.prefill_context > passed.prefill_tokens  # a piece sees the pieces before it
    assert median_tokens(traffic) <= traffic.room


def test_every_token_of_a_pass_is_counted_once() -> None:
    traffic = Traffic(100, 300, 500, 8192)
    assert decode_pass(traffic).tokens == 100
    mixed = mixed_pass(traffic)
    assert mixed.tokens == pytest.approx(100 - mixed.prefill_requests + traffic.mixed_tokens)
    requests, each, context = chunks(900.0, 300.0, 8192.0)
    assert requests * each == 900.0
    assert context >= each


def test_memory_limits_the_context() -> None:
    assert Traffic(8, 100, 1000, 8192).context == 600
    assert Traffic(8, 100, 1000, 8192, most_context=200).context == 200


@pytest.mark.parametrize("stack", ["vllm", "vllm 0.11.1", "sglang", "trtllm", "torch", ""])
def test_every_stack_has_the_host_time_of_an_engine(stack: str) -> None:
    engine = engine_of(stack, "h100-sxm")
    assert 0 < engine.step_s < 0.01
    assert engine.host(200).before_s >= engine.step_s
    assert engine.sort_s(128) < engine.sort_s(129) < 129 * engine.request_s


def test_sorts_of_sampling_are_kernels_that_draw_power() -> None:
    case = {"gpu": "h100-sxm", "mode": "decode", "isl": 400, "osl": 400, "bs": 96}
    pieces = {name: forecast_one({"model": CONFIG, "sampling": name, **case}).pieces for name in SAMPLING}
    idle, sorts = (
        next(p for p in pieces["sampled"] if p.name == name) for name in ("(idle)", "sampler.sort")
    )
    assert sorts.time_s == pytest.approx(engine_of("vllm", "h100-sxm").sort_s(96))
    assert sorts.family == "sort"
    assert sorts.energy_j / sorts.time_s > 1.5 * idle.energy_j / idle.time_s
    assert not any(p.name == "sampler.sort" for p in pieces["greedy"])


@pytest.mark.parametrize("tokens", [16.0, 64.0, 256.0])
def test_experts_of_half_the_weights_take_less_time(tokens: float) -> None:
    """At about a token an expert weights alone are read, and those in 8 bits are half of those in 16."""
    engine, gpu = engine_of("vllm", "h100-sxm"), load_gpu("h100-sxm")
    experts = {"op": "moe", "module": "experts", "count": 1.0, "tokens": tokens, "hidden": 5120.0,
               "intermediate": 8192.0, "top_k": 1.0, "experts": 128.0, "tp": 1.0, "ep": 8.0}  # fmt: skip
    rows = [engine.placed({**experts, "dtype": dtype}) for dtype in ("bf16", "fp8")]
    priced = price([PassRows(rows, gpu, "vllm", gpu.clock_boost_mhz)])[0]
    assert priced.duration_s[1, 0] < priced.duration_s[0, 0]
    assert [engine.stands_in(row) for row in rows] == [False, True]


def figures_of(case: dict[str, Any]) -> dict[str, float]:
    (outcome,) = forecast_cases([case])
    assert outcome.forecast is not None, outcome.error
    return {name: figure.value for name, figure in outcome.forecast.figures.items()}


@pytest.mark.parametrize("mode", ["prefill", "decode", "serve"])
@pytest.mark.parametrize("division", [{"pp": 4}, {"tp": 2, "pp": 2}, {"gpus": 4}, {"gpus": 4, "pp": 2}])
@pytest.mark.parametrize("requests", [1, 2, 32])
def test_power_is_energy_per_token_times_rate_and_requests_are_those_asked_for(
    mode: str, division: dict[str, int], requests: int
) -> None:
    case = {"model": CONFIG, "gpu": "h100-sxm", "mode": mode, "isl": 512, "osl": 64, "bs": requests}
    figures = figures_of({**case, **division})
    spent = figures["energy_per_token_j"] * figures["tokens_per_s"]
    assert spent == pytest.approx(figures["power_w"])
    wait_ms = figures["ttft_ms" if mode == "prefill" else "itl_ms"]
    # serving: prompts lengthen some steps, so that the mean is longer than the median
    assert figures["tokens_per_s"] <= requests / wait_ms * 1e3 * 1.001
    assert mode == "serve" or figures["tokens_per_s"] == pytest.approx(requests / wait_ms * 1e3)


@pytest.mark.parametrize("gpu", ["h100-sxm", "mi300x"])
def test_ends_of_a_rate_are_requests_over_the_ends_of_the_time(gpu: str) -> None:
    (outcome,) = forecast_cases([{"model": CONFIG, "gpu": gpu, "mode": "decode", "bs": 8}])
    assert outcome.forecast is not None
    time, rate = (outcome.forecast.figures[name] for name in ("itl_ms", "tokens_per_s"))
    assert rate.low == pytest.approx(8e3 / time.high)
    assert rate.high == pytest.approx(8e3 / time.low)


def test_stages_without_a_request_draw_idle_power() -> None:
    case = {"model": CONFIG, "gpu": "h100-sxm", "mode": "decode", "isl": 512, "osl": 64, "pp": 4}
    one, four = (figures_of({**case, "bs": n})["power_w"] for n in (1, 4))
    assert 0.25 * four < one < 0.75 * four
