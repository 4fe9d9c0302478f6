"""What a replica of a model takes in at once, and how its GPUs divide the work."""

from __future__ import annotations

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
    """

    decode_requests: float = 0.0
    decode_context: float = 0.0
    prefill_requests: float = 0.0
    prefill_tokens: float = 0.0
    prefill_context: float = 0.0
    sampled: float | None = None

    @property
    def tokens(self) -> float:
        """New tokens of the pass, across the replica. [tokens]"""
        return self.decode_requests + self.prefill_requests * self.prefill_tokens

    @property
    def logit_rows(self) -> float:
        """Rows logits are made for, across the replica."""
        return self.decode_requests + self.prefill_requests if self.sampled is None else self.sampled


@dataclass(frozen=True)
class Parallel:
    """How the GPUs of one replica divide a model.

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
        """New tokens one GPU of an attention replica takes in. [tokens]"""
        forward, parallel = self.forward, self.parallel
        prompt = forward.prefill_requests * forward.prefill_tokens / parallel.cp
        return (forward.decode_requests + prompt) / parallel.dp

    @property
    def logit_rows(self) -> float:
        """Rows of logits one attention replica makes."""
        return self.forward.logit_rows / self.parallel.dp
