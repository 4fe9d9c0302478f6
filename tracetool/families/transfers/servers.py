"""Time of NCCL's collectives among servers: peer links inside, a network adapter beside each GPU between.

Equations and sources: docs/families/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.transfers.fabric import (
    between_servers,
    joined,
    peer_links,
    servers_of,
    through_host,
)
from tracetool.families.transfers.nccl import LL, LL128, SENDS_LL, Carried, carry, protocols
from tracetool.families.transfers.problem import Message, message_of
from tracetool.hardware.gpu import Gpu

#: Share of a line that is data, by protocol: 4 bytes of flag for 4 of data, 8 for 120. [1] By definition of
#: the protocols.
_DATA_SHARE: Final = {LL: 0.5, SENDS_LL: 0.5, LL128: 120.0 / 128.0}
#: Bytes of an all-reduce that a network which adds, as NVLink's switch does, sends over those of a ring of
#: many ranks. [1] By definition: each goes out and in once.
_ADDED: Final = 0.5


def carry_between_servers(message: Message, gpu: Gpu, c: Mapping[str, float]) -> Carried:
    """Return the time and traffic of each message among the GPUs of several servers, as many of each.

    A ring enters a server through one GPU's adapter and leaves it through another's; NCCL makes one for each
    adapter, so that each adapter carries its share of what the ring sends, beside the peer links. All-reduces
    take as many steps as a tree of servers.
    """
    servers, inside = servers_of(message, gpu), _inside(message, gpu)
    local = np.ceil(message.ranks / servers)
    links = peer_links(joined(message, local), gpu)
    slowest = np.minimum(links.bytes_per_s, _adapters_per_rank(message, gpu) * gpu.nic_bytes_per_s)
    # of ranks that are alone in their servers the whole ring decides: inside nothing moves
    alone = local <= 1.0
    decides = replace(
        inside,
        ranks=np.where(alone, message.ranks, inside.ranks),
        steps=np.where(alone, message.steps, inside.steps),
    )
    protocol = protocols(decides, replace(links, bytes_per_s=slowest))
    within = carry(inside, links, c, protocol)
    link_bytes = np.where(alone, 0.0, within.link_bytes)
    data = np.array([_DATA_SHARE.get(number, 1.0) for number in protocol.tolist()])
    share = data * np.where(message.sends, c["nic_sends_share"], c["nic_share"])
    low_latency = np.isin(protocol, tuple(_DATA_SHARE))
    hop_s = np.where(low_latency, c["nic_low_latency_us"], c["nic_simple_us"]) * 1e-6
    sent_s = adapter_bytes(message, gpu) / (share * gpu.nic_bytes_per_s)
    seconds = np.maximum(within.seconds, sent_s) + _hops(message, servers) * hop_s
    return Carried(seconds, link_bytes)


def adapter_bytes(message: Message, gpu: Gpu) -> Floats:
    """Return the bytes each adapter sends: its share of a ring's, or what leaves the server of sends. [B]"""
    servers = servers_of(message, gpu)
    # of what goes to every rank some stays in the server; what goes to one rank leaves it whole
    elsewhere = message.bytes * np.where(message.to_one, 1.0, 1.0 - 1.0 / servers)
    return np.where(message.sends, elsewhere, message.ring_bytes / _adapters_per_rank(message, gpu))


def link_s(rows: OperatorColumns, gpu: Gpu, link_bytes: Floats, *, least: bool = False) -> Floats:
    """Return the time each collective's bytes need at the peak of what they cross. Shape (n,). [s]

    Peer links where they join the ranks, these and the servers' adapters where both are crossed, else PCIe.

    Parameters
    ----------
    link_bytes : array, shape (n,)
        What each rank sends over the links of its server, or through the host. [B]
    least : bool
        The time that no exchange undercuts: of all-reduces with a network that adds.
    """
    message = message_of(rows)
    over_links = link_bytes / gpu.link_rate(joined(message))
    spent = np.where(through_host(message, gpu), link_bytes / gpu.pcie_bytes_per_s, over_links)
    between = between_servers(message, gpu)
    if not between.any():
        return spent
    added = _ADDED if least else 1.0
    sent = adapter_bytes(message, gpu) * np.where(message.reduces_all, added, 1.0) / gpu.nic_bytes_per_s
    return np.where(between, np.maximum(over_links, sent), spent)


def _adapters_per_rank(message: Message, gpu: Gpu) -> Floats:
    """Return the adapters a ring's bytes are divided among: one beside each of its GPUs of a server. [1]"""
    return np.where(message.sends, 1.0, message.ranks / servers_of(message, gpu))


def _inside(message: Message, gpu: Gpu) -> Message:
    """Return what a server's GPUs exchange over their peer links of each message."""
    servers = servers_of(message, gpu)
    local = np.ceil(message.ranks / servers)
    whole = message.reduces_all
    return replace(
        message,
        ranks=np.where(whole, local, message.ranks),
        ring_bytes=np.where(
            message.sends,
            message.per_peer * np.clip(local - 1.0, 0.0, message.peers),
            message.ring_bytes,
        ),
        steps=np.where(whole, 2.0 * (local - 1.0), message.steps - (servers - 1.0)),
    )


def _hops(message: Message, servers: Floats) -> Floats:
    """Return the steps from server to server that follow one another. [1]"""
    tree = 2.0 * np.ceil(np.log2(servers))
    return np.where(message.reduces_all, tree, np.where(message.sends, 1.0, servers - 1.0))
