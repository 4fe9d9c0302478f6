"""Time of libraries' own all-reduces over peer links: one shot, two shots, and symmetric memory.

One shot: every rank reads the whole message of every other. Two shots: each adds its part, then all read the
parts. Beyond a library's limits the message is NCCL's. Equations, limits and sources:
docs/families/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.transfers.fabric import PeerLinks
from tracetool.families.transfers.problem import Message

#: Passes over memory of an all-reduce in symmetric memory: the message is copied in and out, read and written
#: each time. [1] By definition of the call.
_PASSES: Final = 4.0
#: Numbers of ranks limits are stated for. [1] By definition of the data files.
_STATED_RANKS: Final = (2, 4, 8)


@dataclass(frozen=True)
class Shots:
    """A library's own all-reduce of n messages; shape (n,) each."""

    seconds: Floats
    link_bytes: Floats  # what a rank reads [B]
    memory_bytes: Floats  # what is copied besides [B]
    own: Bools  # the library takes the message itself

    def take(self, rows: Ints) -> Shots:
        """Return the chosen rows."""
        return Shots(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def put(self, rows: Ints, shots: Shots) -> None:
        """Write the times of the messages a library takes itself into the chosen rows, in place."""
        own_rows = rows[shots.own]
        for f in fields(self):
            getattr(self, f.name)[own_rows] = getattr(shots, f.name)[shots.own]


def shots(message: Message, links: PeerLinks, limits: Mapping[str, float], c: Mapping[str, float]) -> Shots:
    """Return the time and traffic of a library's own all-reduce, given its limits and coefficients."""
    two_from, own_below, symmetric_below = (
        _by_ranks(limits, name, message.ranks) for name in ("two_shots", "own", "symmetric")
    )
    possible = message.reduces_all & (message.ranks <= _STATED_RANKS[-1])
    takes_itself = possible & (message.bytes < own_below)
    symmetric = possible & ~takes_itself & (message.bytes < symmetric_below)
    two = takes_itself & (message.bytes >= two_from)

    wait_s, rate = links.wait_s * c["factor"], links.bytes_per_s
    peers = message.ranks - 1.0
    read = peers * message.bytes
    one_wait_s = wait_s * (limits["exchanges"] * c["start"] + c["peer"] * peers)
    two_wait_s = wait_s * limits["two_exchanges"] * c["two_start"]
    seconds = links.launch_s + one_wait_s + read / (c["one_share"] * rate)
    in_two = links.launch_s + two_wait_s + message.ring_bytes / (c["two_share"] * rate)
    seconds, read = np.where(two, in_two, seconds), np.where(two, message.ring_bytes, read)
    copied = np.zeros(len(read))
    if symmetric.any():
        added = links.adds & (message.ranks >= limits["multicast_ranks"])
        moved = np.where(added, message.bytes, message.ring_bytes)
        share = np.where(added, c["added_share"], c["symmetric_share"])
        seconds = np.where(
            symmetric, links.launch_s + wait_s * c["symmetric_start"] + moved / (share * rate), seconds
        )
        read = np.where(symmetric, moved, read)
        copied = np.where(symmetric, _PASSES * message.bytes, copied)
    return Shots(seconds, read, copied, takes_itself | symmetric)


def limits_of(library: str, architecture: str, *, early: bool = False) -> Mapping[str, float]:
    """Return a library's limits on an architecture: those stated for it in place of the usual ones.

    Parameters
    ----------
    library : str
        Name of its data file.
    early : bool
        Those of a version before the present kernels.
    """
    document = read_coefficients(__package__, library)
    names = ("limits", "limits_early") if early else ("limits", f"limits_{architecture}")
    return {key: value for name in names for key, value in values_of(document.get(name, {})).items()}


def _by_ranks(limits: Mapping[str, float], name: str, ranks: Floats) -> Floats:
    """Return a limit for each row: that of the next stated number of ranks. [B]"""
    stated = np.array([limits[f"{name}_{count}"] for count in _STATED_RANKS])
    return np.asarray(stated[np.minimum(np.searchsorted(_STATED_RANKS, ranks), len(_STATED_RANKS) - 1)])
