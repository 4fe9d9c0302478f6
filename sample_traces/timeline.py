"""Kinds of kernel, the host that launches them, and the timeline that results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from machine import Machine


@dataclass(frozen=True)
class Kernel:
    """One distinct piece of work, as a profiler would describe its launch."""

    name: str
    short_name: str
    kind: str
    flops: float
    traffic_bytes: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_static: int = 0
    shared_dynamic: int = 0
    operator: str = ""
    dims: tuple[tuple[int, ...], ...] = ()
    types: tuple[str, ...] = ()
    concrete: tuple[str, ...] = ()
    copy_kind: str = ""  # HtoD, DtoH, DtoD for memory copies
    elements: int = 0  # of each rank's message, for collectives

    @property
    def activity(self) -> str:
        """Return kernel, memcpy or memset."""
        return self.kind if self.kind in ("memcpy", "memset") else "kernel"


@dataclass
class Launch:
    """One launch: host call and device time, ns after the start of the job."""

    kernel: Kernel
    call_ns: int
    call_end_ns: int
    start_ns: int
    end_ns: int
    arrived_ns: int = 0  # when the last rank of a collective had come; 0 for other kernels


@dataclass
class Span:
    """A host-side range such as a step or a layer, ns after the start of the job."""

    text: str
    start_ns: int
    end_ns: int


@dataclass
class Timeline:
    """What happened, in launch order on one stream."""

    machine: Machine
    seed: int
    launches: list[Launch] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(
        default_factory=list
    )  # calls in which the host waited, begin and end
    host_ns: int = 0
    _device_ns: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def pause(self, seconds: float) -> None:
        """Wait for the device, then let the host do something else."""
        if self._device_ns > self.host_ns + 500:
            self.waits.append((self.host_ns + 500, self._device_ns + 800))
        self.host_ns = max(self.host_ns, self._device_ns) + round(seconds * 1e9)

    def run(self, kernels: Iterable[Kernel], text: str = "") -> None:
        """Launch kernels one after another as a framework does, some microseconds of host time each."""
        begin = self.host_ns
        for kernel in kernels:
            host = self._random.lognormal(np.log(7.5e3), 0.25)
            call = self.host_ns + round(host)
            call_end = call + round(self._random.lognormal(np.log(4.0e3), 0.2))
            seconds = self.machine.duration_s(kernel.kind, kernel.flops, kernel.traffic_bytes)
            seconds *= self._random.normal(1.0, 0.012)
            if kernel.kind == "memcpy":
                seconds = kernel.traffic_bytes / 24e9
            start = max(call_end + 2_200, self._device_ns + round(self._random.normal(1_000, 60)))
            end = start + max(round(seconds * 1e9), 900)
            self.launches.append(Launch(kernel, call, call_end, start, end))
            self.host_ns, self._device_ns = call_end, end
        if text:
            self.spans.append(Span(text, begin, self.host_ns))

    def enter(self, kernel: Kernel) -> Launch:
        """Launch a collective; :func:`meet` tells when it ends."""
        call = self.host_ns + round(self._random.lognormal(np.log(9.0e3), 0.25))
        call_end = call + round(self._random.lognormal(np.log(5.0e3), 0.2))
        start = max(call_end + 2_200, self._device_ns + round(self._random.normal(1_000, 60)))
        launch = Launch(kernel, call, call_end, start, start)
        self.launches.append(launch)
        self.host_ns = call_end
        return launch

    def leave(self, launch: Launch, arrived_ns: int, seconds: float) -> None:
        """End a collective whose last rank came at ``arrived_ns``; ranks end a few microseconds apart."""
        launch.arrived_ns = arrived_ns
        launch.end_ns = arrived_ns + round(seconds * 1e9) + round(abs(self._random.normal(0.0, 1_500)))
        self._device_ns = launch.end_ns

    @property
    def end_ns(self) -> int:
        """Return when the last kernel ends."""
        return self._device_ns


def meet(ranks: Iterable[Timeline], kernel: Kernel, seconds: float) -> None:
    """Run a collective: data moves for ``seconds`` once the last rank has come."""
    entered = [(rank, rank.enter(kernel)) for rank in ranks]
    arrived_ns = max(launch.start_ns for _, launch in entered)
    for rank, launch in entered:
        rank.leave(launch, arrived_ns, seconds)
