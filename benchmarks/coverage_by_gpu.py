"""How often 90 % intervals of windows hold, over many GPUs, and with each GPU's gain known.

Sensors of seven GPUs, gain and offset drawn for every GPU as its class states them, look at the power a
physical meter saw under two loads. A gain is common to all windows of a GPU, so a GPU holds nearly all or
nearly none; over GPUs they must hold 90 %. With gain and offset known the rest of the interval is
on trial. Then the real logs: gain and offset from the first half of the meter's log, windows of the second.

    python benchmarks/coverage_by_gpu.py ../shared/data [GPUS PER SENSOR AND LOAD]
"""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracetool.hardware.load import load_gpu
from tracetool.measure.meter_calibration import gain_against
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog, power_logs
from tracetool.measure.sensors import calibrated, candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.measure.windows import window_energy
from tracetool.sources.telemetry.logs import read_telemetry

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.sensor_logs import GPUS, NOTHING, Metered, metered, on_the_hosts_clock

SENSORS = (
    ("rtx-4090", "power.draw.instant"), ("rtx-a5000", "power.draw.instant"), ("a100-pcie-40gb", "power.draw"),
    ("rtx-3090", "power.draw.instant"), ("h100-sxm", "power.draw.instant"), ("v100-sxm2-16gb", "power.draw"),
    ("tesla-k40m", "power.draw"),
)  # fmt: skip
LOADS = ("5050_3090", "transient_response_3090")
_STEP_S = 1e-3


def _shown(made: Metered, sensor, at, random):
    """True power as a sensor of this kind, its window 1 % off, would hold it."""
    if sensor.kind == "boxcar":
        window = sensor.window_s * (1 + 0.01 * random.standard_normal())
        back = np.maximum(at - window, made.time_s[0])
        return made.energy(back, at) / (at - back)
    grid = np.arange(made.time_s[0], made.time_s[-1], _STEP_S)
    power = np.interp(grid, made.time_s, made.power_w)
    held = np.empty(len(power))
    now, rate = power[0], 1.0 - np.exp(-_STEP_S / sensor.lag_s)
    for i, watts in enumerate(power):
        now += rate * (watts - now)
        held[i] = now
    return np.interp(at, grid, held)


def _invented_gpu(made: Metered, gpu: str, field: str, seed: int):
    """Share of windows held by length, gain unknown and known, of one simulated GPU."""
    random = np.random.default_rng(seed)
    sensors = candidate_sensors(load_gpu(gpu, part="sensor"), field, None)
    sensor = sensors[0]
    gain = sensor.gain + sensor.gain_sd * random.standard_normal()
    offset = sensor.offset_w + sensor.offset_sd_w * random.standard_normal()
    update = np.arange(0.2 + random.uniform(0.0, sensor.update_s), made.time_s[-1], 0.9997 * sensor.update_s)
    shown = gain * _shown(made, sensor, update, random) + offset + random.normal(0, 0.1, len(update))
    polls = np.arange(update[0] + 0.001, made.time_s[-1] - 0.01, 0.007)
    power = np.round(shown[np.searchsorted(update, polls, side="right") - 1], 2)
    work = build_timeline(made.on_s[:, 0], made.on_s[:, 1], np.zeros(len(made.on_s), np.int64), 1, 3e-4)
    seen = observe(PowerLog(field, polls - 0.003, power, NOTHING, NOTHING), work, sensors)
    known = replace(seen.sensor, gain=gain, gain_sd=1e-4, offset_w=offset, offset_sd_w=0.05)
    truth = made.energy(made.start_s, made.end_s)
    both = []
    for one in (seen, replace(seen, sensor=known)):
        found = window_energy(one, made.start_s, made.end_s)
        both.append((found.low_j <= truth) & (truth <= found.high_j))
    return both


def invented(root: Path, gpus_a_sensor: int) -> None:
    held = defaultdict(list)
    each = []
    for load in LOADS:
        steady = on_the_hosts_clock(metered(root / load, 0))
        for gpu, field in SENSORS:
            for i in range(gpus_a_sensor):
                seed = i + zlib.crc32(f"{gpu}{load}".encode()) % 100_000
                made = metered(root / load, seed)
                made = replace(made, time_s=steady.time_s, power_w=steady.power_w)
                unknown, known = _invented_gpu(made, gpu, field, seed)
                length = np.round(made.end_s - made.start_s, 3)
                each.append((unknown.mean(), known.mean()))
                for span in np.unique(length):
                    held[span].append((unknown[length == span].mean(), known[length == span].mean()))
    share = np.array(each)
    unknown, known = share.mean(axis=0)
    print(
        f"{len(each)} GPUs: 90 % intervals hold {unknown:.0%} of windows,"
        f" {known:.0%} with gain and offset known"
    )
    for span, rows in sorted(held.items()):
        unknown, known = np.mean(rows, axis=0)
        print(f"  {span * 1e3:5.0f} ms windows: {unknown:.0%}, {known:.0%}")
    share_by_gpu = share[:, 0]
    between = ((share_by_gpu >= 0.85) & (share_by_gpu <= 0.95)).mean()
    print(
        f"  by GPU, gain unknown: over 95 % of windows on {(share_by_gpu > 0.95).mean():.0%} of GPUs,"
        f" under half on {(share_by_gpu < 0.5).mean():.0%}, 85 to 95 % on {between:.0%}"
    )


def real(folder: Path) -> None:
    made = metered(folder, 0)
    middle = 0.5 * (made.on_s[0, 0] + made.on_s[-1, 1])
    log = power_logs(read_telemetry(folder / "nvidia_smi.csv", "+01:00"), 0, made.origin_us * 1000)[0]
    sensors = candidate_sensors(load_gpu(GPUS[folder.name.rsplit("_", 1)[1]], part="sensor"), log.field)
    half = made.time_s < middle
    told = gain_against(log, sensors[0], made.time_s[half], made.power_w[half])
    known = {k: getattr(told, k) for k in ("gain", "gain_sd", "offset_w", "offset_sd_w", "pivot_w")}
    work = build_timeline(made.on_s[:, 0], made.on_s[:, 1], np.zeros(len(made.on_s), np.int64), 1, 3e-4)
    seen = observe(log, work, [calibrated(s, known) for s in sensors])
    random, rows = np.random.default_rng(1), []
    for span in (0.05, 0.1, 0.3, 1.0):
        start = random.uniform(middle, made.time_s[-1] - span - 0.3, 80)
        found, truth = window_energy(seen, start, start + span), made.energy(start, start + span)
        width = (found.high_j - found.low_j) / 2 / found.energy_j
        rows.append([((found.low_j <= truth) & (truth <= found.high_j)).mean(), width.mean()])
    shown = ", ".join(f"{h:.0%} (+-{w:.1%})" for h, w in rows)
    print(f"  {folder.name}: gain {told.gain:.3f} +- {told.gain_sd:.3f}, 50/100/300/1000 ms windows: {shown}")


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data") / "sensor"
    invented(place, int(sys.argv[2]) if len(sys.argv) > 2 else 16)
    print("real logs, gain from the first half of the meter's log, windows of the second held:")
    for one in sorted(p for p in place.iterdir() if p.is_dir()):
        real(one)
