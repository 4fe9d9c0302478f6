"""Input of one pass of a replica, and its division over GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tracetool.core.errors import BadInput


@dataclass(frozen=True)
class Forward:
    """One forward pass of one replica: some requests decode a token each, others take in prompt tokens.

    Parameters
    ----------
    decode_requests : float
        Requests that decode one token each, across the replica.
    decode_context : float
        Keys each of them sees. [tokens]
    prefill_requests : float
        Requests with prompt tokens in this pass.
    prefill_tokens : float
        New tokens of each of them. [tokens]
    prefill_context : float
        Keys each sees at its end, at least ``prefill_tokens``. [tokens]
    sampled : float, optional
        Rows logits are made for; one per request where it is not given.
    prefill_busiest : float, optional
        Requests with prompt tokens of the attention replica with most of them, where rounds of several
        passes take them in: :func:`busiest` of ``prefill_requests`` where it is not given.
    """

    decode_requests: float = 0.0
    decode_context: float = 0.0
    prefill_requests: float = 0.0
    prefill_tokens: float = 0.0
    prefill_context: float = 0.0
    sampled: float | None = None
    prefill_busiest: float | None = None

    @property
    def tokens(self) -> float:
        """New tokens of the pass, across the replica. [tokens]"""
        return self.decode_requests + self.prefill_requests * self.prefill_tokens

    @property
    def logit_rows(self) -> float:
        """Rows logits are made for, across the replica."""
        return self.decode_requests + self.prefill_requests if self.sampled is None else self.sampled


def busiest(requests: float, replicas: int) -> float:
    """Return the requests of the replica with most of them: each request is whole on one replica.

    A mean over passes is between those of the whole numbers about it.

    >>> busiest(1.0, 4), busiest(5.0, 4), busiest(4.5, 4), busiest(2.5, 1)
    (1.0, 2.0, 1.5, 2.5)
    """
    if replicas == 1:
        return requests
    whole_requests = math.floor(requests)
    below, above = math.ceil(whole_requests / replicas), math.ceil((whole_requests + 1) / replicas)
    return below + (above - below) * (requests - whole_requests)


@dataclass(frozen=True)
class Parallel:
    """Division of a model over the GPUs of one replica.

    Parameters
    ----------
    tp : int
        GPUs that share each layer's matrices and heads.
    pp : int
        Stages the layers are divided over.
    dp : int
        Attention replicas inside one expert-parallel group.
    ep : int
        GPUs the experts are divided over: 1 (every expert's matrices are divided over all) or a divisor of
        ``tp * dp``.
    cp : int
        GPUs that share one sequence's tokens.

    Raises
    ------
    BadInput
        If one is not a whole number of at least 1, or ``ep`` does not divide ``tp * dp``.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadInput(f"{field.name}: {value!r} is not a whole number of at least 1")
        if self.tp * self.dp % self.ep:
            raise BadInput(
                f"ep: {self.ep} GPUs for experts do not divide the {self.tp * self.dp} of tp x dp",
                "give ep=1 or a divisor of tp x dp",
            )

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def expert_tp(self) -> int:
        """GPUs that share the matrices of one expert."""
        return self.tp * self.dp // self.ep


@dataclass(frozen=True)
class Step:
    """A forward pass as the layers see it: the pass, the division, and how the library runs it.

    Parameters
    ----------
    forward, parallel
        The pass of the whole replica and its division.
    dtype : str
        Number format of activations.
    """

    forward: Forward
    parallel: Parallel
    dtype: str = "bf16"

    @property
    def tokens(self) -> float:
        """New tokens one GPU of the busiest attention replica takes in. [tokens]"""
        prompt = self.prefill_requests * self.forward.prefill_tokens / self.parallel.cp
        return self.decode_requests + prompt

    @property
    def all_tokens(self) -> float:
        """New tokens of all attention replicas, of one GPU of each. [tokens]"""
        forward = self.forward
        return forward.decode_requests + forward.prefill_requests * forward.prefill_tokens / self.parallel.cp

    @property
    def decode_requests(self) -> float:
        """Requests that decode on the busiest attention replica."""
        return busiest(self.forward.decode_requests, self.parallel.dp)

    @property
    def prefill_requests(self) -> float:
        """Requests with prompt tokens on the busiest attention replica."""
        stated = self.forward.prefill_busiest
        return busiest(self.forward.prefill_requests, self.parallel.dp) if stated is None else stated

    @property
    def logit_rows(self) -> float:
        """Rows of logits the busiest attention replica makes."""
        sampled = self.forward.sampled
        requests = self.decode_requests + self.prefill_requests
        return requests if sampled is None else sampled / self.parallel.dp
