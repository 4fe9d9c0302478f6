"""Write the sample traces, their power logs and the truth behind them. Same seed, same files.

Run from anywhere: ``python sample_traces/make.py [FOLDER]`` (default: this folder).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from a100_generation import a100_generation
from h100_training import h100_training
from kineto_file import write_kineto
from mi300x_training import mi300x_training
from nsys_file import write_nsys
from sensor import Sensor, read
from text_files import write_nvidia_smi, write_rocprof
from timeline import Timeline

START_NS = 1_767_607_205_250_000_000  # 2026-01-05 10:00:05.25 UTC: the first host call of each job
ZONE_H = -5  # the machines' local time, which nvidia-smi writes
LEAD_S, TAIL_S = 1.5, 2.5  # logged before and after the job
SESSION_LEAD_NS = 400_000_000  # the profiler's session starts this long before the job


def truth(timeline: Timeline, sensor: Sensor | None) -> dict[str, Any]:
    """Return what really happened: energy per kernel name and in the gaps, as the meter at the GPU would."""
    machine = timeline.machine
    kernels: dict[str, dict[str, Any]] = {}
    busy_ns = 0
    for launch in timeline.launches:
        kind = launch.kernel.kind
        row = kernels.setdefault(
            launch.kernel.name,
            {"kind": kind, "launches": 0, "duration_s": 0.0, "power_w": machine.power_w[kind]},
        )
        row["launches"] += 1
        row["duration_s"] += (launch.end_ns - launch.start_ns) / 1e9
        busy_ns += launch.end_ns - launch.start_ns
    for row in kernels.values():
        row["energy_j"] = round(row["duration_s"] * row["power_w"], 6)
        row["duration_s"] = round(row["duration_s"], 9)
    first, last = timeline.launches[0].start_ns, timeline.end_ns
    gap_s = (last - first - busy_ns) / 1e9
    return {
        "device_name": machine.device_name,
        "launches": len(timeline.launches),
        "makespan_s": (last - first) / 1e9,
        "gap_s": round(gap_s, 9),
        "gap_w": machine.gap_w,
        "gap_energy_j": round(gap_s * machine.gap_w, 6),
        "idle_w": machine.idle_w,
        "hold_s": machine.hold_s,
        "kernel_energy_j": round(sum(r["energy_j"] for r in kernels.values()), 6),
        "clock_mhz": machine.clock_mhz,
        "sensor": asdict(sensor) if sensor else None,
        "kernels": kernels,
    }


def make(folder: Path) -> None:
    """Write every sample file into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    training, generation, forward = h100_training(), a100_generation(), mi300x_training()
    hopper = Sensor()
    ampere = Sensor(average_window_s=None, gain=0.954, offset_w=-1.2, phase_s=0.061, clock_offset_s=0.006)
    write_nsys(
        training,
        folder / "h100_training.sqlite",
        utc_ns=START_NS - SESSION_LEAD_NS,
        lead_ns=SESSION_LEAD_NS,
        zone_h=ZONE_H,
    )
    write_kineto(generation, folder / "a100_generation.pt.trace.json.gz", utc_ns=START_NS)
    write_rocprof(forward, folder / "mi300x_kernel_trace.csv", boot_ns=1_071_420_107_592_003)
    for timeline, sensor, name, seed in (
        (training, hopper, "h100_training_power.csv", 31),
        (generation, ampere, "a100_generation_power.csv", 32),
    ):
        readings = read(timeline, sensor, lead_s=LEAD_S, tail_s=TAIL_S, seed=seed)
        write_nvidia_smi(readings, timeline, folder / name, utc_ns=START_NS, zone_h=ZONE_H)
    known = {
        "h100_training.sqlite": truth(training, hopper),
        "a100_generation.pt.trace.json.gz": truth(generation, ampere),
        "mi300x_kernel_trace.csv": truth(forward, None),
    }
    (folder / "truth.json").write_text(json.dumps(known, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent, help="where they go")
    make(parser.parse_args().folder)
