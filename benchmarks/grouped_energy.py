"""Energy by module, range, step and rank against simulated jobs whose joules are known.

Jobs and logs are those of ``tests/replay/grouped_jobs.py``, which import nothing of the tool: a training job
on two GPUs, each with a sensor of its own whose gain and offset are drawn as its class states. Every job is
written as a profiler would, ingested and attributed; twenty seeds share a trace, each with powers and sensors
of its own: of the first the log goes through its file too, which must make no difference. Printed per sensor
and key: groups, the share that the log identifies and their error once a meter told gain and offset; how
often 90 % intervals of all groups hold, as the log stands and with that meter; sets of groups that the log
does not separate, and how often their joint intervals hold. That groups sum to the run and every launch is
in one is checked. As the log stands, one error of gain and offset is common to all figures of a GPU: a seed
is two draws of it, however many groups it has.

    python benchmarks/grouped_energy.py [SEEDS] [--sensor TITLE] [--results FILE.jsonl]

``FILE`` gets a line a seed as it is done, and seeds it holds are not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.replay.grouped_jobs import GroupedJob, MeteredGpu, grouped_job
from tracetool.api.ingest import ingest
from tracetool.hardware.load import load_gpu
from tracetool.hardware.sensors import Sensor
from tracetool.measure.attribute import attribute_run
from tracetool.measure.attributed_work import Work, work_of_run
from tracetool.measure.attribution import Attribution
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.sensors import candidate_sensors
from tracetool.replay.energy_by import energy_by
from tracetool.replay.group_energy import RunEnergies
from tracetool.replay.groups import Groups, groups_of
from tracetool.tables.run import Run

A100 = MeteredGpu("NVIDIA A100-SXM4-80GB", "power.draw", 1, 400.0)
V100 = MeteredGpu("Tesla V100-SXM2-16GB", "power.draw", 4, 300.0)


@dataclass(frozen=True)
class Trying:
    """A sensor, and the jobs it is tried on."""

    gpu: str
    metered: MeteredGpu
    seconds: float  # of work
    longer: float  # 1: kernels of 1 to 8 ms, 4: of 3 to 30 ms
    period_ms: float | None = None  # of steps that are in step with the sensor


SENSORS = {
    "25 ms of 100 (A100)": Trying("a100-sxm", A100, 40.0, 4.0),
    "10 ms of 20 (V100)": Trying("v100-sxm2-16gb", V100, 12.0, 1.0),
    "100 ms of 100 (RTX 3090)": Trying(
        "rtx-3090", MeteredGpu("NVIDIA GeForce RTX 3090", "power.draw.instant", 2, 350.0), 20.0, 1.0
    ),
    "1 s every 100 (H100)": Trying(
        "h100-sxm", MeteredGpu("NVIDIA H100 80GB HBM3", "power.draw.average", 3, 700.0), 20.0, 1.0
    ),
    "25 of 100, short kernels": Trying("a100-sxm", A100, 20.0, 1.0),
    "25 of 100, steps in beat": Trying("a100-sxm", A100, 20.0, 1.0, 300.0),
}
KEYS = ("module", "range", "iteration", "gpu")
#: What a meter leaves open of a sensor's gain [1] and offset [W].
METER = 1e-3, 0.05
#: Seeds that share a trace.
SHARED = 20

Row = tuple[float, float, float, float, bool]  # truth, energy, both ends [J], identified
Trial = dict[str, dict[str, list[Row]]]
#: Sets of groups of a key go by its name and this.
SETS = " sets"


def trial(seed: int, tried: Trying) -> Trial:
    """Return what is attributed to a job, as its log stands and with gain and offset known."""
    gpu, metered = tried.gpu, tried.metered
    sensor = candidate_sensors(load_gpu(gpu, part="sensor"), metered.field)[0]
    window_s = sensor.window_s if sensor.window_s < 0.5 else None  # of a second: its class's
    job = grouped_job(
        seed,
        metered,
        **_job(tried),
        gain=(sensor.gain, sensor.gain_sd),
        offset_w=(sensor.offset_w, sensor.offset_sd_w),
        window_s=window_s,
        trace=seed // SHARED,
    )
    traced = _traced(tried, seed // SHARED)
    if traced.from_files is None:
        traced.from_files = _from_files(job, traced.run, gpu)
    seen, as_is, known = {}, {}, {}
    random = np.random.default_rng([23, seed])
    origin_ns = min(int(stamps[0]) // 1000 for stamps, _ in job.readings) * 1_000_000
    for rank, (stamps, shown) in enumerate(job.readings):
        time_s = np.asarray((stamps // 1000 * 1_000_000 - origin_ns) * 1e-9, dtype=np.float64)
        log = PowerLog(metered.field, time_s, shown, np.zeros(0), np.zeros(0))
        specification = load_gpu(gpu, part="sensor")
        sensors = candidate_sensors(specification, metered.field)
        seen[rank] = observe(log, traced.work[rank].timeline(origin_ns), sensors)
        limit_w = specification.power_limit_w
        as_is[rank] = attribute_classes(seen[rank], limit_w=limit_w)
        meter = _metered(seen[rank].sensor, job, rank, random)
        known[rank] = attribute_classes(replace(seen[rank], sensor=meter), limit_w=limit_w)
    if seed % SHARED == 0:
        for rank, classes in traced.from_files.classes.items():
            np.testing.assert_allclose(as_is[rank].energy_j, classes.energy_j, rtol=1e-9)
    rows: Trial = {}
    for how, of_rank in (("as is", as_is), ("on a meter", known)):
        energies = RunEnergies(traced.run, replace(traced.from_files, classes=of_rank), None)
        rows[how] = {}
        for key in KEYS:
            rows[how][key], rows[how][key + SETS] = rows_of(job, traced.groups[key], energies, key)
    return rows


@dataclass
class Traced:
    """A trace as a run; what its first job's files give, and the work of each rank."""

    run: Run
    work: dict[int, Work]
    groups: dict[str, Groups]
    from_files: Attribution | None = None


def _from_files(job: GroupedJob, run: Run, gpu: str) -> Attribution:
    """Return what the command makes of a job's files."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "power.csv"
        log.write_text(job.log)
        return attribute_run(run, gpu=gpu, power=[log], tz="+00:00")


def _metered(sensor: Sensor, job: GroupedJob, rank: int, random: np.random.Generator) -> Sensor:
    """Return a rank's sensor as a meter states it: gain and offset with errors of the size that it states."""
    (gain_sd, offset_sd_w), (off, off_w) = METER, random.standard_normal(2)
    return replace(
        sensor,
        gain=float(job.gain[rank] + gain_sd * off),
        gain_sd=gain_sd,
        offset_w=float(job.offset_w[rank] + offset_sd_w * off_w),
        offset_sd_w=offset_sd_w,
        pivot_w=0.0,
    )


def _job(tried: Trying) -> dict[str, Any]:
    return {"seconds": tried.seconds, "longer": tried.longer, "period_ms": tried.period_ms}


@lru_cache(maxsize=1)
def _traced(tried: Trying, trace: int) -> Traced:
    """Return a trace as a run."""
    job = grouped_job(0, tried.metered, trace=trace, **_job(tried))
    folder = Path(tempfile.mkdtemp())
    (folder / "t.json").write_text(json.dumps(job.document))
    run = Run.open(ingest(folder / "t.json", gpu=tried.gpu, out=folder / "run.tracetool").path)
    (folder / "t.json").unlink()
    kernels = run.kernels
    devices = kernels["device"].unique().to_list()
    work = {d: work_of_run(run, kernels.filter(pl.col("device") == d)) for d in devices}
    return Traced(run, work, {key: groups_of(run, [key]) for key in KEYS})


def rows_of(job: GroupedJob, groups: Groups, energies: RunEnergies, key: str) -> tuple[list[Row], list[Row]]:
    """Return truth and figures of each group of a key, and of each set, once groups are seen to sum up."""
    frame = energy_by(energies.run, [key], energies=energies, groups=groups).frame
    each, whole = frame[:-1], frame.row(-1, named=True)
    truth = job.energy_j[key]
    assert set(each["name"]) == set(truth), (key, sorted(set(each["name"]) ^ set(truth))[:9])
    assert each["launches"].sum() == whole["launches"] == energies.run.kernels.height
    assert abs(each["energy_j"].sum() / whole["energy_j"] - 1.0) < 1e-12
    columns = ("energy_j", "energy_low_j", "energy_high_j", "identified")
    rows = [(truth[r["name"]], *(r[c] for c in columns)) for r in each.iter_rows(named=True)]
    planted = each.with_columns(truth=pl.col("name").replace_strict(truth)).filter(pl.col("set") > 0)
    joint = planted.group_by("set").agg(
        pl.col("truth").sum(), *(pl.col(f"set_{c}").first() for c in columns[:3]), pl.lit(value=True)
    )
    return rows, joint.drop("set").rows()


HEADER = (
    f"{'sensor':25s} {'seeds':5s} {'by':9s} groups known    error  95 %   worst  within 3 %"
    "   hold  on a meter   sets   hold"
)


def share_held(rows: list[Row]) -> float:
    """Return how many intervals hold the truth. [1]"""
    return float(np.mean([low <= truth <= high for truth, _, low, high, _ in rows])) if rows else np.nan


def table(title: str, trials: list[Trial]) -> None:
    """Print the rows of one sensor."""
    every: dict[str, list[Row]] = defaultdict(list)
    for key in KEYS:
        of = {how: [r for t in trials for r in t[how][key]] for how in ("as is", "on a meter")}
        for how, rows in of.items():
            every[how] += rows
        joint = [r for t in trials for r in t["on a meter"][key + SETS]]
        known = [r for r in of["on a meter"] if r[4]]
        off = np.array([abs(e / t - 1) for t, e, *_ in known]) if known else np.full(1, np.nan)
        print(
            f"{title:25s} {len(trials):5d} {key:9s} {len(rows):6d} {len(known) / max(len(rows), 1):5.0%}"
            f"  {off.mean():7.2%} {np.quantile(off, 0.95):6.2%} {off.max():6.2%} {np.mean(off <= 0.03):9.1%}"
            f" {share_held(of['as is']):8.1%} {share_held(of['on a meter']):9.1%}"
            f" {len(joint):8d} {share_held(joint):7.1%}", flush=True,
        )  # fmt: skip
    ends = ", ".join(f"{how} {share_held(rows):.1%}" for how, rows in every.items())
    print(f"{'':25s} {'':5s} all: 90 % intervals hold {ends}; groups sum to the run, every launch is in one")


def main() -> None:
    """Run the seeds asked for and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", type=int, nargs="?", default=200)
    parser.add_argument("--sensor", choices=list(SENSORS), action="append")
    parser.add_argument("--results", type=Path)
    asked = parser.parse_args()
    done: dict[tuple[str, int], Trial] = {}
    if asked.results is not None and asked.results.exists():
        for line in asked.results.read_text().splitlines():
            one: dict[str, Any] = json.loads(line)
            done[one["sensor"], one["seed"]] = one["trial"]
    print(HEADER)
    for title in asked.sensor or SENSORS:
        for seed in range(asked.seeds):
            if (title, seed) in done:
                continue
            done[title, seed] = trial(seed, SENSORS[title])
            if asked.results is not None:
                with asked.results.open("a") as out:
                    out.write(json.dumps({"sensor": title, "seed": seed, "trial": done[title, seed]}) + "\n")
        table(title, [t for (name, seed), t in sorted(done.items()) if name == title and seed < asked.seeds])


if __name__ == "__main__":
    main()
