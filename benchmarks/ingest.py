"""Reading traces: wall time and peak memory of a finished run against peers that do less, in one go.

    python benchmarks/ingest.py [--kernels 1000000] [--repeat 3] [--folder DIR] [--growth] [--hta PYTHON]

Each job is a process of its own, interpreter start included, its bytecode cached as an installed program's
is; ours and the peer's take turns, and the best of the repeats counts. Beside each stand two limits of the
machine: reading the file's bytes, and writing the run's Parquet files once more. HolisticTraceAnalysis runs
in an environment of its own, for it needs an older pandas:

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis 'pandas<3'
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import ingest_inputs

_COLUMNS = (
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName registersPerThread"
    " gridX gridY gridZ blockX graphNodeId"
)
_CONNECTORX = (
    "import connectorx, sys; c = ', '.join(f'\"{n}\"' for n in '" + _COLUMNS + "'.split());"
    " connectorx.read_sql('sqlite://' + sys.argv[1], f'SELECT {c} FROM CUPTI_ACTIVITY_KIND_KERNEL',"
    " return_type='polars')"
)
_POLARS = "import polars, sys; polars.read_csv(sys.argv[1])"
_BYTES = "import sys\nwith open(sys.argv[1], 'rb') as f:\n    while f.read(1 << 22): pass"
_PARQUET = (
    "import polars as pl, sys, pathlib, time\n"
    "frames = [pl.read_parquet(p) for p in pathlib.Path(sys.argv[1]).glob('*.parquet')]\n"
    "start = time.perf_counter()\n"
    "for f in frames: f.write_parquet(sys.argv[1] + '.again', compression='zstd', compression_level=1)\n"
    "print(time.perf_counter() - start)"
)
_HTA = (
    "import sys, json, logging; logging.disable(logging.CRITICAL)\n"
    "from hta.trace_analysis import TraceAnalysis\n"
    "t = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='/')\n"
    "f = t.t.get_trace_df(0) if hasattr(t.t, 'get_trace_df') else t.t.get_trace(0)\n"
    "k = f[f['stream'] >= 0]; print(int(k['dur'].sum()))"
)


_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
_ENVIRONMENT["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "tracetool-benchmark-bytecode")


@dataclass(frozen=True)
class Cost:
    """What a job took."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    said: str = ""


def cost(command: list[str], repeat: int) -> Cost | None:
    """Run a command and return its best time, None where it fails."""
    best: Cost | None = None
    for _ in range(repeat):
        with tempfile.TemporaryFile() as out:
            start = time.perf_counter()
            pid = os.posix_spawn(
                command[0], command, _ENVIRONMENT,
                file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)],
            )  # fmt: skip
            _, status, used = os.wait4(pid, 0)
            wall = time.perf_counter() - start
            if status:
                return None
            out.seek(0)
            made = Cost(
                wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read().decode().strip()
            )
        if best is None or made.wall_s < best.wall_s:
            best = made
    return best


def best(costs: list[Cost | None]) -> Cost | None:
    """Return the least of each, None where a job failed."""
    made = [c for c in costs if c is not None]
    if not made:
        return None
    return Cost(
        min(c.wall_s for c in made), min(c.cpu_s for c in made), max(c.peak_mib for c in made), made[-1].said
    )


def compare(
    title: str,
    source: Path,
    peer: str,
    code: str,
    limit: str,
    repeat: int,
    folder: Path,
    peer_python: str = sys.executable,
) -> None:
    """Print one comparison."""
    run = folder / "run"
    python = [sys.executable, "-c"]
    mine = [sys.executable, "-m", "tracetool", "ingest", "-q", str(source), "-o", str(run)]
    other = [peer_python, "-c", code, str(source)]
    cost(mine, 1)  # bytecode and the file's bytes are cached for both
    pairs = [(cost(mine, 1), cost(other, 1) if code else None) for _ in range(repeat)]
    ours, theirs = (best([p[i] for p in pairs]) for i in (0, 1))
    read = cost([*python, _BYTES, str(source)], repeat)
    write = cost([*python, _PARQUET, str(run)], 1)
    (folder / "run.again").unlink(missing_ok=True)
    if ours is None:
        print(f"{title}: ingest failed")
        return
    print(f"\n{title} ({source.stat().st_size / 1e6:.0f} MB)")
    print(
        f"  {'tracetool ingest, run written':44s} {ours.wall_s:7.2f} s  {ours.cpu_s:6.2f} s CPU  {ours.peak_mib:6.0f} MiB"
    )
    if theirs:
        ratio, work = ours.wall_s / theirs.wall_s, ours.cpu_s / theirs.cpu_s
        print(f"  {peer:44s} {theirs.wall_s:7.2f} s  {theirs.cpu_s:6.2f} s CPU  {theirs.peak_mib:6.0f} MiB")
        print(f"  ours / theirs: {ratio:.2f} wall, {work:.2f} CPU   (asked: {limit})")
    elif code:
        print(f"  {peer:44s} not installed, or failed")
    if read and write:
        print(
            f"  limits: reading the bytes {read.wall_s:.2f} s, writing the Parquet {float(write.said):.2f} s"
        )


def gpu_time(source: Path, folder: Path, hta: str) -> None:
    """Print the GPU time of both: the peer rounds to microseconds and may drop the last step."""
    import polars as pl

    told = cost([hta, "-c", _HTA, str(source)], 1)
    kernels = pl.read_parquet(folder / "run" / "kernels.parquet", columns=["duration_ns"])
    ours = int(kernels["duration_ns"].sum())
    if told and told.said.splitlines():
        theirs = int(told.said.splitlines()[-1])
        share = 100 * (theirs * 1000 / ours - 1)
        print(
            f"  GPU time: ours {ours / 1e6:.6f} ms (exact), HolisticTraceAnalysis {theirs / 1e3:.3f} ms ({share:+.3f} %)"
        )


def growth(folder: Path) -> None:
    """Print time and memory against size."""
    print("\ngrowth with the input (Nsight SQLite)")
    for kernels in (100_000, 1_000_000, 4_000_000, 10_000_000):
        source = ingest_inputs.nsys_sqlite(folder / f"n{kernels}.sqlite", kernels)
        command = [sys.executable, "-m", "tracetool", "ingest", "-q", str(source), "-o", str(folder / "run")]
        found = cost(command, 1)
        source.unlink()
        if found:
            print(
                f"  {kernels:>10,} kernels {found.wall_s:7.2f} s {found.wall_s / kernels * 1e6:6.2f} us each {found.peak_mib:6.0f} MiB"
            )


def main() -> None:
    """Make the inputs and compare."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--kernels", type=int, default=1_000_000)
    ask.add_argument("--repeat", type=int, default=3)
    ask.add_argument(
        "--folder", type=Path, default=None, help="Where inputs are kept; a temporary folder by default."
    )
    ask.add_argument("--hta", default="", help="The Python that has HolisticTraceAnalysis.")
    ask.add_argument("--growth", action="store_true", help="Also 0.1, 1, 4 and 10 million kernels.")
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        n, repeat = asked.kernels, asked.repeat
        source = ingest_inputs.nsys_sqlite(folder / "trace.sqlite", n)
        compare(f"Nsight SQLite, {n:,} kernels, calls, NVTX", source, "connectorx, the same 15 kernel columns",
                _CONNECTORX, "at most 2 wall", repeat, folder)  # fmt: skip
        for events in (n * 13 // 100, n // 2):
            source = ingest_inputs.kineto_json(folder / "trace.json", events)
            compare(f"PyTorch profiler JSON, {events:,} events", source, "HolisticTraceAnalysis, load",
                    _HTA if asked.hta else "", "at most 0.167 wall", min(repeat, 2), folder, asked.hta)  # fmt: skip
            if asked.hta:
                gpu_time(source, folder, asked.hta)
        source = ingest_inputs.rocprof_csv(folder / "1_kernel_trace.csv", n)
        compare(
            f"rocprofv3 CSV, {n:,} kernels",
            source,
            "polars, read_csv",
            _POLARS,
            "at most 2 wall",
            repeat,
            folder,
        )
        source = ingest_inputs.rocprof_pftrace(folder / "1_results.pftrace", n // 4)
        compare(f"rocprofv3 Perfetto trace, {n // 4:,} kernels", source, "", "", "", repeat, folder)
        if asked.growth:
            growth(folder)


if __name__ == "__main__":
    main()
