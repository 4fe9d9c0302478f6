"""Links between the ranks of a collective: peer links, or PCIe through the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracetool.core.arrays import Bools, Floats, Ints
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

    def take(self, rows: Ints | Bools) -> PeerLinks:
        """Return the links of the chosen messages."""
        return replace(self, bytes_per_s=self.bytes_per_s[rows], adds=self.adds[rows])


def peer_links(ranks: Floats, gpu: Gpu) -> PeerLinks:
    """Return rate and latencies of the peer links between ranks."""
    latency_s = gpu.peer_latency_us * 1e-6
    launch_s = min(_LAUNCH_US * 1e-6, latency_s)
    adds = (ranks >= _FEWEST_ADDED) & gpu.link_reduces
    return PeerLinks(gpu.link_rate(ranks), latency_s, latency_s - launch_s, launch_s, adds)


def through_host(ranks: Floats, gpu: Gpu) -> Bools:
    """Return which ranks no peer link joins, so that they go through PCIe and the host. Shape (n,)."""
    return ranks > gpu.link_ranks
