"""Time of NCCL's collectives over peer links: the protocol its tuning model chooses, and what that takes.

Equations and sources: docs/families/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.transfers.fabric import PeerLinks
from tracetool.families.transfers.problem import Message

#: Numbers of NCCL's own tuning model, which decide the protocol and nothing else.
_TUNING: Final = values_of(read_coefficients(__package__, "nccl")["tuning"])

#: How a message is carried, by number: three protocols of a ring, addition in the switch, sends to each
#: peer. [1] By definition.
LL, LL128, SIMPLE, NVLS, SENDS_LL, SENDS = range(6)
#: Bytes a reduction in the switch moves twice, in and out: what NCCL's model calls bus bandwidth. [1] By
#: definition, NCCL src/graph/tuning.cc.
_IN_AND_OUT: Final = 2.0
#: Most ranks whose addition in a switch was measured, all of one host. [1] By definition of the fit.
_MOST_MEASURED: Final = 8.0
#: Share of the ring's rate that low-latency lines reach at most. [1] By definition of the protocol: 4 bytes
#: of flag for 4 of data.
_LL_MOST: Final = 0.5


@dataclass(frozen=True)
class Carried:
    """Time and traffic of n messages; shape (n,) each."""

    seconds: Floats
    link_bytes: Floats  # what a rank sends [B]


def protocols(message: Message, links: PeerLinks) -> Ints:
    """Return the protocol of each message: the one of least time in NCCL's own tuning model. Shape (n,).

    That model's latencies and bandwidths are not what is measured; its choice is what runs. On one machine it
    prefers a ring to a tree at every size, so that trees are left out there.
    """
    p, n, steps, waits = _TUNING, message.bytes, message.steps, waits_in_turn(message, links)
    bus = p["bus_share"] * links.bytes_per_s
    moved_us = 1e6 * n * steps / np.maximum(message.ranks, 1.0)
    low_latency = np.minimum(p["ll_share"] * links.bytes_per_s, _LL_MOST * bus)
    spent_us = [
        p["ll_us"] + p["ll_step_us"] * waits + moved_us / low_latency,
        p["ll128_us"] + p["ll128_step_us"] * waits + moved_us / (p["ll128_share"] * bus),
        p["simple_us"] + p["simple_step_us"] * waits + moved_us / bus,
        np.where(
            links.adds & message.reduces_all,
            p["nvls_us"] + moved_us / (_IN_AND_OUT * p["nvls_share"] * bus),
            np.inf,
        ),
    ]
    sends = np.where(message.per_peer <= p["sends_ll_bytes"], SENDS_LL, SENDS)
    return np.where(message.sends, sends, np.argmin(spent_us, axis=0))


def waits_in_turn(message: Message, links: PeerLinks) -> Floats:
    """Return the steps of each message that follow one another. Shape (n,). [1]

    Those of a ring. Where links join several hosts, an all-reduce goes up and down a tree of hosts, and a
    chain in each, if those are fewer: by definition of NCCL, src/graph/tuning.cc.
    """
    if not np.isfinite(links.host_ranks):
        return message.steps
    hosts = np.ceil(message.ranks / links.host_ranks)
    tree = 2.0 * (np.ceil(np.log2(hosts)) + np.ceil(message.ranks / hosts) - 1.0)
    return np.where(message.reduces_all & (hosts > 1.0), np.minimum(tree, message.steps), message.steps)


def carry(
    message: Message, links: PeerLinks, c: Mapping[str, float], protocol: Ints | None = None
) -> Carried:
    """Return the time and traffic of each message, given the coefficients; by default in NCCL's protocol."""
    protocol = protocols(message, links) if protocol is None else protocol
    seconds, link_bytes = np.zeros(len(protocol)), message.ring_bytes.copy()
    for number in set(protocol.tolist()):
        rows = protocol == number
        seconds[rows] = _TIMES[number](message.take(rows), links.take(rows), c)
    added = protocol == NVLS
    link_bytes[added] = message.bytes[added]
    return Carried(seconds, link_bytes)


def _ring_ll(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    start, step = c["ll_start"] * c["start_factor"], c["ll_step"] * c["step_factor"]
    filled = message.bytes / (message.bytes + c["ll_fill_bytes"])
    waits = start + step * waits_in_turn(message, links)
    latency = links.launch_s + links.wait_s * waits * (1.0 + c["ll_fill"] * filled)
    return np.asarray(latency + message.ring_bytes / (c["ll_share"] * links.bytes_per_s))


def _ring_ll128(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    start, step = c["ll128_start"] * c["start_factor"], c["ll128_step"] * c["step_factor"]
    latency = links.launch_s + links.wait_s * (start + step * waits_in_turn(message, links))
    return np.asarray(
        latency + message.ring_bytes / (c["ll128_share"] * c["link_factor"] * links.bytes_per_s)
    )


def _ring_simple(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    steps = c["simple_start"] + c["simple_step"] * waits_in_turn(message, links)
    latency = links.latency_s * c["simple_factor"] * steps
    return np.asarray(
        latency + _moved(message, c) / (c["simple_share"] * c["link_factor"] * links.bytes_per_s)
    )


def _in_switch(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    waits = c["nvls_start"] + c["nvls_peer"] * _ranks_waited_for(message, links)
    latency = links.latency_s * c["simple_factor"] * waits
    return np.asarray(latency + message.bytes / (c["nvls_share"] * c["link_factor"] * links.bytes_per_s))


def _ranks_waited_for(message: Message, links: PeerLinks) -> Floats:
    """Return how many ranks each message waits for one after another in the switch. Shape (n,). [1]

    Each rank adds a part of a pass in every channel. Of the ranks beyond those measured, which only several
    hosts have, a message much shorter than a pass meets few.
    """
    if not np.isfinite(links.host_ranks):
        return message.ranks
    beyond = np.maximum(message.ranks - _MOST_MEASURED, 0.0)
    passes = message.bytes / (message.ranks * _TUNING["nvls_pass_bytes"])
    return np.asarray(message.ranks - beyond / (1.0 + passes))


def _sends_ll(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    latency = links.launch_s + links.wait_s * (
        c["sends_start"] * c["start_factor"] + c["sends_peer"] * c["step_factor"] * message.peers
    )
    return np.asarray(latency + message.ring_bytes / (c["sends_ll_share"] * links.bytes_per_s))


def _sends(message: Message, links: PeerLinks, c: Mapping[str, float]) -> Floats:
    latency = c["sends_simple_us"] * 1e-6 + links.wait_s * c["sends_peer"] * message.peers
    return np.asarray(
        latency + _moved(message, c) / (c["sends_share"] * c["link_factor"] * links.bytes_per_s)
    )


def _moved(message: Message, c: Mapping[str, float]) -> Floats:
    """Return the bytes a rank's blocks move: to others, and its own part from buffer to buffer. [B]"""
    return np.asarray(message.ring_bytes + c["own_share"] * message.own_bytes)


_TIMES: Final = {
    LL: _ring_ll,
    LL128: _ring_ll128,
    SIMPLE: _ring_simple,
    NVLS: _in_switch,
    SENDS_LL: _sends_ll,
    SENDS: _sends,
}
