"""Loops of the reference recorder as sleeps of a busy fake GPU: the files of the real one."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

from job import busy

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("gemm_bf16_2048x2048x2048", "add_fp32_4194304", "softmax_bf16_16384x4096")


def main() -> int:
    sys.path += [str(ROOT / "benchmarks" / "reference"), str(Path(__file__).with_name("python"))]
    import torch
    from plan import LOOPS
    from torch.profiler import ProfilerActivity, profile

    out = Path(sys.argv[sys.argv.index("--out") + 1])
    loops = [loop for loop in LOOPS if loop["name"] in NAMES]
    with (out / "activity.csv").open("w", newline="", encoding="ascii") as f:
        marks = csv.writer(f)
        marks.writerow(["name", "start_us", "end_us", "times"])
        for number, loop in enumerate(loops):
            start = time.time_ns()
            busy(0.5)
            marks.writerow([loop["name"], start // 1000, time.time_ns() // 1000, 100])
            torch.SPANS.clear()
            with profile(list(ProfilerActivity), record_shapes=True) as profiler:
                torch.work(0.01)
            profiler.export_chrome_trace(str(out / f"shapes-{number:02d}.json.gz"))
            time.sleep(0.4)
    told = {"loops": loops, "left_out": {"gemm_fp8_8192x8192x8192": "no fp8 here"}, "torch": "0-fake"}
    (out / "loops.json").write_text(json.dumps(told), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
