"""Time of collectives of GPUs no peer link joins: over PCIe, through the host's bridges and memory.

Equations and sources: docs/families/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.families.transfers.fabric import servers_of
from tracetool.families.transfers.nccl import Carried
from tracetool.families.transfers.problem import Message
from tracetool.hardware.gpu import Gpu

#: Ranks that reach each other without sharing the host with others. [1] By definition.
_ALONE: Final = 2.0
#: Ranks whose rates are stated: on one bridge, on one socket, on two. [1] By definition of the data file.
_STATED_RANKS: Final = (2.0, 4.0, 8.0)


def carry_through_host(message: Message, gpu: Gpu, c: Mapping[str, float]) -> Carried:
    """Return the time and traffic of NCCL's collectives.

    Two ranks reach each other's memory; more share the bridges and the memory of the host, so that each gets
    less. A ring leads through the GPUs that peer links join one after another, so that of each such group
    one sends through the host. Of the low-latency protocol and the one of long messages, the faster is taken.
    """
    # a baseboard of peer links sends beyond itself through an adapter for each GPU, which none shares
    shared = np.where(gpu.link_ranks >= _STATED_RANKS[-1], 1.0, crowd(crossing(message, gpu), c))
    rate = gpu.pcie_bytes_per_s * shared
    low_latency_us = np.where(
        message.sends,
        c["sends_us"] + c["sends_step_us"] * message.peers,
        c["ll_us"] + c["ll_step_us"] * message.steps,
    )
    simple_us = c["simple_us"] + c["simple_step_us"] * np.where(message.sends, 1.0, message.steps)
    share = np.where(message.sends, c["sends_share"], c["share"])
    seconds = np.minimum(
        low_latency_us * 1e-6 + message.ring_bytes / (c["ll_share"] * rate),
        simple_us * 1e-6 + message.ring_bytes / (share * rate),
    )
    return Carried(seconds, message.ring_bytes)


def crossing(message: Message, gpu: Gpu) -> Floats:
    """Return how many ranks send through the host at once: in a ring, one of each group. Shape (n,)."""
    return np.where(message.sends, message.ranks, servers_of(message, gpu))


def crowd(ranks: Floats, c: Mapping[str, float]) -> Floats:
    """Return the share of its two-rank rate that each of many ranks keeps. Shape (n,)."""
    stated = np.log([1.0, c["crowd_4"], c["crowd_8"]])
    return np.asarray(np.exp(np.interp(np.log(np.maximum(ranks, 1.0)), np.log(_STATED_RANKS), stated)))


def one_shot_through_host(message: Message, gpu: Gpu, c: Mapping[str, float]) -> tuple[Carried, Bools]:
    """Return the time of a library's own all-reduce of two ranks, and which messages it takes."""
    one_shot = message.reduces_all & (message.ranks == _ALONE) & (message.bytes < c["own_below_bytes"])
    read: Floats = (message.ranks - 1.0) * message.bytes
    seconds = c["start_us"] * 1e-6 + read / (c["share"] * gpu.pcie_bytes_per_s)
    return Carried(seconds, read), one_shot
