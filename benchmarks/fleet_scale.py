"""Many traces: what processes and Ray make of them, how cost grows, whether a disturbance changes a row.

    python benchmarks/fleet_scale.py [TRACES ...] [--kernels N] [--disturbed TRACES] [--folder DIR]

Writes traces into a scratch folder (by default 10, 100 and 1,000 of 2,000 kernels) and reads them by `fleet
ingest` with one and two processes; of the count ``--disturbed`` also with a process killed midway and, where
Ray is installed, on one and two nodes of a cluster of this machine, one node removed midway. Each data set
is compared with the first, row for row. Two peers do it without a fleet: ``tracetool.ingest`` in a loop (the
same work: what is more is the fleet's own), and polars, which reads the same files and writes their columns
(less work: no checks, no signatures, no clocks). Processor seconds hold those of workers, not of Ray's nodes.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

NAMES = (
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI32x32x8x1",
    "void at::native::vectorized_elementwise_kernel<4>",
)
TOOL = (sys.executable, "-m", "tracetool")


def make(folder: Path, traces: int, kernels: int) -> int:
    """Write traces as rocprofv3 does; return their bytes."""
    rng = np.random.default_rng(1)
    for n in range(traces):
        start = 10**12 + np.cumsum(rng.integers(11_000, 15_000, kernels))
        path = folder / f"team{n % 3}" / f"job{n}" / f"job{n}_kernel_trace.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame({
            "Kind": "KERNEL_DISPATCH", "Agent_Id": "Agent 4", "Queue_Id": 1, "Stream_Id": 0, "Thread_Id": 7,
            "Dispatch_Id": np.arange(kernels), "Kernel_Id": rng.integers(0, 2, kernels),
            "Kernel_Name": [NAMES[i] for i in rng.integers(0, 2, kernels)],
            "Correlation_Id": np.arange(kernels),
            "Start_Timestamp": start, "End_Timestamp": start + 9_000, "LDS_Block_Size": 0, "Scratch_Size": 0,
            "VGPR_Count": 64, "Accum_VGPR_Count": 0, "SGPR_Count": 32, "Workgroup_Size_X": 256,
            "Workgroup_Size_Y": 1, "Workgroup_Size_Z": 1, "Grid_Size_X": 65_536,
            "Grid_Size_Y": 1, "Grid_Size_Z": 1,
        }).write_csv(path, quote_style="non_numeric")  # fmt: skip
    return sum(p.stat().st_size for p in folder.rglob("*.csv"))


def rows(target: Path) -> pl.DataFrame:
    """Return every kernel of a data set, in one order."""
    return pl.read_parquet(f"{target}/runs/*/kernels.parquet", hive_partitioning=True).sort("job", "start_ns")


@dataclass(frozen=True)
class Cost:
    """Time and processor time of one way. [s]"""

    seconds: float
    worked: float | None


def run(command: list[str], disturb: Callable[[], None] | None = None) -> Cost:
    """Run a command; return what it took, its children with it."""
    start = time.perf_counter()
    process = subprocess.Popen(command)
    if disturb:
        threading.Thread(target=disturb, daemon=True).start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed with {process.returncode}: {' '.join(command)}")
    return Cost(time.perf_counter() - start, used.ru_utime + used.ru_stime)


_LOOP = """
import sys, tracetool
from pathlib import Path
for path in sorted(Path(sys.argv[1]).rglob("*.csv")):
    tracetool.ingest(path, out=Path(sys.argv[2]) / f"{path.parent.name}.tracetool")
"""
_POLARS = """
import sys, polars as pl
from pathlib import Path
for n, path in enumerate(sorted(Path(sys.argv[1]).rglob("*.csv"))):
    frame = pl.read_csv(path).with_columns(duration_ns=pl.col("End_Timestamp") - pl.col("Start_Timestamp"))
    frame.write_parquet(f"{sys.argv[2]}/{n}.parquet", compression="zstd", compression_level=1)
"""


def peer(code: str, source: Path, target: Path) -> Cost:
    """Run a peer's program over the traces."""
    target.mkdir()
    return run([sys.executable, "-c", code, str(source), str(target)])


def ingest(source: Path, target: Path, *options: str, disturb: Callable[[], None] | None = None) -> Cost:
    """Run the command; return what it took."""
    return run([*TOOL, "fleet", "ingest", str(source), "-o", str(target), "-q", *options], disturb)


def kill_a_worker(after_s: float) -> None:
    """Kill one process of the pool, as the system does where memory runs out."""
    time.sleep(after_s)
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    workers = [
        line.split()[0] for line in listed.splitlines() if "multiprocessing.spawn import spawn_main" in line
    ]
    if workers:
        os.kill(int(workers[-1]), signal.SIGKILL)


def on_ray(source: Path, target: Path, nodes: int, *, remove_after_s: float | None = None) -> Cost:
    """Run on a cluster of so many nodes of one processor; remove one midway if asked."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    more = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
    cluster.wait_for_nodes()
    os.environ["RAY_ADDRESS"] = cluster.address

    def remove() -> None:
        time.sleep(float(remove_after_s or 0.0))
        cluster.remove_node(more[-1], allow_graceful=False)

    try:
        spent = ingest(source, target, "--engine", "ray", "--workers", str(nodes),
                       disturb=remove if remove_after_s is not None else None)  # fmt: skip
    finally:
        cluster.shutdown()
        del os.environ["RAY_ADDRESS"]
    return Cost(spent.seconds, None)


def ways(source: Path, spent: dict[str, Cost], *, disturbed: bool) -> dict[str, Callable[[Path], Cost]]:
    """Return what is timed, in order; later ways look at what earlier ones spent."""
    undisturbed: dict[str, Callable[[Path], Cost]] = {
        "1 process": lambda t: ingest(source, t, "--workers", "1"),
        "2 processes": lambda t: ingest(source, t, "--workers", "2"),
    }
    if not disturbed:
        return undisturbed

    def killed(t: Path) -> Cost:
        half = 0.5 * spent["2 processes"].seconds
        return ingest(source, t, "--workers", "2", disturb=lambda: kill_a_worker(half))

    local = {**undisturbed, "2 processes, 1 killed": killed}
    try:
        import ray  # noqa: F401
    except (ImportError, KeyError, OSError):
        print("Ray is not installed or does not start: left out", file=sys.stderr)
        return local
    return {
        **local,
        "Ray, 1 node": lambda t: on_ray(source, t, 1),
        "Ray, 2 nodes": lambda t: on_ray(source, t, 2),
        "Ray, 1 of 2 nodes removed": lambda t: on_ray(
            source, t, 2, remove_after_s=0.5 * spent["Ray, 2 nodes"].seconds
        ),
    }


def measure(
    folder: Path, traces: int, kernels: int, out: Callable[[list[str]], object], *, disturbed: bool
) -> dict[str, Cost]:
    """Write one count of traces, print a line a way; return what each took."""
    source = folder / "traces"
    make(source, traces, kernels)
    spent: dict[str, Cost] = {
        "tracetool.ingest in a loop": peer(_LOOP, source, folder / "loop"),
        "polars alone": peer(_POLARS, source, folder / "bare"),
    }
    loop = spent["tracetool.ingest in a loop"]
    shutil.rmtree(folder / "loop")
    shutil.rmtree(folder / "bare")

    def line(name: str, same: str) -> None:
        cost = spent[name]
        worked = "" if cost.worked is None else f"{cost.worked:.1f}"
        more = (
            ""
            if cost.worked is None or loop.worked is None
            else f"{100 * (cost.worked / loop.worked - 1):+.0f}"
        )
        out([name, str(traces), f"{cost.seconds:.1f}", worked, f"{traces / cost.seconds:.1f}",
             f"{traces * kernels / cost.seconds:,.0f}", more, same])  # fmt: skip

    line("polars alone", "")
    line("tracetool.ingest in a loop", "")
    first: pl.DataFrame | None = None
    for name, way in ways(source, spent, disturbed=disturbed).items():
        target = folder / "set"
        spent[name] = way(target)
        table = rows(target) if disturbed else None
        first = table if first is None else first
        same = (
            ""
            if table is None or first is None
            else str(table.equals(first) and table.height == traces * kernels)
        )
        line(name, same)
        shutil.rmtree(target)
    shutil.rmtree(source)
    return spent


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ask.add_argument("traces", type=int, nargs="*", default=[10, 100, 1000])
    ask.add_argument("--kernels", type=int, default=2000)
    ask.add_argument(
        "--disturbed", type=int, default=100, help="Count that is also disturbed and put on Ray."
    )
    ask.add_argument("--folder", type=Path, default=None, help="Where traces and data sets are written.")
    asked = ask.parse_args()
    table = csv.writer(sys.stdout, delimiter="\t")
    table.writerow(
        ["way", "traces", "s", "processor s", "traces/s", "kernels/s", "processor s over loop %", "same rows"]
    )

    def out(cells: list[str]) -> None:
        table.writerow(cells)
        sys.stdout.flush()

    spent: dict[int, dict[str, Cost]] = {}
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        for traces in asked.traces:
            spent[traces] = measure(
                Path(scratch), traces, asked.kernels, out, disturbed=traces == asked.disturbed
            )
    few, *more = spent
    for traces, (name, cost) in ((n, item) for n in more for item in spent[n].items()):
        before = spent[few].get(name)
        if before is None or before.worked is None or cost.worked is None:
            continue
        # the start of the program is in every count: growth is of what is more than the smallest
        each_ms = 1e3 * (cost.worked - before.worked) / (traces - few)
        print(f"{name}, {few} to {traces} traces: {each_ms:.1f} ms of processor time for each further trace")


if __name__ == "__main__":
    main()
