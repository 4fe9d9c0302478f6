"""What connects the ranks of a collective: peer links, or PCIe through the host."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.core.arrays import Bools, Floats
from tracetool.hardware.gpu import Gpu

#: Ranks from which a switch adds what they send: of two, each is the other's only peer. [1] Measured: all-reduces
#: of two GPUs take a ring's time on the GPUs whose switch adds.
_FEWEST_ADDED = 3.0


@dataclass(frozen=True)
class PeerLinks:
    """Peer links of a GPU, and where their switch adds; arrays of shape (n,)."""

    bytes_per_s: float  # peak of a rank's links in one direction [B/s]
    latency_s: float  # smallest all-reduce of eight GPUs [s]
    adds: Bools  # the switch reduces and multicasts (NVLink SHARP)


def peer_links(ranks: Floats, gpu: Gpu) -> PeerLinks:
    """Return what joins ranks that peer links join."""
    return PeerLinks(
        gpu.link_bytes_per_s, gpu.peer_latency_us * 1e-6, (ranks >= _FEWEST_ADDED) & gpu.link_reduces
    )


def through_host(ranks: Floats, gpu: Gpu) -> Bools:
    """Return which ranks no peer link joins, so that they go through PCIe and the host. Shape (n,)."""
    return ranks > gpu.link_ranks
