"""Laws of collectives: over peer links, among servers, and through the host where neither joins the ranks.

Equations and sources: docs/families/collectives.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficient, Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.transfers.custom import Shots, limits_of, shots
from tracetool.families.transfers.fabric import between_servers, joined, peer_links, through_host
from tracetool.families.transfers.host import carry_through_host, one_shot_through_host
from tracetool.families.transfers.implementation import (
    CUSTOM,
    LIBRARIES,
    OTHER,
    SGLANG,
    VLLM,
    as_each_library,
    implementations_of,
)
from tracetool.families.transfers.nccl import carry
from tracetool.families.transfers.problem import MEMORY_PER_WIRE, Message, message_of
from tracetool.families.transfers.servers import carry_between_servers
from tracetool.hardware.gpu import Gpu

#: Kinds of rows that err differently: of each library, of another, launched from Python, of none stated.
_KINDS: Final = (*LIBRARIES, "other", "eager", "unstated")
_EAGER, _UNSTATED = len(LIBRARIES) + 1, len(LIBRARIES) + 2
#: Bytes read and written for each byte copied into a buffer. [1] By definition of a copy.
_COPY: Final = 2.0
#: Share of SMs holding a block while a collective runs. [1] A prior: NCCL's 16 to 32 channels on 140 SMs.
_ACTIVE: Final = 0.15


def _priors(section: str) -> Mapping[str, Coefficient]:
    """Return the coefficients of every library, each under its library's name."""
    return {
        f"{library}_{key}": coefficient
        for library in LIBRARIES
        for key, coefficient in read_coefficients(__package__, library).get(section, {}).items()
    }


def _of(library: str, c: Coefficients) -> dict[str, float]:
    start = f"{library}_"
    return {key.removeprefix(start): value for key, value in c.items() if key.startswith(start)}


def _over_links(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    message, by = message_of(rows), implementations_of(rows)
    carried = carry(message, peer_links(joined(message), gpu), _of("nccl", c))
    times = Shots(carried.seconds, carried.link_bytes, np.zeros(len(rows)), np.zeros(len(rows), np.bool_))
    for number, early in sorted({*zip(by.library.tolist(), by.early.tolist(), strict=True)}):
        places = np.flatnonzero((by.library == number) & (by.early == early))
        if number in CUSTOM:
            times.put(places, _library_shots(number, message.take(places), gpu, c, early=early))
        elif number == OTHER:
            times.put(places, _any_library(message.take(places), times.take(places), gpu, c))
    # a kernel launched from Python first copies the message into a buffer its peers know
    copied = (
        times.memory_bytes + _cloned(message.bytes, by.eager) + _cloned(message.bytes, by.eager & times.own)
    )
    return _pieces(times.seconds, times.link_bytes, copied, _issued(by.library, by.eager, c), gpu)


def _library_shots(number: int, message: Message, gpu: Gpu, c: Coefficients, *, early: bool = False) -> Shots:
    """Return the time and traffic of a library's own all-reduce."""
    # SGLang's early versions run the kernels of vLLM, within their own limits
    kernels = LIBRARIES[VLLM if early and number == SGLANG else number]
    limits = limits_of(LIBRARIES[number], gpu.architecture, early=early)
    return shots(message, peer_links(message.ranks, gpu), limits, _of(kernels, c))


def _any_library(message: Message, nccl: Shots, gpu: Gpu, c: Coefficients) -> Shots:
    """Return the geometric mean of the libraries with kernels of their own, each NCCL's beyond its limits."""
    candidates = [_library_shots(number, message, gpu, c) for number in CUSTOM]
    of = [
        {
            name: np.where(one.own, getattr(one, name), getattr(nccl, name))
            for name in ("seconds", "link_bytes")
        }
        for one in candidates
    ]
    return Shots(
        np.exp(np.mean([np.log(np.maximum(one["seconds"], 1e-12)) for one in of], axis=0)),
        np.mean([one["link_bytes"] for one in of], axis=0),
        np.mean([one.memory_bytes for one in candidates], axis=0),
        np.any([one.own for one in candidates], axis=0),
    )


def _between_servers(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    # no library's own all-reduce leaves the server
    message, by = message_of(rows), implementations_of(rows)
    carried = carry_between_servers(message, gpu, _of("nccl", c))
    copied, issued_s = _cloned(message.bytes, by.eager), _issued(by.library, by.eager, c)
    return _pieces(carried.seconds, carried.link_bytes, copied, issued_s, gpu)


def _through_host(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    message, by = message_of(rows), implementations_of(rows)
    nccl, seconds = _of("nccl", c), np.zeros(len(rows))
    for number in set(by.library.tolist()):
        places = np.flatnonzero(by.library == number)
        library = LIBRARIES[VLLM if number == OTHER else number]
        # each library's tables were measured on machines of its own: how ranks share a host is the machine's
        habits = {**nccl, **_of(library, c)}
        crowded = {key: habits[key] for key in ("crowd_4", "crowd_8")}
        seconds[places] = carry_through_host(message.take(places), gpu, {**nccl, **crowded}).seconds
    shot, custom = one_shot_through_host(message, gpu, _of("vllm", c))
    custom &= (by.library == VLLM) | (by.library == SGLANG)
    copied = _cloned(message.bytes, by.eager) + _cloned(message.bytes, by.eager & custom)
    issued_s = np.where(
        custom, _issued(by.library, by.eager, c, "own_host_us"), _issued(by.library, by.eager, c)
    )
    link_bytes = np.where(custom, shot.link_bytes, message.ring_bytes)
    return _pieces(np.where(custom, shot.seconds, seconds), link_bytes, copied, issued_s, gpu)


def _cloned(size: Floats, cloned: Bools) -> Floats:
    """Return the bytes that copies of messages read and write. [B]"""
    return np.where(cloned, _COPY * size, 0.0)


def _issued(library: Ints, eager: Bools, c: Coefficients, key: str = "host_us") -> Floats:
    """Return the time of Python to launch each collective that no graph replays. [s]"""
    host_us = [c.get(f"{name}_{key}", 0.0) for name in LIBRARIES]
    launched = [each for each in host_us if each > 0.0]
    host_us.append(float(np.mean(launched)) if launched else 0.0)
    return np.where(eager, np.array(host_us)[library] * 1e-6, 0.0)


def _pieces(seconds: Floats, link_bytes: Floats, copied: Floats, issued_s: Floats, gpu: Gpu) -> Pieces:
    n = len(seconds)
    memory = MEMORY_PER_WIRE * link_bytes + copied
    return Pieces(
        fixed_s=seconds,
        serial_cycles=np.zeros(n),
        stream_s=copied / (gpu.dram_efficiency * gpu.dram_bytes_per_s),
        floor_s=issued_s,
        core_cycles=np.zeros(n),
        memory_s=np.zeros(n),
        norm=np.ones(n),
        active=np.full(n, _ACTIVE),
        work=Work.of(n, link_bytes=link_bytes, dram_bytes=memory, l2_bytes=memory),
    )


def _kind_of(rows: OperatorColumns) -> Ints:
    by = implementations_of(rows)
    return np.where(by.stated, np.where(by.eager, _EAGER, by.library), _UNSTATED)


def choose_fabric(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return 0 where peer links join the ranks, 1 where the host does, 2 where adapters do. Shape (n,)."""
    message = message_of(rows)
    return np.where(between_servers(message, gpu), 2, through_host(message, gpu)).astype(np.int64)


OVER_LINKS = Law(
    "collective",
    _over_links,
    _priors("collective"),
    spread=(-0.9, 0.9),
    kinds=_KINDS,
    kind_of=_kind_of,
    libraries=as_each_library,
)
THROUGH_HOST = Law(
    "collective_host",
    _through_host,
    _priors("collective_host"),
    spread=(-1.2, 1.2),
    kinds=_KINDS,
    kind_of=_kind_of,
    libraries=as_each_library,
)
BETWEEN_SERVERS = Law(
    "collective_servers",
    _between_servers,
    {**_priors("collective"), **_priors("collective_servers")},
    spread=(-1.2, 1.2),
    parent="collective",
    kinds=_KINDS,
    kind_of=_kind_of,
    libraries=as_each_library,
)
