"""Invented runs with one waste of known joules each; the machine is none of the tool's.

Power is a base, clocks over the supply voltage squared, and joules per operation and byte; time is
operations and bytes over delivered rates. What a cause costs is what the same machine spends without it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

_SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
sys.path.insert(0, str(_SAMPLES))
try:
    kernels, kineto_file, machine, sensor, text_files, timeline = (
        importlib.import_module(m)
        for m in ("kernels", "kineto_file", "machine", "sensor", "text_files", "timeline")
    )
finally:
    sys.path.remove(str(_SAMPLES))

START_NS = 1_767_607_205_250_000_000
IDLE_W, SWITCH_W, BYTE_J = 71.0, 95.0, 35e-12
#: Power of an H100 with nothing running at locked clocks, as EnergAIzer's published sweep has it. [MHz], [W]
GAP_MHZ, GAPS_W = (1005.0, 1425.0, 1860.0), (72.1, 90.0, 120.0)
BYTES_PER_S, LAUNCH_S, SMS = 2.82e12, 2.4e-6, 132
#: Joules per operation at 1980 MHz, operations per clock and SM, and the share of them delivered.
PIPES = {"tensor": (0.65e-12, 4096, 0.70), "fp32": (3.0e-12, 256, 0.85)}
BEST_MHZ = 1095
BIG, SMALL = (16384, 8192, 8192), 64 * 2**20


def voltage(clock_mhz: float) -> float:
    """Return the supply over that at 1980 MHz: flat up to 1190 MHz, then rising ever faster."""
    return 0.70 + 0.30 * (max(clock_mhz - 1190.0, 0.0) / 790.0) ** 1.4


def gap_w(clock_mhz: float) -> float:
    """Return the power with nothing running. [W]"""
    return float(np.interp(clock_mhz, GAP_MHZ, GAPS_W))


@dataclass(frozen=True)
class Cost:
    """One launch: seconds and watts."""

    seconds: float
    watts: float

    @property
    def joules(self) -> float:
        return self.seconds * self.watts


def cost(
    clock_mhz: float, flops: float, moved: float, pipe: str = "tensor", *,
    slower: float = 1.0, active: float = 1.0,
) -> Cost:  # fmt: skip
    """Return what work costs; ``slower``: of arithmetic that is disturbed; ``active``: SMs that work."""
    joules, per_clock, delivered = PIPES[pipe]
    rate = SMS * per_clock * delivered * clock_mhz * 1e6 * active / slower
    seconds = max(flops / rate, moved / BYTES_PER_S) + LAUNCH_S
    squared = voltage(clock_mhz) ** 2
    busy_w = SWITCH_W * clock_mhz / 1980.0 * squared * active
    return Cost(seconds, gap_w(clock_mhz) + busy_w + (flops * joules * squared + moved * BYTE_J) / seconds)


class Priced:
    """A machine that looks up what each kind of kernel takes."""

    def __init__(self, clock_mhz: int, costs: dict[str, Cost], slower: float = 1.0) -> None:
        self.costs, self.slower = costs, slower
        self.power_w = {k: c.watts for k, c in costs.items()}
        for name in ("device_name", "idle_clock_mhz", "mem_clock_mhz", "sm_count", "hold_s", "facts"):
            setattr(self, name, getattr(machine.H100, name))
        self.clock_mhz, self.gap_w, self.idle_w = clock_mhz, gap_w(clock_mhz), IDLE_W

    def duration_s(self, kind: str, _flops: float, _bytes: float) -> float:
        return self.costs[kind].seconds * self.slower


@dataclass
class Planted:
    """Timelines of a job's ranks, the cause in it, its joules, and what the logs state besides."""

    cause: str
    ranks: list[Any]
    joules: float = 0.0
    log: dict[str, float] = field(default_factory=dict)


class Job:
    """Kernels priced as they are made, run by ranks at one clock; ``length``: share of the steps."""

    length = 1.0

    def __init__(self, clock_mhz: int = BEST_MHZ, ranks: int = 1, slow: float = 1.0) -> None:
        self.clock_mhz, self.costs = clock_mhz, {}
        self.ranks = [
            timeline.Timeline(Priced(clock_mhz, self.costs, slow if r else 1.0), seed=11 + r)
            for r in range(ranks)
        ]

    def price(self, kind: str, one: Cost) -> str:
        self.costs[kind] = one
        for rank in self.ranks:
            rank.machine.power_w[kind] = one.watts
        return kind

    def gemm(self, m: int, n: int, k: int, **how: Any) -> Any:
        kind = f"gemm {m} {n} {k}"
        issued = -(-m // 256) * 256 * (-(-n // 128) * 128) if how.pop("padded", True) else m * n
        small = 2.0 * (m * k + k * n + m * n)
        self.price(kind, cost(self.clock_mhz, 2.0 * issued * k, small, **how))
        name = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
        return kernels.gemm(name, m, n, k, (128, 256, 64), 4, persistent=SMS, threads=384, kind=kind)

    def elementwise(self, functor: str, elements: int, operator: str = "aten::mul") -> Any:
        kind = f"elementwise {elements}"
        self.price(kind, cost(self.clock_mhz, 0.0, 4.0 * elements))
        name = (
            f"void at::native::vectorized_elementwise_kernel<(int)4, {functor}, "
            "std::array<char *, (unsigned long)2>>(int, T2, T3)"
        )
        shape = (elements // 4096, 4096)
        short = "vectorized_elementwise_kernel"
        return kernels.elementwise(name, short, elements, 1, 1, operator, (shape, ()), kind=kind)

    def usual(self) -> list[Any]:
        return [self.gemm(*BIG), self.gemm(8192, 16384, 8192), self.elementwise(_relu(), SMALL, "aten::relu")]

    def steps(self, count: int, each: Callable[[Any], None]) -> None:
        for step in range(round(count * self.length)):
            for rank in self.ranks:
                each(rank)
            if step % 40 == 39:
                for rank in self.ranks:
                    rank.pause(0.02)

    def planted(self, cause: str, joules: float, **log: float) -> Planted:
        return Planted(cause, self.ranks, joules, log)


def _relu() -> str:
    return (
        "at::native::<unnamed>::launch_clamp_scalar(at::TensorIteratorBase &)::"
        "[lambda(c10::BFloat16) (instance 1)]"
    )


def spent(rank: Any, *kinds: str) -> float:
    """Return the joules of the launches of some kinds."""
    power = rank.machine.power_w
    return sum(
        (one.end_ns - one.start_ns) * 1e-9 * power[one.kernel.kind]
        for one in rank.launches
        if one.kernel.kind in kinds
    )


def gaps_j(rank: Any, longer_s: float = 0.0) -> float:
    """Return the joules of idle times at least so long."""
    pairs = zip(rank.launches, rank.launches[1:], strict=False)
    lengths = [(b.start_ns - a.end_ns) * 1e-9 for a, b in pairs]
    return rank.machine.gap_w * sum(t for t in lengths if t >= longer_s)


def clean(seed: int = 0) -> Planted:
    job = Job(BEST_MHZ)
    job.steps(200 + 20 * seed, lambda rank: rank.run(job.usual()[seed % 2 :]))
    return job.planted("", 0.0)


def clean_of(*sizes: tuple[int, int, int], steps: int = 200) -> Planted:
    """Return a run of products of other sizes, without a cause."""
    job = Job(BEST_MHZ)
    step = [*(job.gemm(*size) for size in sizes), job.elementwise(_relu(), SMALL, "aten::relu")]
    job.steps(steps, lambda rank: rank.run(step))
    return job.planted("", 0.0)


#: Runs without a cause, of several shapes.
CLEAN: dict[str, Callable[[], Planted]] = {
    "clean": clean,
    "clean_short": lambda: clean(1),
    "clean_square": lambda: clean_of((8192, 8192, 8192), (16384, 16384, 8192), steps=200),
    "clean_deep": lambda: clean_of((8192, 8192, 32768), steps=150),
    "clean_wide": lambda: clean_of((4096, 32768, 8192), (32768, 4096, 8192), steps=150),
}


def padding() -> Planted:
    job = Job()
    odd = job.gemm(264, 16384, 131072)
    job.steps(60, lambda rank: rank.run([*job.usual()[:1], *[odd] * 4]))
    return job.planted("padding", (1 - 264 / 512) * spent(job.ranks[0], odd.kind))


def unfused() -> Planted:
    job = Job()
    names = [
        _relu(),
        (
            "at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
            "at::native::binary_internal::MulFunctor<float>>"
        ),
    ]
    chain = [
        job.elementwise(names[i % 2], 16 * SMALL, "aten::mul" if i % 2 else "aten::relu") for i in range(5)
    ]
    job.steps(400, lambda rank: rank.run([*job.usual()[:2], *chain]))
    one, fused = chain[0].kind, cost(job.clock_mhz, 0.0, 64.0 * SMALL)
    each = job.costs[one].joules
    return job.planted("unfused chain", spent(job.ranks[0], one) * (1 - fused.joules / (5 * each)))


def host_bound() -> Planted:
    job = Job()

    def slow_host(rank: Any) -> None:
        for kernel in (job.usual()[0],) * 5:
            rank.host_ns += 9_000_000
            rank.run([kernel])

    job.steps(60, slow_host)
    return job.planted("host-bound", gaps_j(job.ranks[0]))


def sync() -> Planted:
    job = Job()

    def step(rank: Any) -> None:
        rank.run(job.usual()[:1])
        rank.pause(0.004)

    job.steps(300, step)
    return job.planted("synchronization", gaps_j(job.ranks[0]))


def idle() -> Planted:
    job = Job()
    job.steps(60, lambda rank: rank.run(job.usual()))
    for _ in range(3):
        job.ranks[0].pause(2.5)
        job.steps(60, lambda rank: rank.run(job.usual()))
    return job.planted("idle GPU", gaps_j(job.ranks[0], 1.0))


def few_rows() -> Planted:
    job = Job()
    thin = job.gemm(8, 65536, 65536, padded=False)
    job.steps(80, lambda rank: rank.run([*job.usual()[:1], *[thin] * 4]))
    rows = 1
    while 2.0 * rows * 65536**2 / (SMS * 4096 * 0.7 * BEST_MHZ * 1e6) < 2 * 65536**2 / BYTES_PER_S:
        rows += 1
    full = cost(BEST_MHZ, 2.0 * rows * 65536**2, 2.0 * (65536**2 + 2 * rows * 65536))
    share = 1 - 8 / rows * full.joules / job.costs[thin.kind].joules
    return job.planted("small batch", share * spent(job.ranks[0], thin.kind))


def misaligned() -> Planted:
    job = Job()
    m, n, k = 8192, 8191, 8191
    kind = job.price("odd", cost(BEST_MHZ, 2.0 * m * n * k, 6.0 * m * n, slower=2.6))
    name = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_tn_align1"
    odd = kernels.gemm(name, m, n, k, (128, 128, 32), 5, kind=kind)
    job.steps(420, lambda rank: rank.run([*job.usual()[:1], odd]))
    aligned = cost(BEST_MHZ, 2.0 * m * 8192 * 8192, 6.0 * m * n)
    share = 1 - aligned.joules / job.costs[kind].joules
    return job.planted("misaligned product", share * spent(job.ranks[0], kind))


def fallback() -> Planted:
    job = Job()
    m, n, k = 8192, 8192, 8192
    kind = job.price("wide", cost(BEST_MHZ, 2.0 * m * n * k, 12.0 * m * n, "fp32"))
    wide = kernels.gemm("ampere_sgemm_128x64_tn", m, n, k, (128, 64, 8), 2, size=4, dtype="float", kind=kind)
    job.steps(120, lambda rank: rank.run([*job.usual()[:2], wide]))
    half = cost(BEST_MHZ, 2.0 * m * n * k, 6.0 * m * n)
    share = 1 - half.joules / job.costs[kind].joules
    return job.planted("fp32 fallback", share * spent(job.ranks[0], kind))


def copies() -> Planted:
    job = Job()
    functor = (
        "at::native::<unnamed>::direct_copy_kernel_cuda(at::TensorIteratorBase &)::"
        "[lambda(c10::BFloat16) (instance 1)]"
    )
    copy = replace(job.elementwise(functor, 16 * SMALL, "aten::copy_"), kind="copy")
    job.price("copy", cost(BEST_MHZ, 0.0, 64.0 * SMALL))
    job.steps(100, lambda rank: rank.run([*job.usual(), *[copy] * 3]))
    return job.planted("redundant copies", spent(job.ranks[0], "copy"))


def tail() -> Planted:
    job = Job()
    uneven = job.gemm(7 * 256, 19 * 128, 262144, active=133 / 264)
    job.steps(70, lambda rank: rank.run([*job.usual()[:1], *[uneven] * 4]))
    seconds = sum(
        (one.end_ns - one.start_ns) * 1e-9 for one in job.ranks[0].launches if one.kernel.kind == uneven.kind
    )
    return job.planted("tail", gap_w(BEST_MHZ) * seconds * 131 / 264)


def _at_clock(cause: str, clock_mhz: int, **log: float) -> Planted:
    job, best = Job(clock_mhz), Job(BEST_MHZ)
    for one in (job, best):
        one.steps(200, lambda rank, one=one: rank.run(one.usual()))
    work = [sum(spent(r, k) for k in j.costs) + gaps_j(r) for j in (job, best) for r in j.ranks]
    return job.planted(cause, work[0] - work[1], **log)


def _two_ranks(steps: int, collective: Cost, moving_s: float, most: int, slow: float = 1.0) -> Job:
    """Return two ranks that reduce after each step of ``most - 1`` or ``most`` times the usual kernels."""
    job = Job(ranks=2, slow=slow)
    job.price("collective", collective)
    job.price("collective_wait", Cost(0.0, 180.0))
    for step in range(round(steps * job.length)):
        for rank in job.ranks:
            rank.run(job.usual() * (most - 1 + step % 2))
        timeline.meet(job.ranks, _reduce(), moving_s)
        if step % 20 == 19:
            for rank in job.ranks:
                rank.pause(0.02)
    return job


def straggler() -> Planted:
    job = _two_ranks(90, Cost(0.003, 250.0), 0.0005, 3, slow=1.45)
    waited = [
        (one.arrived_ns - one.start_ns) * 1e-9 for r in job.ranks for one in r.launches if one.arrived_ns
    ]
    return job.planted("waiting for ranks", 180.0 * sum(waited))


def overlap(steps: int = 160) -> Planted:
    job = _two_ranks(steps, Cost(0.006, 250.0), 0.009, 2)
    moved = [(one.end_ns - one.arrived_ns) * 1e-9 for r in job.ranks for one in r.launches if one.arrived_ns]
    return job.planted("exposed communication", 250.0 * sum(moved))


def _reduce() -> Any:
    elements = 512 * 2**20
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    return timeline.Kernel(
        f"{name}(ncclDevKernelArgsStorage<(unsigned long)4096>)", name, "collective", 0.0, 2.0 * elements,
        (16, 1, 1), (512, 1, 1), 96, 87_568, operator="record_param_comms", elements=elements,
    )  # fmt: skip


def short(make: Callable[[], Planted], share: float) -> Planted:
    """Return a run with a share of its steps."""
    Job.length = share
    try:
        return make()
    finally:
        Job.length = 1.0


MAKERS: dict[str, Callable[[], Planted]] = {
    "padding": padding, "unfused": unfused, "host_bound": host_bound, "straggler": straggler,
    "thermal": lambda: _at_clock("thermal throttle", 600, temperature=88.0),
    "cap": lambda: _at_clock("power cap", 600, limit=230.0),
    "idle": idle, "few_rows": few_rows, "misaligned": misaligned, "fallback": fallback, "copies": copies,
    "sync": sync, "clock": lambda: _at_clock("oversized clock", 1890), "overlap": overlap, "tail": tail,
}  # fmt: skip
