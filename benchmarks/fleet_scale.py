"""Many traces: what processes and Ray make of them, and whether a disturbance changes a row.

    python benchmarks/fleet_scale.py [TRACES] [KERNELS]     (default 60 traces of 20,000 kernels)

Writes traces into a scratch folder, reads them by `fleet ingest` with one and two processes, with a process
killed midway, and, where Ray is installed, on one and two nodes of a cluster of this machine, one node
removed midway. Each data set is compared with the first, row for row. The peer is polars reading the same
files and writing the same columns.
"""

from __future__ import annotations

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


def plain_polars(source: Path, target: Path) -> None:
    """Read the files and write their columns, nothing else."""
    for n, path in enumerate(sorted(source.rglob("*.csv"))):
        frame = pl.read_csv(path).with_columns(
            duration_ns=pl.col("End_Timestamp") - pl.col("Start_Timestamp")
        )
        frame.write_parquet(target / f"{n}.parquet", compression="zstd", compression_level=1)


def ingest(source: Path, target: Path, *options: str, disturb: Callable[[], None] | None = None) -> float:
    """Run the command; return its time. [s]"""
    start = time.perf_counter()
    process = subprocess.Popen([*TOOL, "fleet", "ingest", str(source), "-o", str(target), "-q", *options])
    if disturb:
        threading.Thread(target=disturb, daemon=True).start()
    if process.wait():
        raise SystemExit(f"fleet ingest failed: {options}")
    return time.perf_counter() - start


def kill_a_worker(after_s: float) -> None:
    """Kill one process of the pool, as the system does where memory runs out."""
    time.sleep(after_s)
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    workers = [
        line.split()[0] for line in listed.splitlines() if "multiprocessing.spawn import spawn_main" in line
    ]
    if workers:
        os.kill(int(workers[-1]), signal.SIGKILL)


def on_ray(source: Path, target: Path, nodes: int, *, remove_after_s: float | None = None) -> float:
    """Run on a cluster of so many nodes of one processor; remove one midway if asked. [s]"""
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
    return spent


def main() -> None:
    traces, kernels = (int(a) for a in (*sys.argv[1:3], *("60", "20000")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = folder / "traces"
        size = make(source, traces, kernels)
        print(f"{traces} traces, {traces * kernels:,} kernels, {size / 1e6:.0f} MB")
        ways: list[tuple[str, Callable[[Path], float]]] = [
            ("1 process", lambda t: ingest(source, t, "--workers", "1")),
            ("2 processes", lambda t: ingest(source, t, "--workers", "2")),
        ]
        spent: dict[str, float] = {}

        def halfway() -> float:
            return 0.5 * spent["2 processes"]

        ways.append(
            (
                "2, one killed",
                lambda t: ingest(source, t, "--workers", "2", disturb=lambda: kill_a_worker(halfway())),
            )
        )
        try:
            import ray  # noqa: F401
        except (ImportError, KeyError, OSError):
            print("Ray is not installed or does not start: left out")
        else:
            ways += [
                ("Ray, 1 node", lambda t: on_ray(source, t, 1)),
                ("Ray, 2 nodes", lambda t: on_ray(source, t, 2)),
                (
                    "Ray, 1 of 2 removed",
                    lambda t: on_ray(source, t, 2, remove_after_s=0.5 * spent["Ray, 2 nodes"]),
                ),
            ]
        out = csv.writer(sys.stdout, delimiter="\t")
        out.writerow(["way", "s", "traces/s", "kernels/s", "same rows"])
        first: pl.DataFrame | None = None
        for name, way in ways:
            target = folder / "set"
            spent[name] = way(target)
            held = rows(target)
            first = held if first is None else first
            speed = [
                f"{spent[name]:.1f}",
                f"{traces / spent[name]:.1f}",
                f"{traces * kernels / spent[name]:,.0f}",
            ]
            out.writerow([name, *speed, held.equals(first) and held.height == traces * kernels])
            shutil.rmtree(target)
        bare = folder / "bare"
        bare.mkdir()
        start = time.perf_counter()
        plain_polars(source, bare)
        plain_s = time.perf_counter() - start
        out.writerow(
            [
                "polars alone",
                f"{plain_s:.1f}",
                f"{traces / plain_s:.1f}",
                f"{traces * kernels / plain_s:,.0f}",
                "",
            ]
        )


if __name__ == "__main__":
    main()
