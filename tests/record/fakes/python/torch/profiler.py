"""The profiler's names: ``profile`` writes what ran between its start and end as Kineto would."""

import enum
import os
import sys
import time
from pathlib import Path
from typing import Self

import torch

ROOT = Path(__file__).resolve().parents[5]


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    return set(ProfilerActivity)


class profile:  # noqa: N801 - PyTorch's name
    def __init__(self, activities: list[ProfilerActivity], record_shapes: bool, **options: bool) -> None:
        assert activities == [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        assert record_shapes
        Path(os.environ.get("FAKE_TORCH_OPTIONS", os.devnull)).write_text(repr(sorted(options)), "utf-8")

    def __enter__(self) -> Self:
        self.start_ns = time.time_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_ns = time.time_ns()

    def export_chrome_trace(self, path: str) -> None:
        if os.environ.get("FAKE_TORCH_FULL"):
            raise OSError(28, "No space left on device", path)
        sys.path.insert(0, str(ROOT / "sample_traces"))
        from kernels import gemm
        from kineto_file import write_kineto
        from machine import A100
        from timeline import Launch, Timeline

        kernel = gemm("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn", 4096, 4096, 4096, (128, 128, 32), 3)
        timeline = Timeline(A100, seed=1)
        for start, end in torch.SPANS:
            at, until = start - self.start_ns, end - self.start_ns
            timeline.launches.append(Launch(kernel, at - 9_000, at - 5_000, at, until))
            timeline._device_ns = until
        write_kineto(timeline, Path(path), utc_ns=self.start_ns)
