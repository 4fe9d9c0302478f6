"""Write a timeline as a PyTorch-profiler (Kineto) trace, gzipped."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeline import Kernel, Timeline

PID = 51_204


@dataclass(frozen=True)
class Rank:
    """Which process of a distributed job wrote a trace."""

    number: int = 0
    count: int = 1
    device: int = 0
    drift: float = 0.0  # by how much the host's clock runs faster than the first one's


def _collective(kernel: Kernel, rank: Rank) -> dict[str, Any]:
    """Return the arguments the profiler adds to a collective of the default group."""
    return {
        "Collective name": "allreduce",
        "In msg nelems": kernel.elements,
        "Out msg nelems": kernel.elements,
        "Group size": rank.count,
        "dtype": "BFloat16",
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(rank.count))),
    }


def write_kineto(timeline: Timeline, path: Path, *, utc_ns: int, rank: Rank | None = None) -> None:
    """Write the trace; the job starts at ``utc_ns`` (UTC). Times are µs after ``baseTimeNanoseconds``.

    Ranks of a job may stand on several hosts, in containers where all have the same process number.
    """
    machine = timeline.machine
    gpu_number = rank.device if rank else 0
    base = utc_ns - utc_ns % 10**9 - 3 * 10**9
    shift = utc_ns - base
    rate = 1.0 + (rank.drift if rank else 0.0)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {
            "ph": "M",
            "name": "process_labels",
            "pid": gpu_number,
            "tid": 0,
            "ts": 0,
            "args": {"labels": f"GPU {gpu_number}"},
        },
    ]

    def complete(
        cat: str, name: str, span: tuple[int, int], args: dict[str, Any], *, gpu: bool = False
    ) -> None:
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": gpu_number if gpu else PID,
                "tid": args.get("stream", PID),
                "ts": round((span[0] * rate + shift) / 1e3, 3),
                "dur": round((span[1] - span[0]) / 1e3, 3),
                "args": args,
            }
        )

    for number, launch in enumerate(timeline.launches, start=1):
        k = launch.kernel
        host = (launch.call_ns, launch.call_end_ns)
        operator = {"External id": number, "Ev Idx": number - 1}
        if k.operator:
            complete(
                "cpu_op",
                k.operator,
                (host[0] - 1_900, host[1] + 600),
                {
                    **operator,
                    "Input Dims": [list(d) for d in k.dims],
                    "Input type": list(k.types),
                    "Concrete Inputs": list(k.concrete or [""] * len(k.dims)),
                },
            )
        complete(
            "cuda_runtime",
            "cudaLaunchKernel",
            host,
            {"External id": number, "cbid": 211, "correlation": number},
        )
        complete(
            "kernel",
            k.name,
            (launch.start_ns, launch.end_ns),
            {
                "External id": number,
                "queued": 0,
                "device": gpu_number,
                "context": 1,
                "stream": 20 if k.kind == "collective" else 7,
                "correlation": number,
                "registers per thread": k.registers,
                "shared memory": k.shared_static + k.shared_dynamic,
                "grid": list(k.grid),
                "block": list(k.block),
                **(_collective(k, rank) if rank and k.kind == "collective" else {}),
            },
            gpu=True,
        )
    for span in timeline.spans:
        complete("user_annotation", span.text, (span.start_ns, span.end_ns), {})
    facts = machine.facts
    document = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": gpu_number,
                "name": machine.device_name,
                "totalGlobalMem": facts["totalMemory"],
                "computeMajor": facts["computeMajor"],
                "computeMinor": facts["computeMinor"],
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048,
                "regsPerBlock": 65536,
                "warpSize": 32,
                "sharedMemPerBlock": 49152,
                "numSms": machine.sm_count,
                "regsPerMultiprocessor": 65536,
                "sharedMemPerBlockOptin": 166912,
                "sharedMemPerMultiprocessor": facts["maxShmemPerSm"],
            }
        ],
        "cupti_version": 24,
        "cuda_runtime_version": 12040,
        "cuda_driver_version": 12040,
        "record_shapes": 1,
        "with_flops": 0,
        "profile_memory": 0,
        "with_stack": 0,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "traceName": "synthetic: written by sample_traces/make.py, not by the PyTorch profiler",
        "traceEvents": events,
    }
    if rank:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank.number, "world_size": rank.count}
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
        packed.write(json.dumps(document, separators=(",", ":")).encode())
