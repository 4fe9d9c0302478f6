"""Exporting a run: time and memory of ``tracetool export`` against ``tracetool ingest`` of the same trace.

    python benchmarks/export.py [--kernels 1000000] [--repeat 3] [--folder DIR] [--power]

The two take turns, each a process of its own with its start; the best of the repeats is printed, and the
median of their ratios, in wall and in CPU time. The run has host calls and ranges. With ``--power`` also a
log of ten readings a second, whose energy export attributes first, as ``attribute`` does: a log that follows
none of the thousand kernels, the slowest kind to place in time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import ingest_inputs
from ingest import Cost, best, cost


def power_log(path: Path, trace: Path) -> Path:
    """Write a log that covers the trace: GPU 0 under load, in the columns that any logger can write."""
    import tracetool as tt

    with tempfile.TemporaryDirectory() as folder:
        run = tt.ingest(trace, out=Path(folder) / "run.tracetool")
        start, stop = run.kernels["start_ns"].min(), run.kernels["start_ns"].max()
    time_s = np.arange(start / 1e9 - 1, stop / 1e9 + 1, 0.1)  # type: ignore[operator]
    power_w = 450 + 150 * np.sin(time_s / 3)
    lines = (f"{t:.3f},{p:.2f}" for t, p in zip(time_s, power_w, strict=True))
    path.write_text("time,power_w\n" + "\n".join(lines) + "\n")
    return path


def main() -> None:
    """Make the input and compare."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--kernels", type=int, default=1_000_000)
    ask.add_argument("--repeat", type=int, default=3)
    ask.add_argument("--power", action="store_true", help="With a power log.")
    ask.add_argument("--folder", type=Path, default=None, help="Where files are kept; temporary by default.")
    asked = ask.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        trace = folder / f"n{asked.kernels}.sqlite"
        if not trace.exists():
            ingest_inputs.nsys_sqlite(trace, asked.kernels)
        log = folder / f"n{asked.kernels}.csv"
        if asked.power and not log.exists():
            power_log(log, trace)
        run, target = folder / "run.tracetool", folder / "run.pftrace"
        tool = [sys.executable, "-m", "tracetool"]
        logs = ["--power", str(log)] if asked.power else []
        ingest = [*tool, "ingest", "-q", str(trace), *logs, "-o", str(run)]
        export = [*tool, "export", "-q", str(run), "-o", str(target)]
        cost(ingest, 1)  # bytecode and the files' bytes are cached for both
        cost(export, 1)
        pairs = [(cost(ingest, 1), cost(export, 1)) for _ in range(asked.repeat)]
        ingested, exported = (best([pair[i] for pair in pairs]) for i in (0, 1))
        if ingested is None or exported is None:
            raise SystemExit("a command failed")
        _print("ingest", ingested)
        _print(f"export, {target.stat().st_size / 1e6:.0f} MB", exported)
        timed = [(a, b) for a, b in pairs if a is not None and b is not None]
        wall = statistics.median(b.wall_s / a.wall_s for a, b in timed)
        cpu = statistics.median(b.cpu_s / a.cpu_s for a, b in timed)
        print(f"export / ingest, median of {len(timed)}: {wall:.2f} wall, {cpu:.2f} CPU   (asked: at most 2)")


def _print(name: str, taken: Cost) -> None:
    print(f"{name:24s} {taken.wall_s:7.2f} s  {taken.cpu_s:6.2f} s CPU  {taken.peak_mib:6.0f} MiB")


if __name__ == "__main__":
    main()
