"""Speed of the model beside a plain roofline in numpy on the same rows, in one go.

    python benchmarks/predict.py [--signatures 1000000] [--launches 10000000] [--gpu h100-sxm]

Two jobs: distinct operators at 10 clocks, and a run of many launches of 5000 signatures at 100 clocks.
Times are wall and processor seconds of this process; the ratio is of processor seconds, the steadier ones on
a machine that is busy; of two goes the quicker, as a virtual machine pays for memory that it touches for the
first time. The peer counts FLOPs and bytes of each row once and takes the longer of two times at
each clock: no tiles, no units, no energy. What it cannot say costs the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, element_bytes, product_rate
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.timing import time_rows

FAMILIES = ("gemm", "attention", "elementwise", "norm", "moe")
SHARES = (0.4, 0.15, 0.25, 0.15, 0.05)
SIGNATURES, RUN_CLOCKS, TABLE_CLOCKS = 5000, 100, 10


def operators(count: int) -> OperatorColumns:
    """Draw operators of a model's kinds, sizes even on a logarithmic scale."""
    rng = np.random.default_rng(0)

    def sizes(low: float, high: float) -> Floats:
        return np.round(2.0 ** rng.uniform(np.log2(low), np.log2(high), count))

    family = np.array(FAMILIES, dtype=object)[rng.choice(len(FAMILIES), count, p=SHARES)]
    phase = np.array(["prefill", "decode"], dtype=object)[rng.integers(0, 2, count)]
    heads, experts = 2.0 ** rng.integers(3, 7, count), 2.0 ** rng.integers(3, 9, count)
    columns: dict[str, Any] = {
        "dtype": np.array(["bf16", "fp16", "fp8"], dtype=object)[rng.integers(0, 3, count)],
        "m": sizes(1, 8192), "n": sizes(64, 16384), "k": sizes(64, 16384),
        "batch": np.where(family == "attention", sizes(1, 64), 1.0),
        "q_len": np.where(phase == "decode", 1.0, sizes(16, 8192)), "kv_len": sizes(16, 16384),
        "heads": heads, "kv_heads": heads / 2.0 ** rng.integers(0, 4, count),
        "head_dim": 64.0 * rng.integers(1, 3, count), "causal": np.ones(count), "phase": phase,
        "elements": sizes(1e3, 1e8), "reads": np.full(count, 2.0), "writes": np.ones(count),
        "rows": sizes(1, 8192), "cols": sizes(64, 16384), "tokens": sizes(1, 8192),
        "hidden": sizes(512, 8192), "intermediate": sizes(256, 8192), "experts": experts,
        "top_k": np.minimum(experts, 8.0), "shape_source": np.full(count, "operator", dtype=object),
    }  # fmt: skip
    return OperatorColumns(family, columns)


def roofline(rows: OperatorColumns, gpu: Gpu, clocks: Floats) -> Floats:
    """Return the longer of compute and memory time. Shape (n, c). [s]"""
    words, c = dtype_of(rows), rows.columns
    size, rate = element_bytes(words), product_rate(words, gpu) * gpu.sm_count
    flops, moved = c["elements"] * 1.0, c["elements"] * 3.0 * size
    for family, of_it, bytes_of_it in (
        ("gemm", 2 * c["m"] * c["n"] * c["k"], c["m"] * c["k"] + c["k"] * c["n"] + c["m"] * c["n"]),
        (
            "attention",
            4 * c["batch"] * c["heads"] * c["q_len"] * c["kv_len"] * c["head_dim"],
            2 * c["batch"] * c["head_dim"] * (c["heads"] * c["q_len"] + c["kv_heads"] * c["kv_len"]),
        ),
        ("norm", 8 * c["rows"] * c["cols"], 2 * c["rows"] * c["cols"]),
        (
            "moe",
            6 * c["tokens"] * c["top_k"] * c["hidden"] * c["intermediate"],
            3 * np.minimum(c["experts"], c["tokens"] * c["top_k"]) * c["hidden"] * c["intermediate"],
        ),
    ):
        here = rows.family == family
        flops, moved = np.where(here, of_it, flops), np.where(here, bytes_of_it * size, moved)
    return np.maximum((flops / rate)[:, None] / (clocks * 1e6), (moved / gpu.dram_bytes_per_s)[:, None])


def launches_of(count: int) -> tuple[Ints, Floats]:
    """Draw a run's launches: the signature of each, few of them often, and its duration. [us]"""
    rng = np.random.default_rng(1)
    signature = (SIGNATURES * rng.random(count) ** 2).astype(np.int64)
    return signature, rng.lognormal(3.0, 1.0, SIGNATURES)[signature]


def run_at_clocks(
    rows: OperatorColumns, gpu: Gpu, clocks: Floats, signature: Ints, duration_us: Floats
) -> Floats:
    """Return time and energy of the run's kernels at each clock, scaled from what was measured. (2, c)"""
    count = np.bincount(signature, minlength=len(rows))
    mean = np.bincount(signature, duration_us, len(rows)) / np.maximum(count, 1)
    known = {"duration_us": mean, "recorded_clock_mhz": np.full(len(rows), gpu.clock_boost_mhz)}
    measured = OperatorColumns(rows.family, {**rows.columns, **known})
    found = predict_rows(measured, gpu, clocks, anchor=True)
    return np.stack([count @ found.timing.duration_s, count @ found.energy_j])


def run_by_roofline(
    rows: OperatorColumns, gpu: Gpu, clocks: Floats, signature: Ints, duration_us: Floats
) -> Floats:
    """Return the time of the run's kernels at each clock by the roofline's ratio."""
    total = np.bincount(signature, duration_us, len(rows)) * 1e-6
    base = roofline(rows, gpu, np.array([gpu.clock_boost_mhz]))
    return np.asarray(total @ (roofline(rows, gpu, clocks) / base))


def cost(job: Callable[[], Any]) -> tuple[float, float]:
    """Return wall and processor time of the quicker of two goes. [s]"""
    goes = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        job()
        goes.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(goes)


def said(label: str, mine: tuple[float, float], peer: tuple[float, float], limit_s: float | None) -> None:
    target = "" if limit_s is None else f"   target {limit_s:g} s"
    print(
        f"{label:58s} wall {mine[0]:6.2f} s  cpu {mine[1]:6.2f} s   roofline {peer[1]:6.2f} s  "
        f"ratio {mine[1] / peer[1]:5.1f}{target}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--signatures", type=int, default=1_000_000)
    parser.add_argument("--launches", type=int, default=10_000_000)
    parser.add_argument("--gpu", default="h100-sxm")
    asked = parser.parse_args()
    gpu = load_gpu(asked.gpu)
    clocks = np.linspace(0.4, 1.0, TABLE_CLOCKS) * gpu.clock_boost_mhz
    predict_rows(operators(50), gpu, clocks)  # the calibrations are read once a process

    rows = operators(asked.signatures)
    size = f"{asked.signatures:,} operators x {TABLE_CLOCKS} clocks"
    peer = cost(lambda: roofline(rows, gpu, clocks))
    said(f"{size}: time, units", cost(lambda: time_rows(rows, gpu, clocks)), peer, 10.0)
    said(f"{size}: and power, capped", cost(lambda: predict_rows(rows, gpu, clocks)), peer, 8.0)

    some = rows.take(np.arange(min(SIGNATURES, len(rows))))
    wide = np.linspace(0.4, 1.0, RUN_CLOCKS) * gpu.clock_boost_mhz
    signature, duration_us = launches_of(asked.launches)
    signature %= len(some)
    size = f"{asked.launches:,} launches, {len(some)} signatures x {RUN_CLOCKS} clocks"
    peer = cost(lambda: run_by_roofline(some, gpu, wide, signature, duration_us))
    said(size, cost(lambda: run_at_clocks(some, gpu, wide, signature, duration_us)), peer, 5.0)


if __name__ == "__main__":
    main()
