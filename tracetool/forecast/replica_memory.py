"""Memory of a replica of a language model on its GPUs, and how many requests fit at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.forecast.case import Division
from tracetool.forecast.figures import Figure
from tracetool.forecast.memory import (
    GIB,
    MEMORY_ERROR,
    RUNTIME_BYTES,
    Footprint,
    activation_bytes,
    largest_batch,
    request_bytes,
    window_of,
)
from tracetool.forecast.model import Model
from tracetool.forecast.passes import busiest
from tracetool.forecast.pricing import Row
from tracetool.forecast.serving import Traffic
from tracetool.hardware.gpu import Gpu

#: Share of its prompt a running request holds by itself at least; prefixes are shared. [1] Turns of one
#: conversation and repeated prompts in measured runs whose batches are fuller than unshared prompts allow.
_UNSHARED: Final = 0.75
#: What a batch beyond the memory does.
BEYOND: Final = "do not fit the memory of"


@dataclass(frozen=True)
class Held:
    """Memory of one GPU of a replica, and the largest batch of all replicas that fits: None without limit."""

    gpu: Gpu
    footprint: Footprint
    largest: float | None
    running: float  # requests of all replicas

    @property
    def memory(self) -> Figure:
        """Memory of a GPU, no more than it has. [GiB]"""
        most = self.gpu.memory_bytes / GIB
        figure = Figure.of(self.footprint.total / GIB, MEMORY_ERROR, MEMORY_ERROR)
        return Figure(figure.value, figure.low, max(min(figure.high, most), figure.value))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on a batch that does not fit."""
        if self.largest is None or self.running <= self.largest:
            return ()
        beyond = f"{self.running:g} requests {BEYOND} {self.gpu.name} at once"
        shared = "where prompts share their beginnings, else an engine makes requests wait"
        return (f"{beyond}, {self.largest:.0f} do: the figures hold {shared}",)


def free_bytes(model: Model, gpu: Gpu, division: Division) -> float:
    """Return the memory of a GPU that the weights leave free. [B]

    Raises
    ------
    BadInput
        If they do not fit.
    """
    weights = model.weight_bytes(division.parallel)
    free = gpu.memory_bytes - weights - RUNTIME_BYTES
    if free <= 0:
        raise BadInput(
            f"tp: {division.parallel.tp}: {weights / GIB:.0f} GiB of weights do not fit {_memory_of(gpu)}",
            "divide the model over more GPUs (tp, pp, ep)",
        )
    return free


def context_room(model: Model, division: Division, running: float, free: float) -> float:
    """Return the tokens of each running request of a replica that ``free`` bytes hold. [tokens]

    What a request keeps grows with its tokens, by less beyond each window that is full.
    """
    parallel = division.parallel
    share = free / busiest(running, parallel.dp)
    full_at = {window_of(part) for group in model.groups for part in group.parts} - {0.0}
    below, kept = 0.0, request_bytes(model, parallel, 0.0)
    for above in sorted(full_at):
        more = request_bytes(model, parallel, above)
        if more >= share:
            return max(below + (above - below) * (share - kept) / max(more - kept, 1.0), 1.0)
        below, kept = above, more
    token = model.kv_bytes_per_token(parallel)
    return max(below + (share - kept) / token, 1.0) if token > 0 else math.inf


def held_by(
    model: Model, gpu: Gpu, division: Division, traffic: Traffic, rows: Sequence[Sequence[Row]], batch: float
) -> Held:
    """Return the memory of a replica's GPU while ``batch`` requests run on all replicas.

    Raises
    ------
    BadInput
        If not even their prompts fit, beginnings shared.
    """
    parallel = division.parallel
    weights = model.weight_bytes(parallel)
    context = traffic.prompt if traffic.output <= 1.0 else traffic.prompt + traffic.output / 2.0
    activations = max(activation_bytes(r) for r in rows)
    fixed = weights + activations + RUNTIME_BYTES
    each = request_bytes(model, parallel, context)
    of_one = largest_batch(gpu.memory_bytes, fixed, each)
    most = None if of_one is None else of_one * parallel.dp * division.replicas
    beside = busiest(max(batch / division.replicas, 1.0), parallel.dp)
    free = free_bytes(model, gpu, division)
    if beside * request_bytes(model, parallel, _UNSHARED * traffic.prompt) > free:
        prompts = beside * request_bytes(model, parallel, traffic.prompt)
        raise BadInput(
            f"bs: {batch:g} prompts of {traffic.prompt:g} tokens do not fit {_memory_of(gpu)}: "
            f"{prompts / GIB:.0f} GiB beside {weights / GIB:.0f} GiB of weights",
            f"the largest batch that fits is {most or 0.0:.0f}",
        )
    cache = beside * request_bytes(model, parallel, min(context, traffic.most_context))
    cache = min(cache, max(gpu.memory_bytes - fixed, 0.0))
    return Held(gpu, Footprint(weights, cache, activations), most, batch)


def _memory_of(gpu: Gpu) -> str:
    return f"the {gpu.memory_bytes / GIB:.0f} GiB of a {gpu.name}"
