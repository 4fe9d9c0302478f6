"""A program that takes nsys's options, runs a program and leaves a report; ``export`` makes the database.

Its truth about the kernels is what the program itself wrote down.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MAGIC, END = b"NVIDIA Tegra Profiler Report fake\n", b"[END]"


def profile(words: list[str]) -> int:
    target, options = Path("report1"), []
    while words and words[0].startswith("-"):
        options.append(words.pop(0))
        if options[-1].startswith("--output="):
            target = Path(options[-1].removeprefix("--output="))
    if os.environ.get("FAKE_NSYS_REFUSES"):
        print("Illegal --trace argument: sentinel", file=sys.stderr)
        return 1
    kernels = target.with_name(target.name + ".kernels")
    session = {"boot_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME), "utc_ns": time.time_ns()}
    child = subprocess.Popen(words, env={**os.environ, "FAKE_KERNELS": str(kernels)})
    for number in (signal.SIGINT, signal.SIGTERM):  # as nsys: the program is ended, the report is written
        signal.signal(number, lambda *_: child.terminate())
    code = child.wait()
    spans = (
        [list(map(int, line.split())) for line in kernels.read_text("ascii").splitlines()]
        if kernels.exists()
        else []
    )
    kernels.unlink(missing_ok=True)
    body = json.dumps({**session, "spans": spans, "options": options}).encode()
    if os.environ.get("FAKE_NSYS_NO_IMPORTER"):
        Path(f"{target}.qdstrm").write_bytes(body)
        print(
            "Importer error status: The importer binary and its dependencies were not found.", file=sys.stderr
        )
        return code if code >= 0 else 128 - code
    Path(f"{target}.nsys-rep").write_bytes(MAGIC + body + b"\n" + END)
    print(f"Generated:\n    {target}.nsys-rep")
    return code if code >= 0 else 128 - code


def export(words: list[str]) -> int:
    sys.path.insert(0, str(ROOT / "sample_traces"))
    from kernels import gemm
    from machine import H100
    from nsys_file import write_nsys
    from timeline import Launch, Timeline

    target, report = Path(words[words.index("-o") + 1]), Path(words[-1])
    facts = json.loads(report.read_bytes()[len(MAGIC) : -len(END)])
    tile = "128x256_64x4_1x2_h_bz_coopA_TNT"
    kernel = gemm(f"nvjet_tst_{tile}", 8192, 8192, 8192, (128, 256, 64), 4, persistent=132, threads=384)
    timeline = Timeline(H100, seed=1)
    for start, end in facts["spans"]:
        at, until = start - facts["boot_ns"], end - facts["boot_ns"]
        timeline.launches.append(Launch(kernel, at - 9_000, at - 5_000, at, until))
        timeline._device_ns = until
    write_nsys(timeline, target, utc_ns=facts["utc_ns"], lead_ns=0, zone_h=0)
    return 0


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["profile"]:
        return profile(words[1:])
    if words[:1] == ["export"]:
        return export(words[1:])
    print("NVIDIA Nsight Systems version 2024.1.1.0-fake")
    return 0


if __name__ == "__main__":
    sys.exit(main())
