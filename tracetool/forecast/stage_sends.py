"""What a pipeline stage sends to the next, in serving and in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tracetool.forecast.operator_rows import Row, collective
from tracetool.forecast.passes import Parallel

#: Rows on one GPU of a division for a message of so many bytes from one stage to the next.
Sends: TypeAlias = Callable[[float, Parallel], list[Row]]


def served_sends(message_bytes: float, parallel: Parallel) -> list[Row]:
    """Return what a stage sends in serving: each of its GPUs a part, which its counterparts then gather.

    As vLLM does (``GroupCoordinator.send_tensor_dict``, with the group that shares layers).

    Parameters
    ----------
    message_bytes : float
        What one stage gives the next. [B]
    parallel : Parallel
        The division. GPUs of a stage are neighbors: a counterpart is as far as a stage has GPUs.
    """
    sent = _part_sent(message_bytes, parallel, replicas=1)
    gathered = collective("stage.gather", "all_gather", message_bytes, parallel.tp)
    return [sent, gathered] if parallel.tp > 1 else [sent]


def trained_sends(replicas: int) -> Sends:
    """Return what stages send in training: what the next receives stays divided among its GPUs.

    All ``replicas`` of a stage stand before the next stage (ranks of Megatron-LM, ``tp-cp-ep-dp-pp``).
    """
    return lambda message_bytes, parallel: [_part_sent(message_bytes, parallel, replicas)]


def _part_sent(message_bytes: float, parallel: Parallel, replicas: int) -> Row:
    """Return what one of the GPUs that share a layer sends."""
    apart = float(parallel.gpus // parallel.pp * replicas)
    return {**collective("stage", "send_recv", message_bytes / parallel.tp, 2), "rank_stride": apart}
