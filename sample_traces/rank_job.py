"""A training on several GPUs, one trace a rank: equal work, one rank slow, the others wait in all-reduces.

``python sample_traces/rank_job.py FOLDER [RANKS]`` writes ``rank<n>.json.gz``, ``power.csv`` and ``truth.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from kernels import elementwise, gemm
from kineto_file import Rank, write_kineto
from machine import H100, Machine
from sensor import Sensor, read
from text_files import write_nvidia_smi_gpus
from timeline import Kernel, Timeline, meet

START_NS = 1_767_607_205_250_000_000  # 2026-01-05 10:00:05.25 UTC
ZONE_H = -5
#: Products deliver less here than in the training of one GPU: waits are then long enough to be identified.
GPU = replace(H100, flop_rate={"gemm": 655e12})
ELEMENTS = 64 * 2**20  # of a gradient bucket
TRANSFER_S = 3.1e-3


@dataclass(frozen=True)
class Job:
    """What is invented of a job.

    Parameters
    ----------
    ranks, steps : int
        GPUs, and steps of training.
    slow : int
        The rank that takes ``slower`` times as long for the same work.
    hungry : int, optional
        A rank whose GPU draws ``drawn`` times the power of the others for the same work.
    clock_ns : sequence of int
        How far each rank's clock is ahead of the first one's; as many as there are hosts' clocks.
    drift : sequence of float
        By how much each rank's clock runs faster than the first one's.
    missed : sequence of int
        All-reduces at the beginning that each rank's profiler missed.
    gpus_per_host : int
        GPUs are numbered anew on each host.
    seed : int
        Of everything random.
    """

    ranks: int = 2
    steps: int = 50
    slow: int = 1
    slower: float = 1.30
    hungry: int | None = None
    drawn: float = 1.08
    clock_ns: Sequence[int] = ()
    drift: Sequence[float] = ()
    missed: Sequence[int] = ()
    gpus_per_host: int = 8
    seed: int = 7


def _machine(job: Job, rank: int) -> Machine:
    machine = GPU
    if rank == job.slow:
        rates = {kind: rate / job.slower for kind, rate in machine.flop_rate.items()}
        machine = replace(machine, flop_rate=rates, byte_rate=machine.byte_rate / job.slower)
    if rank == job.hungry:
        machine = replace(machine, power_w={kind: w * job.drawn for kind, w in machine.power_w.items()})
    return machine


def rank_timelines(job: Job) -> list[Timeline]:
    """Return the timeline of each rank."""
    rows, hidden = 8192, 8192
    product = gemm(
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
        rows, hidden, hidden, (128, 256, 64), 4, persistent=H100.sm_count, threads=384,
    )  # fmt: skip
    add = elementwise(
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<c10::BFloat16>, "
        "std::array<char *, (unsigned long)3>>(int, T2, T3)",
        "vectorized_elementwise_kernel", 16 * rows * hidden, 2, 1, "aten::add",
        ((rows, 16, hidden), (rows, 16, hidden), ()),
    )  # fmt: skip
    reduce = Kernel(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective", 0.0, 2.0 * ELEMENTS,
        (16, 1, 1), (512, 1, 1), 96, 87_568, operator="record_param_comms", elements=ELEMENTS,
    )  # fmt: skip
    random = np.random.default_rng(job.seed)
    timelines = [Timeline(_machine(job, r), seed=job.seed * 1000 + r) for r in range(job.ranks)]
    for step in range(job.steps):
        lengths = random.integers(9, 22, 2)  # sequences of a batch differ, alike on all ranks
        for count, bucket in zip(lengths, ("first", "second"), strict=True):
            for timeline in timelines:
                timeline.run([product] * int(count) + [add] * 6, f"step {step} {bucket} part")
            meet(timelines, reduce, TRANSFER_S)
        for timeline in timelines:
            timeline.pause(0.012)
    return timelines


def truth(timelines: Sequence[Timeline]) -> list[dict[str, Any]]:
    """Return what each rank really spent: waiting, moving data and computing. [s], [J]"""
    rows = []
    for rank, timeline in enumerate(timelines):
        power = timeline.machine.power_w
        row = {
            "rank": rank,
            "wait_s": 0.0,
            "wait_j": 0.0,
            "transfer_s": 0.0,
            "transfer_j": 0.0,
            "compute_j": 0.0,
        }
        for launch in timeline.launches:
            kind = launch.kernel.kind
            if launch.arrived_ns:
                waited, moved = launch.arrived_ns - launch.start_ns, launch.end_ns - launch.arrived_ns
                row["wait_s"] += waited / 1e9
                row["wait_j"] += waited / 1e9 * power[f"{kind}_wait"]
                row["transfer_s"] += moved / 1e9
                row["transfer_j"] += moved / 1e9 * power[kind]
            else:
                row["compute_j"] += (launch.end_ns - launch.start_ns) / 1e9 * power[kind]
        rows.append(row)
    return rows


def write_job(job: Job, folder: Path) -> list[dict[str, Any]]:
    """Write the traces and the log of each host, and return the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    timelines = rank_timelines(job)
    known = truth(timelines)
    origin = [0] * job.ranks
    clocks, drifts, missed = ([*given, *origin] for given in (job.clock_ns, job.drift, job.missed))
    polled = [
        (read(t, Sensor(phase_s=0.011 * (r + 1)), lead_s=1.5, tail_s=2.5, seed=100 * job.seed + r), t)
        for r, t in enumerate(timelines)
    ]  # fmt: skip
    for first in range(0, job.ranks, job.gpus_per_host):
        name = "power.csv" if job.ranks <= job.gpus_per_host else f"power{first // job.gpus_per_host}.csv"
        host = polled[first : first + job.gpus_per_host]
        write_nvidia_smi_gpus(host, folder / name, utc_ns=START_NS + clocks[first], zone_h=ZONE_H)
    for rank, timeline in enumerate(timelines):
        if missed[rank]:
            collectives = [i for i, launch in enumerate(timeline.launches) if launch.arrived_ns]
            timeline.launches = timeline.launches[collectives[missed[rank] - 1] + 1 :]
        write_kineto(
            timeline,
            folder / f"rank{rank}.json.gz",
            utc_ns=START_NS + clocks[rank],
            rank=Rank(rank, job.ranks, rank % job.gpus_per_host, drifts[rank]),
        )
    (folder / "truth.json").write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    return known


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("ranks", type=int, nargs="?", default=2, help="GPUs, a trace each")
    arguments = parser.parse_args()
    write_job(Job(ranks=arguments.ranks), arguments.folder)
