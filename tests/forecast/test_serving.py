"""Continuous batching: how many prompts a step takes in."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.forecast.engine import engine_of
from tracetool.forecast.serving import Traffic, chunks, decode_pass, median_tokens, mixed_pass


@pytest.mark.parametrize(("running", "output"), [(64, 400), (512, 400), (2000, 300), (500, 8000)])
def test_median_prompt_tokens_are_those_of_simulated_steps(running: float, output: float) -> None:
    traffic = Traffic(running, 400, output, 1e9)
    draw = np.random.default_rng(7)
    arrivals = draw.poisson(traffic.arrivals, 20_000)
    tokens = np.array([draw.exponential(400, n).sum() for n in arrivals])
    assert median_tokens(traffic) == pytest.approx(np.median(tokens), rel=0.05, abs=25.0)
    assert traffic.mixed_share == pytest.approx(np.mean(arrivals > 0), abs=0.02)
    assert traffic.prompt_tokens == pytest.approx(np.mean(tokens), rel=0.05)


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
    assert mixed_pass(traffic).tokens == pytest.approx(100 + traffic.mixed_tokens)
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
    assert engine.host(64, 200).before_s > engine.step_s
