"""Energy by module, range, step and rank against invented jobs whose joules are known.

Jobs and logs are those of ``tests/replay/grouped_jobs.py``, which import nothing of the tool: a training job
on two GPUs, each with a sensor of its own whose gain and offset are drawn as its class states. Every job is
written as a profiler and ``nvidia-smi`` would, ingested and attributed. Printed per sensor and key, over
groups whose energy the log identifies: the error once gain and offset are undone, and how often 90 %
intervals hold, as the log stands and where a meter told gain and offset.

    python benchmarks/grouped_energy.py [SEEDS] [FIRST]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

import tracetool as tt
from tracetool.hardware.load import load_gpu
from tracetool.measure.attribute import Attribution, attribute_run
from tracetool.measure.attribution import attribute_classes
from tracetool.measure.sensors import candidate_sensors
from tracetool.replay.energy_by import energy_by
from tracetool.replay.set_energy import RunEnergies

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.replay.grouped_jobs import GroupedJob, MeteredGpu, grouped_job

#: Sensor: GPU, what its logs call it, period of steps where they are in step with the sensor. [ms]
SENSORS = {
    "25 ms of 100 (A100)": ("a100-sxm", MeteredGpu("NVIDIA A100-SXM4-80GB", "power.draw", 1, 400.0), None),
    "the same, steps in beat": (
        "a100-sxm", MeteredGpu("NVIDIA A100-SXM4-80GB", "power.draw", 1, 400.0), 300.0,
    ),
    "100 ms of 100 (RTX 3090)": (
        "rtx-3090", MeteredGpu("NVIDIA GeForce RTX 3090", "power.draw.instant", 2, 350.0), None,
    ),
    "1 s every 100 (H100)": (
        "h100-sxm", MeteredGpu("NVIDIA H100 80GB HBM3", "power.draw.average", 3, 700.0), None,
    ),
    "10 ms of 20 (V100)": (
        "v100-sxm2-16gb", MeteredGpu("Tesla V100-SXM2-16GB", "power.draw", 4, 300.0), None,
    ),
}  # fmt: skip
KEYS = ("module", "range", "iteration", "gpu")


Row = tuple[float, float, float, float, bool]  # truth, energy, both ends [J], identified


def trial(
    seed: int, gpu: str, metered: MeteredGpu, period_ms: float | None, *, seconds: float = 20.0
) -> dict[str, dict[str, list[Row]]]:
    """Return what is attributed to a job, as its log stands and with gain and offset known."""
    sensor = candidate_sensors(load_gpu(gpu, part="sensor"), metered.field)[0]
    window_s = sensor.window_s if sensor.window_s < 0.5 else None  # of a second: its class's
    job = grouped_job(
        seed,
        metered,
        period_ms=period_ms,
        seconds=seconds,
        gain=(sensor.gain, sensor.gain_sd),
        offset_w=(sensor.offset_w, sensor.offset_sd_w),
        window_s=window_s,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "t.json").write_text(json.dumps(job.document))
        (folder / "power.csv").write_text(job.log)
        run = tt.ingest(
            folder / "t.json", folder / "power.csv", tz="+00:00", gpu=gpu, out=folder / "run.tracetool"
        )
        as_is = attribute_run(run, gpu=gpu)
        known = {}
        for rank, seen in as_is.observations.items():
            own = {
                "gain": job.gain[rank],
                "offset_w": job.offset_w[rank],
                "gain_sd": 1e-3,
                "offset_sd_w": 0.05,
            }
            known[rank] = attribute_classes(replace(seen, sensor=replace(seen.sensor, **own)))
        on_a_meter = replace(as_is, classes=known)
        return {
            how: {key: rows_of(job, run, measured, key) for key in KEYS}
            for how, measured in (("as is", as_is), ("on a meter", on_a_meter))
        }


def rows_of(job: GroupedJob, run: tt.Run, measured: Attribution, key: str) -> list[Row]:
    """Return truth and figures of each group of a key."""
    frame = energy_by(run, [key], energies=RunEnergies(run, measured, None)).frame[:-1]
    truth = job.energy_j[key]
    assert set(frame["name"]) == set(truth), (key, sorted(set(frame["name"]) ^ set(truth))[:9])
    columns = ("energy_j", "energy_low_j", "energy_high_j", "identified")
    return [(truth[r["name"]], *(r[c] for c in columns)) for r in frame.iter_rows(named=True)]


def main(seeds: int, first: int) -> None:
    """Print the table."""
    print(
        f"{'sensor':26s} {'by':10s} groups identified   error: mean  95 %  worst    hold: as is   on a meter"
    )
    for title, (gpu, metered, period_ms) in SENSORS.items():
        found = {how: defaultdict(list) for how in ("as is", "on a meter")}
        for seed in range(first, first + seeds):
            for how, by_key in trial(seed, gpu, metered, period_ms).items():
                for key, rows in by_key.items():
                    found[how][key] += rows
        for key in KEYS:
            cells = []
            for how in ("as is", "on a meter"):
                rows = [r for r in found[how][key] if r[4]]
                cells.append(np.mean([lo <= t <= hi for t, _, lo, hi, *_ in rows]) if rows else np.nan)
            rows = found["on a meter"][key]
            known = [r for r in rows if r[4]]
            off = np.array([abs(e / t - 1) for t, e, *_ in known]) if known else np.full(1, np.nan)
            print(
                f"{title:26s} {key:10s} {len(rows):6d} {len(known) / max(len(rows), 1):9.0%}"
                f"      {off.mean():8.2%} {np.quantile(off, 0.95):6.2%} {off.max():6.2%}"
                f"      {cells[0]:8.0%} {cells[1]:12.0%}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
