"""How many experts and tokens the busiest GPU gets."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.moe.routing import Routed, _filled, _moment, _quantile, routed
from tracetool.families.registry import count_work
from tracetool.hardware.load import load_gpu

TOKENS = np.array([1.0, 2.0, 7.0, 16.0, 64.0, 256.0, 4096.0])


def spread_over(
    tokens: Floats, distribution: str, experts: float = 256, top_k: float = 8, ep: float = 1
) -> Routed:
    columns = {"distribution": np.array([distribution] * len(tokens), dtype=object)}
    rows = OperatorColumns(np.array(["moe"] * len(tokens), dtype=object), columns)
    return routed(rows, tokens, *(np.full(len(tokens), float(v)) for v in (top_k, experts, ep)))


def drawn(tokens: int, top_k: int, experts: int, ep: int, exponent: float, seed: int) -> Ints:
    """Return tokens of each expert of the busiest GPU, drawn as ``power_law`` is defined."""
    draw = np.random.default_rng(seed)
    low, high = (1.0, 0.8 * tokens) if tokens * top_k > experts else (0.01, 2.0)
    power = 1.0 - exponent
    share = (low**power + draw.random(experts) * (high**power - low**power)) ** (1.0 / power)
    count = np.minimum(np.round(share / share.sum() * tokens * top_k), tokens).astype(np.int64)
    place = 0
    while (
        count.sum() < tokens * top_k
    ):  # what rounding left goes to the GPUs in turn, to their emptiest expert
        own = count.reshape(ep, -1)[place % ep]
        own[own.argmin()] += 1
        place += 1
    while count.sum() > tokens * top_k:
        count[count.argmax()] -= 1
    of_gpu = count.reshape(ep, -1)
    return np.asarray(of_gpu[of_gpu.sum(axis=1).argmax()])


def test_balanced_pairs_touch_one_expert_after_another() -> None:
    found = spread_over(TOKENS, "balanced")
    assert found.count.sum(axis=0) == pytest.approx(np.minimum(TOKENS * 8, 256))
    at_random = spread_over(TOKENS, "")
    assert (at_random.count.sum(axis=0) <= found.count.sum(axis=0) + 1e-9).all()


@pytest.mark.parametrize("distribution", ["balanced", "", "power_law_1.01", "power_law_1.2"])
@pytest.mark.parametrize("ep", [1, 4, 32])
def test_pairs_are_those_of_the_experts_and_no_gpu_gets_less_than_its_share(
    distribution: str, ep: int
) -> None:
    found = spread_over(TOKENS, distribution, ep=ep)
    assert (found.count * found.tokens_each).sum(axis=0) == pytest.approx(found.pairs, rel=0.25)
    assert (found.pairs >= np.maximum(TOKENS * 8 / ep, 1.0) - 1e-9).all()
    assert (found.tokens_each <= TOKENS + 1e-9).all()
    assert (found.count.sum(axis=0) <= 256 / ep + 1e-9).all()


@pytest.mark.parametrize("exponent", [1.01, 1.2, 1.5])
@pytest.mark.parametrize(("experts", "top_k", "ep"), [(256, 8, 1), (256, 8, 16), (512, 10, 4), (64, 4, 8)])
def test_a_power_law_routes_as_draws_do(exponent: float, experts: int, top_k: int, ep: int) -> None:
    for tokens in (4, 64, 512, 4096):
        many = [drawn(tokens, top_k, experts, ep, exponent, seed) for seed in range(15)]
        found = spread_over(np.array([float(tokens)]), f"power_law_{exponent}", experts, top_k, ep)
        pairs = np.mean([one.sum() for one in many])
        tiles = np.mean([np.ceil(one / 64).sum() for one in many])
        assert found.pairs[0] == pytest.approx(pairs, rel=0.3, abs=2.0)
        assert (found.count * np.ceil(found.tokens_each / 64)).sum() == pytest.approx(tiles, rel=0.3, abs=2.0)


def test_without_a_gate_the_weights_are_two_thirds() -> None:
    def read_bytes(name: str) -> float:
        shape = {"tokens": 64, "hidden": 4096, "intermediate": 2048, "top_k": 8, "experts": 256}
        columns = {k: np.array([float(v)]) for k, v in shape.items()}
        columns |= {
            "dtype": np.array(["bf16"], dtype=object),
            "implementation": np.array([name], dtype=object),
        }
        rows = OperatorColumns(np.array(["moe"], dtype=object), columns)
        return float(count_work(rows, load_gpu("h100-sxm")).dram_bytes[0])

    assert read_bytes("moe_nongated") == pytest.approx(read_bytes("moe") * 2 / 3, rel=0.01)


@pytest.mark.parametrize("exponent", [0.5, 1.2, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
def test_a_quantile_has_its_share_of_the_density_below(share: float, exponent: float) -> None:
    a, low, high = np.array([exponent]), np.array([1.0]), np.array([50.0])
    at = _quantile(np.array([share]), a, low, high)
    below = _moment(0.0, a, low, at) / _moment(0.0, a, low, high)
    assert below[0] == pytest.approx(share, abs=1e-12)
    integral, _ = quad(lambda x: x ** (1.0 - exponent), 1.0, 50.0)
    assert _moment(1.0, a, low, high)[0] == pytest.approx(
        integral, rel=1e-5
    )  # at a pole, the moment beside it


def test_what_exceeds_the_tokens_goes_to_the_experts_with_least() -> None:
    """12 tokens and three groups of 1, 5 and 20: 8 too many; the least get them, 7 and 7, none is lost."""
    each = np.array([[1.0], [5.0], [20.0]])
    assert _filled(each, np.array([12.0]))[:, 0].tolist() == [7.0, 7.0, 12.0]
    assert _filled(each, np.array([20.0]))[:, 0].tolist() == [1.0, 5.0, 20.0]
    assert _filled(np.array([[1.0], [11.0], [20.0]]), np.array([12.0])).sum() == pytest.approx(32.0)


def test_two_tokens_may_fall_on_one_expert() -> None:
    """Of two experts that differ much, on average fewer than both are touched."""
    found = spread_over(np.array([2.0]), "power_law_2", experts=2, top_k=1)
    touched = np.mean([(drawn(2, 1, 2, 1, 2.0, seed) > 0).sum() for seed in range(300)])
    assert touched < 1.8
    assert found.count.sum() == pytest.approx(touched, rel=0.1)


def test_what_rounding_takes_from_experts_is_dealt_in_whole_pairs() -> None:
    """Two of 64 experts for each of 64 tokens: draws of density x^-1.5 from 1 to 51.2, their mean sqrt(51.2).

    An expert gets two tokens on average, so that x counts for 2 x / sqrt(51.2) of them. Rounded, that is one
    token above a half, two above 1.5, three above 2.5, and from three on all there is. Of four GPUs the
    busiest gets more than its 16 experts' 32 pairs (a gamma distribution's quantile, by Wilson and Hilferty);
    what is missing from 32 is dealt in whole pairs.
    """
    high = 0.8 * 64
    scale, norm = 2.0 / high**0.5, 1.0 - high**-0.5

    def share_above(tokens: float) -> float:
        return float(((tokens / scale) ** -0.5 - high**-0.5) / norm)

    three = 3.0 / scale
    beyond = (scale * (high**0.5 - three**0.5) - 3.0 * (three**-0.5 - high**-0.5)) / norm
    kept = 16 * (share_above(0.5) + share_above(1.5) + share_above(2.5) + beyond)
    # relative variance of the sum of 16 draws, and the largest of four
    spread = ((high**1.5 - 1.0) / 3.0 / norm / high - 1.0) / 16
    largest = NormalDist().inv_cdf(0.5704 ** (1.0 / 4.0))
    busiest = (1.0 - spread / 9.0 + largest * spread**0.5 / 3.0) ** 3
    assert busiest > 1.0
    assert 25.0 < kept < 32.0
    found = spread_over(np.array([64.0]), "power_law_1.5", experts=64, top_k=2, ep=4)
    assert found.pairs[0] == pytest.approx(kept * busiest + np.ceil(32.0 - kept), rel=1e-9)


def test_a_gpu_with_one_expert_touches_one() -> None:
    one = spread_over(TOKENS, "", experts=8, top_k=2, ep=8)
    assert one.count.sum(axis=0).tolist() == pytest.approx([1.0] * len(TOKENS))
    assert (one.pairs <= TOKENS).all()
