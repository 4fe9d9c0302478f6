"""Invented training jobs whose joules are known by module, range, step and rank; nothing imports the tool.

Each rank has a GPU and a power sensor of its own. Kernels of one kind differ by 2 % in power from launch to
launch, kinds by up to a factor of two.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.measure.invented_gpu import Steps
from tests.measure.jobs import sensor_log
from tests.sources.makers import EPOCH_NS, kineto_document

Array = NDArray[np.float64]
ENGINE = "autograd::engine::evaluate_function"
LAYERS = 3
#: Part of a layer, its kernel and its time. [ms]
FORWARD = (
    ("Norm_*[0]", "norm", 0.8), ("Attention_*.Linear_*[0]", "gemm_qkv", 3.1), ("Attention_*", "flash", 2.6),
    ("Attention_*.Linear_*[1]", "gemm_proj", 1.9), ("Norm_*[1]", "norm", 0.8),
    ("Mlp_*.Linear_*[0]", "gemm_up", 4.2), ("Mlp_*", "gelu", 1.3), ("Mlp_*.Linear_*[1]", "gemm_down", 4.0),
)  # fmt: skip


@dataclass(frozen=True)
class MeteredGpu:
    """A GPU and its sensor's class, as ``tests.measure.jobs`` numbers them."""

    name: str  # as profilers write it
    field: str  # as nvidia-smi calls its power
    kind: int
    limit_w: float


@dataclass(frozen=True)
class GroupedJob:
    """A trace, its power log and the joules of everything it names."""

    events: list[list[dict[str, Any]]]  # of each rank
    metered: MeteredGpu
    readings: list[tuple[NDArray[np.int64], Array]]  # of each rank's log: stamps since the epoch [us], [W]
    energy_j: dict[str, dict[str, float]]  # by key, by name
    gain: Array  # of each rank's sensor
    offset_w: Array
    power: list[dict[str, float]]  # of each kernel on each rank's GPU, as it ran [W]

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the profiler's file."""
        document = kineto_document([event for events in self.events for event in events])
        for device in document["deviceProperties"]:  # type: ignore[attr-defined]
            device["name"] = self.metered.name
        return document

    @cached_property
    def log(self) -> str:
        """Return the file of ``nvidia-smi``, whose stamps are whole milliseconds."""
        lines = [f"timestamp, index, {self.metered.field} [W]"]
        for rank, (stamps_us, watts) in enumerate(self.readings):
            lines += [f"{_stamp(t)}, {rank}, {w:.2f}" for t, w in zip(stamps_us.tolist(), watts, strict=True)]
        return "\n".join(lines) + "\n"


class _Host:
    """Events of one rank, written as they happen; times in microseconds."""

    def __init__(self, rank: int, random: np.random.Generator, longer: float = 1.0) -> None:
        self.pid, self.rank, self.random, self.longer = 9 + rank, rank, random, longer
        self.now_us = 1e6
        self.events: list[dict[str, Any]] = []
        self.start: list[float] = []
        self.end: list[float] = []
        self.labels: list[tuple[str, str, str, str]] = []  # kernel, module, range, step
        self.range, self.step, self.sequence, self.number = "(none)", "(none)", 0, 1000 * rank

    def event(self, cat: str, name: str, start: float, end: float, **args: Any) -> None:
        pid, tid = (self.rank, 7) if cat == "kernel" else (self.pid, self.pid)
        span = {"ts": round(start, 3), "dur": round(end - start, 3)}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **span, "args": args}
        )

    def launch(self, kernel: str, module: str, time_ms: float) -> None:
        length = 1e3 * self.longer * time_ms * np.exp(self.random.normal(0.0, 0.05))
        call, start = self.now_us + 2.0, self.now_us + 9.0
        end = start + length
        self.number += 1
        self.event("cuda_runtime", "cudaLaunchKernel", call, call + 4.0, correlation=self.number)
        grid = {"grid": [64, 1, 1], "block": [128, 1, 1], "device": self.rank, "stream": 7}
        self.event("kernel", kernel, start, end, correlation=self.number, **grid)
        self.start.append(round(start, 3) * 1e-6)
        self.end.append((round(start, 3) + round(end - start, 3)) * 1e-6)
        self.labels.append((kernel, module, self.range, self.step))
        self.now_us = end + 3.0

    def operator(self, kernel: str, module: str, time_ms: float) -> int:
        """Launch through a forward operator; return its autograd sequence number."""
        begin = self.now_us
        self.sequence += 1
        self.launch(kernel, module, time_ms)
        made = {"Sequence number": self.sequence, "External id": self.number}
        self.event("cpu_op", "aten::op", begin + 0.5, self.now_us - 1.0, **made)
        return self.sequence

    def backward(self, sequence: int, kernel: str, module: str, time_ms: float) -> None:
        begin = self.now_us
        self.launch(kernel, f"{module} backward", time_ms)
        made = {"Sequence number": sequence, "External id": self.number}
        self.event("cpu_op", f"{ENGINE}: Backward0", begin + 0.5, self.now_us - 1.0, **made)

    def module(self, name: str, begin: float) -> None:
        self.event("python_function", f"nn.Module: {name}", begin, self.now_us)
        self.now_us += 2.0


def _forward(host: _Host) -> list[tuple[int, str, str, float]]:
    """Run the model; return what its backward pass has to do."""
    tape: list[tuple[int, str, str, float]] = []
    whole = host.now_us
    host.now_us += 2.0
    for layer in range(LAYERS):
        outer = host.now_us
        host.now_us += 2.0
        part, begin, linear, norm = "", host.now_us, 0, 0
        for name, kernel, time_ms in (*FORWARD, ("", "", 0.0)):
            block = name.partition("_")[0] if not name.startswith("Norm") else ""
            if block != part:
                if part:
                    host.module(f"{part}_{layer}", begin)
                part, begin = block, host.now_us
                host.now_us += 2.0
            if not name:
                break
            path, at = f"Model_0.Layer_*.{name}", host.now_us
            host.now_us += 4.0
            tape.append((host.operator(kernel, path, time_ms), kernel, path, time_ms))
            if "Linear" in name:
                host.module(f"Linear_{4 * layer + linear}", at)
                linear += 1
            elif name.startswith("Norm"):
                host.module(f"Norm_{2 * layer + norm}", at)
                norm += 1
        host.module(f"Layer_{layer}", outer)
    host.module("Model_0", whole)
    return tape


def _train(host: _Host, seconds: float, period_ms: float | None) -> None:
    step = 0
    while host.now_us < 1e6 * seconds:
        begin = host.now_us
        host.step = f"ProfilerStep#{step}"
        host.range, at = "forward", host.now_us
        host.now_us += 2.0
        tape = _forward(host)
        host.event("user_annotation", "forward", at, host.now_us)
        host.now_us += 2.0
        if step % 7 != 6:  # every seventh is an evaluation
            host.range, at = "backward", host.now_us
            host.now_us += 2.0
            for sequence, kernel, path, time_ms in reversed(tape):
                host.backward(sequence, f"{kernel}_backward", path, 1.8 * time_ms)
            host.event("user_annotation", "backward", at, host.now_us)
            host.now_us += 2.0
            host.range, at = "optimizer", host.now_us
            host.now_us += 2.0
            for _ in range(6):
                host.launch("adam", "(no module)", 1.5)
            host.event("user_annotation", "optimizer", at, host.now_us)
            host.now_us += 2.0
        host.event("user_annotation", host.step, begin, host.now_us)
        host.range = host.step = "(none)"
        pause = 1e3 * host.random.uniform(15.0, 60.0)
        if period_ms is not None:  # in step with the sensor's updates
            pause = 1e3 * period_ms - (host.now_us - begin) % (1e3 * period_ms)
        host.now_us += pause
        step += 1


@lru_cache(maxsize=1)
def _hosts(trace: int, seconds: float, ranks: int, period_ms: float | None, longer: float) -> list[_Host]:
    random = np.random.default_rng([22, trace])
    hosts = [_Host(rank, random, longer) for rank in range(ranks)]
    for host in hosts:
        _train(host, seconds, period_ms)
    return hosts


def grouped_job(
    seed: int, metered: MeteredGpu, *, seconds: float = 20.0, ranks: int = 2, period_ms: float | None = None,
    gain: tuple[float, float] = (1.0, 0.05), offset_w: tuple[float, float] = (0.0, 5.0),
    window_s: float | None = None, trace: int | None = None, longer: float = 1.0,
) -> GroupedJob:  # fmt: skip
    """Return a job; gain and offset of each rank's sensor are drawn from these means and deviations.

    ``period_ms``: steps begin at multiples of it. ``window_s`` of the sensor, by default its class's.
    ``trace``: the seed of when kernels run, by default that of powers and sensors. ``longer``: factor on
    kernels' times.
    """
    random = np.random.default_rng([21, seed])
    power: dict[str, float] = defaultdict(lambda: metered.limit_w * random.uniform(0.42, 0.95))
    gains, offsets = (m + sd * random.standard_normal(ranks) for m, sd in (gain, offset_w))
    sums: dict[str, dict[str, float]] = {
        k: defaultdict(float) for k in ("module", "range", "iteration", "gpu")
    }
    powers: list[dict[str, float]] = []
    readings = []
    hosts = _hosts(seed if trace is None else trace, seconds, ranks, period_ms, longer)
    first, last = min(h.start[0] for h in hosts), max(h.end[-1] for h in hosts)
    for host in hosts:
        steps, watts = _power(host, power, metered.limit_w, random)
        powers.append(_mean_power(host, watts))
        _add_up(host, steps, watts, sums, (first, last))
        # the sensor's own seed: its phase and noise
        stamps, shown = sensor_log(
            steps,
            metered.kind,
            2 * seed + host.rank,
            gain=gains[host.rank],
            offset_w=offsets[host.rank],
            window_s=window_s,
        )
        readings.append((np.rint(stamps * 1e6).astype(np.int64) + EPOCH_NS // 1000, shown))
    energy = {k: dict(v) for k, v in sums.items()}
    return GroupedJob([h.events for h in hosts], metered, readings, energy, gains, offsets, powers)


def _stamp(since_epoch_us: int) -> str:
    moment = datetime.fromtimestamp(since_epoch_us // 10**6, UTC)
    return f"{moment:%Y/%m/%d %H:%M:%S}.{since_epoch_us % 10**6 // 1000:03d}"


def _power(
    host: _Host, power: dict[str, float], limit_w: float, random: np.random.Generator
) -> tuple[Steps, Array]:
    """Return a rank's power over time, and that of each launch."""
    start, end = np.array(host.start), np.array(host.end)
    watts = np.array([power[kernel] for kernel, *_ in host.labels])
    watts = watts * (1 + 0.02 * random.standard_normal(len(watts)))
    edges = np.concatenate([[-3.0], np.column_stack([start, end]).ravel(), [end[-1] + 1.0, end[-1] + 6.0]])
    drawn = np.full(len(edges) - 1, 0.27 * limit_w)
    drawn[0] = drawn[-1] = 0.17 * limit_w
    drawn[1:-2:2] = watts
    return Steps(edges, drawn), watts


def _mean_power(host: _Host, watts: Array) -> dict[str, float]:
    length = np.array(host.end) - np.array(host.start)
    kernels, place = np.unique([names[0] for names in host.labels], return_inverse=True)
    mean = np.bincount(place, watts * length) / np.bincount(place, length)
    return dict(zip(kernels.tolist(), mean.tolist(), strict=True))


def _add_up(
    host: _Host, steps: Steps, watts: Array, sums: dict[str, dict[str, float]], span: tuple[float, float]
) -> None:
    """Add a rank's joules to the groups: each launch, and idle time between two of one group."""
    start, end = np.array(host.start), np.array(host.end)
    spent = watts * (end - start)
    idle = steps.energy(start[1:]) - steps.energy(end[:-1])
    for key, place in (("module", 1), ("range", 2), ("iteration", 3)):
        label = [names[place] for names in host.labels]
        for name, joules in zip(label, spent, strict=True):
            sums[key][name] += float(joules)
        for before, after, joules in zip(label, label[1:], idle, strict=False):
            sums[key][before if before == after else "(idle)"] += float(joules)
    ends = steps.energy(np.array(span))
    sums["gpu"][f"GPU {host.rank}"] += float(ends[1] - ends[0])
    outside = float(ends[1] - ends[0]) - float(spent.sum()) - float(idle.sum())
    for key in ("module", "range", "iteration"):
        sums[key]["(idle)"] += outside
