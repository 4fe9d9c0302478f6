"""Check carried power coefficients on GPUs nothing was fitted on: decoding language models.

usage: python benchmarks/transfer_power.py [DATA_ROOT]      default: ../shared/data

Serving runs state mean power, batch and time between tokens. At small batches the weights' pass through
memory is nearly all the work; its bytes and FLOPs over the measured time between tokens give the power.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.core.work import Work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.dynamic import active_energy_j, core_energy_j, outer_energy_j
from tracetool.model.idle import core_voltage_v, idle_power_w, leakage_w
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import believed_calibration, power_calibration_of, power_promise
from tracetool.model.residency import WEIGHT_WAY
from tracetool.model.thermal import self_heating_w

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
GPUS = {"H100": "h100-sxm", "B200": "b200-sxm"}
#: Beyond this batch, keys and values and the prompts of new requests are no longer small.
SMALL_BATCH = 17.0


def predicted_w(frame: pl.DataFrame, gpu: Gpu, power: PowerCalibration) -> Floats:
    """Return the power of a weights' pass in the measured time. Shape (n,). [W]"""
    seconds = frame["median_itl_ms"].to_numpy() * 1e-3
    weights = frame["total_params_billions"].to_numpy() * 1e9
    work = Work.of(
        frame.height,
        tensor_flops=2.0 * weights * frame["avg_batch_size"].to_numpy(),
        l2_bytes=2.0 * weights,
        dram_bytes=2.0 * weights,
    )
    clock = np.full(frame.height, gpu.clock_boost_mhz)
    square = core_voltage_v(gpu, clock, power) ** 2
    formats = np.full(frame.height, "bf16", dtype=object)
    core = sum(core_energy_j(work, formats, power, WEIGHT_WAY * work.dram_bytes).values())
    active = active_energy_j(np.ones(frame.height), seconds, clock, power, gpu.sm_count)
    outer = sum(outer_energy_j(work, work.dram_bytes, power).values())
    idle = idle_power_w(gpu, clock, power)
    cold = idle + (square * (core + active) + outer) / seconds
    hot = cold + self_heating_w(cold, idle, leakage_w(gpu, clock, power), power.leakage_per_w)
    return np.minimum(hot, power.cap_share * gpu.power_limit_w)


def main() -> None:
    """Print the error on each GPU beside the one stated beforehand."""
    runs = pl.read_parquet(ROOT / "runs/mlenergy.parquet").filter(
        (pl.col("num_gpus") == 1)
        & pl.col("architecture").str.contains("Dense")
        & (pl.col("weight_precision") == "bfloat16")
        & (pl.col("avg_batch_size") < SMALL_BATCH)
        & pl.col("median_itl_ms").is_not_null()
    )
    for label, name in GPUS.items():
        some, gpu = runs.filter(pl.col("gpu_model") == label), load_gpu(name)
        known = {"idle reading alone": believed_calibration(gpu), "as delivered": power_calibration_of(gpu)}
        for what, power in known.items():
            off = predicted_w(some, gpu, power) / some["avg_power_watts"].to_numpy() - 1.0
            inside = np.mean(np.abs(np.log1p(off)) <= Z90 * power.relative_sd)
            print(
                f"{name}, {what}: {some.height} decoding runs, mean error {100 * np.abs(off).mean():.1f} %, "
                f"bias {100 * off.mean():+.1f} %, in the 90 % interval {100 * inside:.0f} %"
            )
            print(f"  stated: {power_promise(power)}")


if __name__ == "__main__":
    main()
