"""Links between the ranks of a collective: peer links, or PCIe through the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.transfers.problem import Message
from tracetool.hardware.gpu import Gpu

#: Ranks from which a switch adds what they send: of two, each is the other's only peer. [1] As measured:
#: all-reduces of two GPUs take a ring's time where the switch could add.
_FEWEST_ADDED = 3.0
#: Start and end of a kernel that waits for nobody, in a row of them. [us] A prior: kernels of a graph that do
#: nothing follow each other in about a microsecond on GPUs of every generation.
_LAUNCH_US = 1.0


@dataclass(frozen=True)
class PeerLinks:
    """Peer links of a GPU, and where their switch adds; arrays of shape (n,)."""

    bytes_per_s: Floats  # peak of a rank's links to the others in one direction [B/s]
    latency_s: float  # smallest all-reduce of eight GPUs [s]
    wait_s: float  # of that, what a kernel waits for its peers' words [s]
    launch_s: float  # the rest [s]
    adds: Bools  # the switch reduces and multicasts (NVLink SHARP)
    host_ranks: float = float("inf")  # ranks of each host, where the links join several [1]

    def take(self, rows: Ints | Bools) -> PeerLinks:
        """Return the links of the chosen messages."""
        return replace(self, bytes_per_s=self.bytes_per_s[rows], adds=self.adds[rows])


def peer_links(ranks: Floats, gpu: Gpu) -> PeerLinks:
    """Return rate and latencies of the peer links between ranks."""
    latency_s = gpu.peer_latency_us * 1e-6
    launch_s = min(_LAUNCH_US * 1e-6, latency_s)
    adds = (ranks >= _FEWEST_ADDED) & gpu.link_reduces
    return PeerLinks(gpu.link_rate(ranks), latency_s, latency_s - launch_s, launch_s, adds, gpu.host_gpus)


def joined(message: Message, ranks: Floats | None = None) -> Floats:
    """Return among how many of its ranks each message goes over links at once: two of a send. Shape (n,). [1]

    Parameters
    ----------
    ranks : array, shape (n,), optional
        Those of one server; all by default. [1]
    """
    among = message.ranks if ranks is None else ranks
    return np.where(message.to_one, np.minimum(among, 2.0), among)


def servers_of(message: Message, gpu: Gpu) -> Floats:
    """Return the number of servers, or racks, that hold a message's ranks. Shape (n,). [1]

    Each holds as many GPUs as peer links join, numbered one after another; of ranks that are not neighbors
    it holds fewer, one where their numbers are as far apart.
    """
    of_server = np.maximum(np.floor(gpu.link_ranks / message.stride), 1.0)
    return np.ceil(message.ranks / of_server)


def has_adapters(gpu: Gpu) -> bool:
    """Return whether servers of a GPU have a network adapter beside each, and peer links inside."""
    return gpu.link_ranks > 1 and gpu.nic_bytes_per_s > 0.0


def between_servers(message: Message, gpu: Gpu) -> Bools:
    """Return which ranks are of several servers, each GPU with a network adapter of its own. Shape (n,)."""
    return np.asarray((servers_of(message, gpu) > 1.0) & has_adapters(gpu))


def through_host(message: Message, gpu: Gpu) -> Bools:
    """Return which ranks neither peer links nor adapters join: they go through PCIe and the host."""
    return np.asarray((servers_of(message, gpu) > 1.0) & ~between_servers(message, gpu))
