"""A program that takes rocprofv3's options, runs what it is told and leaves a kernel trace on boot time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--version"]:
        print("rocprofv3 version 1.0.0-fake")
        return 0
    at = words.index("--")
    options, program = words[:at], words[at + 1 :]
    folder = Path(options[options.index("--output-directory") + 1])
    name = options[options.index("--output-file") + 1]
    kernels = folder / f"{name}.kernels"
    done = subprocess.run(program, env={**os.environ, "FAKE_KERNELS": str(kernels)}, check=False)
    sys.path.insert(0, str(ROOT / "sample_traces"))
    from machine import MI300X
    from mi300x_training import mi300x_training
    from text_files import write_rocprof
    from timeline import Launch, Timeline

    kernel = next(launch.kernel for launch in mi300x_training().launches if launch.kernel.kind == "gemm")
    timeline = Timeline(MI300X, seed=1)
    lines = kernels.read_text("ascii").splitlines() if kernels.exists() else []
    kernels.unlink(missing_ok=True)
    for line in lines:
        start, end = map(int, line.split())
        timeline.launches.append(Launch(kernel, start - 9_000, start - 5_000, start, end))
    if timeline.launches:
        write_rocprof(timeline, folder / f"{name}_kernel_trace.csv", boot_ns=0)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main())
