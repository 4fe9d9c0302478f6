"""A serving engine in its steady state: continuous batching with as many requests as run at once.

Every step decodes one token of each running request and takes in the prompts of those that replace finished
ones. A queue is always waiting, so that the batch stays full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.forecast.passes import Forward, busiest

#: Arrivals of one step that matter: this many standard deviations, and at least this many, above the mean.
#: [1] By definition of the sum: the tail beyond is below 1e-9.
_DEVIATIONS: Final = 8.0
_LEAST: Final = 20.0
#: Share of the running requests from which all of them run. [1] By definition: below the digits printed.
_ALMOST: Final = 0.999


@dataclass(frozen=True)
class Traffic:
    """Load of a replica: running requests, their lengths, and the tokens one step may take in."""

    running: float  # requests that run at once
    prompt: float  # tokens of a prompt
    output: float  # tokens a request puts out
    budget: float  # most tokens of one step, of each attention replica
    most_context: float = math.inf  # keys each may hold, where the memory limits them
    replicas: int = 1  # attention replicas the requests are divided over, a step of all at once

    @property
    def room_each(self) -> float:
        """Prompt tokens one attention replica may take in, in a step. [tokens]"""
        return max(self.budget - self.running / self.replicas, 1.0)

    @property
    def room(self) -> float:
        """Prompt tokens one step may take in. [tokens]"""
        return self.room_each * self.replicas

    @property
    def pieces(self) -> float:
        """Steps that take in one prompt."""
        return max(self.prompt / self.room_each, 1.0)

    @property
    def arrivals(self) -> float:
        """Requests that enter in a step, on average: as many as finish, and as the budget of a step holds.

        A request holds its place for the steps of its prompt, the last of which gives its first token, and
        one for each further token.
        """
        return min(self.running / (max(self.output, 1.0) + self.pieces - 1.0), self.room / self.prompt)

    @property
    def decoding(self) -> float:
        """Requests that run at once, where all that may have had their prompts taken in."""
        return min(self.running, self.room / self.prompt * max(self.output, 1.0))

    @property
    def delivered(self) -> float:
        """Output tokens of a step over the running requests. [1]"""
        return self.arrivals * max(self.output, 1.0) / self.running

    @property
    def rounds(self) -> float:
        """Steps that take in the prompts of all running requests at once."""
        return max(busiest(self.running, self.replicas) * self.prompt / self.budget, 1.0)

    @property
    def prompt_tokens(self) -> float:
        """Prompt tokens of a step, on average. [tokens]"""
        return self.arrivals * self.prompt

    @property
    def context(self) -> float:
        """Keys a running request sees, on average over its output. [tokens]"""
        return min(self.prompt + self.output / 2.0, self.most_context)

    @property
    def mixed_share(self) -> float:
        """Share of the steps that take in a prompt; each running request may be at its own by itself."""
        at_prompt = min(self.arrivals * self.pieces / self.running, 1.0)
        needed = 1.0 - (1.0 - at_prompt) ** self.running
        return float(max(needed, self.prompt_tokens / self.room, 1e-12))

    @property
    def mixed_tokens(self) -> float:
        """Prompt tokens of a step that takes in any, on average. [tokens]"""
        return min(max(self.prompt_tokens / self.mixed_share, 1.0), self.room)


def decode_pass(traffic: Traffic, requests: float | None = None) -> Forward:
    """Return the pass of a step without prompts, of all running requests unless told how many."""
    decoding = traffic.running if requests is None else requests
    return Forward(decode_requests=decoding, decode_context=traffic.context)


def prompt_pass(traffic: Traffic) -> Forward:
    """Return the pass of a step that takes in prompts alone, of all running requests or a round of them."""
    tokens = traffic.running * traffic.prompt / traffic.rounds
    requests, each, context = chunks(tokens, traffic.prompt, traffic.budget)
    most = busiest(traffic.running, traffic.replicas) * traffic.prompt / traffic.rounds / each
    return Forward(
        prefill_requests=requests, prefill_tokens=each, prefill_context=context, prefill_busiest=most
    )


def mixed_pass(traffic: Traffic) -> Forward:
    """Return the pass of a step with the mean number of prompt tokens of a step that has any.

    Requests whose prompts it takes in decode no token of their own.
    """
    tokens = traffic.mixed_tokens
    requests, each, context = chunks(tokens, traffic.prompt, traffic.budget)
    return Forward(
        decode_requests=max(traffic.decoding - requests, 0.0),
        decode_context=traffic.context,
        prefill_requests=requests,
        prefill_tokens=each,
        prefill_context=context,
    )


def prompt_bound(traffic: Traffic) -> tuple[str, ...]:
    """Return a note where fewer requests run than may, as the budget of a step is full."""
    if traffic.decoding > traffic.running * _ALMOST:
        return ()
    run = f"{traffic.decoding:.3g} of {traffic.running:g} requests run at once"
    return (
        f"{run}, others wait: a step takes in {traffic.room:.0f} prompt tokens (--max-num-batched-tokens)",
    )


def chunks(tokens: float, prompt: float, budget: float) -> tuple[float, float, float]:
    """Return the requests whose prompts fill a pass, the new tokens of each and the keys they see at its end.

    A prompt longer than the budget is cut into pieces; the mean piece stands for all.

    >>> chunks(800.0, 400.0, 8192.0), chunks(8192.0, 20480.0, 8192.0)
    ((2.0, 400.0, 400.0), (1.0, 8192.0, 14336.0))
    """
    if prompt <= budget:
        return tokens / prompt, prompt, prompt
    each = min(tokens, budget)
    return tokens / each, each, (prompt + each) / 2.0


def median_tokens(traffic: Traffic) -> float:
    r"""Return the median of the prompt tokens taken in by steps in which a request decodes. [tokens]

    Notes
    -----
    The other running requests finish independently of each other, so that arrivals of a step are binomial.
    Prompts vary in length as real ones do, exponentially: with :math:`p_n` the probability of :math:`n`
    arrivals of mean length :math:`l`

    .. math:: P(X \le x) = \sum_n p_n P(n, x / l)

    where :math:`P(n, \cdot)` is the regularized incomplete gamma function.

    >>> median_tokens(Traffic(8, 400, 400, 8192)), median_tokens(Traffic(1, 400, 1, 8192))
    (0.0, 0.0)
    """
    others, chance = max(traffic.running - 1.0, 0.0), min(traffic.arrivals / traffic.running, 1.0)
    rate = others * chance
    most = int(rate + _DEVIATIONS * np.sqrt(rate) + _LEAST)
    whole = math.floor(others)
    arriving = _binomial(whole, chance, most)
    arriving = arriving + (others - whole) * (_binomial(whole + 1, chance, most) - arriving)
    if arriving[0] >= 0.5:
        return 0.0

    def below(x: float) -> float:
        # n exponential lengths are at most x where at least n events of a Poisson process lie within it
        events = np.cumsum(_poisson(x / traffic.prompt, most))
        return float(arriving[0] + arriving[1:] @ (1.0 - events[:-1]))

    low, high = 0.0, traffic.prompt * most
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if below(middle) < 0.5 else (low, middle)
    return min(high, traffic.room)


def _binomial(trials: int, chance: float, most: int) -> Floats:
    """Return the probabilities of 0 to ``most`` successes. Shape (most + 1,)."""
    numbers = np.arange(most + 1.0)
    if chance >= 1.0:
        return np.asarray(numbers == trials, np.float64)
    with np.errstate(divide="ignore"):  # more successes than trials: no way
        ways = np.cumsum(np.log(np.maximum(trials - numbers[:-1], 0.0)) - np.log(numbers[1:]))
    ways = np.concatenate([[0.0], ways])
    return np.asarray(np.exp(ways + numbers * np.log(chance) + (trials - numbers) * np.log1p(-chance)))


def _poisson(mean: float, most: int) -> Floats:
    """Return the probabilities of 0 to ``most`` events. Shape (most + 1,)."""
    numbers = np.arange(most + 1.0)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(numbers[1:]))])
    return np.asarray(np.exp(numbers * np.log(max(mean, 1e-300)) - mean - factorials))
