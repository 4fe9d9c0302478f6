"""How long full power lasts before a power cap slows an H100 PCIe, and the governor's time constant from it.

    python benchmarks/cap_transient.py ../shared/data

Reads the times of loops of 1 to 8184 equal products, each loop begun from idle, under a cap of 350 W;
prints the time constant that ``hardware/gpus/h100-pcie.toml`` states, each loop's time by the replay's
governor against the measured one, and what a replay of a million kernels costs.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import numpy as np

from tracetool.hardware.load import load_gpu
from tracetool.replay.governed_replay import held_at
from tracetool.replay.governor import Governor
from tracetool.replay.overlap import Rates

LOG = "telemetry/cuda_test__power_data_h100_350w_pcie_trace_fp16_half_random.trace"
#: Of the GPU that ran the loops: its cap, its power awake with nothing running, and the highest it read
#: in 25 ms, running another product.
CAP_W, AWAKE_W, FULL_W = 350.0, 83.0, 462.0


def loops(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return launches and time of each loop. [ms]"""
    found = re.findall(r"1, (\d+), ms=([\d.]+)\)", (data / LOG).read_text())
    count, took = np.array(found, dtype=np.float64).T
    return count, took


def main() -> None:
    """Print the time constant and the check."""
    count, took = loops(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data"))
    short, settled = (count > 1) & (count <= 24), count > 400
    free_ms = float(np.median(took[short] / count[short]))
    held_ms = float(np.polyfit(count[settled], took[settled], 1)[0])
    some = (count >= 64) & (count < 400)
    lasted = (count[some] * held_ms - took[some]) / (held_ms / free_ms - 1.0)
    before = float(np.median(lasted))
    shape = np.log((FULL_W - AWAKE_W) / (FULL_W - CAP_W))
    print(f"a launch takes {free_ms:.3f} ms at first, {held_ms:.3f} ms in long loops")
    print(
        f"full power lasts {before:.0f} ms (sd of one loop {lasted.std():.0f}), "
        f"time constant {before / shape:.0f} ms"
    )
    governor = Governor.of(load_gpu("h100-pcie"))
    print(
        f"the sheet: {governor.time_constant_s * 1e3:g} ms "
        f"({governor.low_s * 1e3:g} to {governor.high_s * 1e3:g})"
    )
    print("launches  measured ms  governor  error %  one clock  error %")
    for n in (8, 24, 32, 64, 128, 256, 512, 1024, 4096, 8184):
        measured = float(took[count == n][0])
        steady = n * held_ms
        modeled = governed_ms(n, free_ms, held_ms, governor)
        print(
            f"{n:8d} {measured:12.1f} {modeled:9.1f} {100 * (modeled / measured - 1):8.1f}"
            f" {steady:10.1f} {100 * (steady / measured - 1):8.1f}"
        )
    began = time.perf_counter()
    governed_ms(1_000_000, free_ms, held_ms, governor)
    print(f"a million kernels: {time.perf_counter() - began:.1f} s")


def governed_ms(n: int, free_ms: float, held_ms: float, governor: Governor) -> float:
    """Return the time of a loop that begins behind a long idle time. [ms]"""
    # Idle as long as the loop and ten time constants: the mean before the loop is far under the cap.
    lead = 10.0 * n * free_ms + 1e4 * governor.time_constant_s
    start = np.concatenate([[0.0], lead + np.arange(n) * free_ms]) * 1e6
    end = start + np.concatenate([[1e-3], np.full(n, free_ms)]) * 1e6
    watts = np.array([FULL_W, CAP_W]) - AWAKE_W
    nothing, one = np.zeros(1), np.ones(1)
    free, capped = (Rates(one, AWAKE_W * one, nothing, nothing, one * w) for w in watts)
    held = held_at(
        np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), start, end, free=free, capped=capped,
        longer=np.array([held_ms / free_ms]), idle_w=AWAKE_W, limit_w=CAP_W, governor=governor,
    )  # fmt: skip
    if held is None:
        return n * held_ms
    return float(held.stretch(np.zeros(n + 1, np.int64))[1:].sum() * free_ms)


if __name__ == "__main__":
    main()
