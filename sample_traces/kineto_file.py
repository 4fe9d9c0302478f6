"""Write a timeline as a PyTorch-profiler (Kineto) trace, gzipped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from timeline import Timeline

PID = 51_204


def write_kineto(timeline: Timeline, path: Path, *, utc_ns: int) -> None:
    """Write the trace; the job starts at ``utc_ns`` (UTC). Times are µs after ``baseTimeNanoseconds``."""
    machine = timeline.machine
    base = utc_ns - utc_ns % 10**9 - 3 * 10**9
    shift = utc_ns - base
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
    ]

    def complete(
        cat: str, name: str, span: tuple[int, int], args: dict[str, Any], *, gpu: bool = False
    ) -> None:
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 0 if gpu else PID,
                "tid": 7 if gpu else PID,
                "ts": round((span[0] + shift) / 1e3, 3),
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
                "device": 0,
                "context": 1,
                "stream": 7,
                "correlation": number,
                "registers per thread": k.registers,
                "shared memory": k.shared_static + k.shared_dynamic,
                "grid": list(k.grid),
                "block": list(k.block),
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
                "id": 0,
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
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed:
        packed.write(json.dumps(document, separators=(",", ":")).encode())
