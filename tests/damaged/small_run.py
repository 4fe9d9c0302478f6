"""A run of a second with all a run may hold: operators, ranges, copies, a power log."""

# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path

from tracetool.api.ingest import ingest

_UTC_US = 1_767_589_200_000_000  # 2026-01-05 05:00:00
_NAMES = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
    "void at::native::reduce_kernel<512, 1, float>(float)",
)


def write_trace(
    path: Path,
    names: tuple[str, ...] = _NAMES,
    range_name: str = "step {}",
    device_name: str = "NVIDIA A100-SXM4-80GB",
    operator: str = "aten::mm",
) -> Path:
    """Write a profiler file of kernels of 10 to 60 ms, one operator and one call for each, ten to a range."""
    events: list[dict[str, object]] = []
    at = float(_UTC_US + 200_000)
    for i in range(30):
        name, length = names[i % len(names)], 10_000.0 + 25_000.0 * (i % 3)
        who = {"pid": 7, "tid": 7}
        if i % 10 == 0:
            events.append({"ph": "X", "cat": "user_annotation", "name": range_name.format(i // 10), **who,
                           "ts": at - 900, "dur": 200_000.0})  # fmt: skip
        shapes = {
            "External id": i + 1,
            "Input Dims": [[4096, 4096], [4096, 4096]],
            "Input type": ["c10::BFloat16"] * 2,
        }
        events += [
            {"ph": "X", "cat": "cpu_op", "name": operator if i % 3 == 1 else "aten::fill_", **who, "ts": at - 300,
             "dur": 250.0, "args": shapes},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **who, "ts": at - 200, "dur": 5.0,
             "args": {"correlation": i + 1, "External id": i + 1}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at, "dur": length,
             "args": {"device": 0, "stream": 7, "correlation": i + 1, "External id": i + 1, "grid": [1024, 1, 1],
                      "block": [256, 1, 1], "registers per thread": 64, "shared memory": 1024}},
        ]  # fmt: skip
        at += length + 5_000.0
    events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": at,
                   "dur": 900.0, "args": {"device": 0, "stream": 7, "correlation": 900, "bytes": 1 << 24}})  # fmt: skip
    gpu = {
        "id": 0,
        "name": device_name,
        "numSms": 108,
        "computeMajor": 8,
        "computeMinor": 0,
        "totalGlobalMem": 80 << 30,
    }
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [gpu], "traceEvents": events}))
    return path


def write_log(path: Path) -> Path:
    """Write a power log of ten readings a second beside it."""
    lines = ["timestamp, index, uuid, power.draw.instant [W], clocks.current.sm [MHz], temperature.gpu"]
    for i in range(16):
        micro = i * 100_000
        stamp = f"2026/01/05 05:00:{micro // 1_000_000:02d}.{micro // 1000 % 1000:03d}"
        lines.append(f"{stamp}, 0, GPU-aaaa, {120 + 40 * (i % 7)}.00 W, 1410 MHz, 50")
    path.write_text("\n".join(lines) + "\n")
    return path


def small_run(folder: Path) -> Path:
    """Ingest both and return the run."""
    trace, log = write_trace(folder / "trace.json"), write_log(folder / "power.csv")
    return ingest([trace], [log], tz="+00:00", out=folder / "small.tracetool").path
