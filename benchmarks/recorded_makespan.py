"""Every trace of a folder replayed at its recorded durations: is the recorded makespan given back?

    python benchmarks/recorded_makespan.py ../shared/data/traces/kineto ../shared/data/traces/nsys

``replay`` is the makespan at the recorded durations over the recorded one. It is exact by
construction where the edges hold: the edge that ended a wait keeps what was left of it. ``edges
alone`` is the makespan when no edge keeps such a rest: what order, host time, launches and waits
explain by themselves. ``x2`` and ``/2`` are the makespan with all kernels twice and half as long.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.replay.activities import read_activities
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.gap_causes import NAMES
from tracetool.replay.overlap import Rates
from tracetool.replay.timeline import replay
from tracetool.tables.run import Run


def line(run: Run) -> str:
    """Return one row of the table for a run."""
    work, calls = read_activities(run.kernels, run.table("host_calls"))
    graph, _ = dependency_graph(work, calls)
    bare, _ = dependency_graph(work, calls, exact=False)
    none = np.zeros(run.signatures.height)
    rates = Rates(none + 1.0, none, none, none, none)
    collective = np.zeros(len(work), np.bool_)
    recorded = float(work.end_ns.max() - work.start_ns.min())
    same, slow, fast = (replay(graph, work, work.duration_ns * x, rates, collective) for x in (1.0, 2.0, 0.5))
    alone = replay(bare, work, work.duration_ns, rates, collective)
    devices = len(np.unique(work.device))
    gaps = ", ".join(
        f"{name} {v / recorded / devices:.1%}" for name, v in zip(NAMES, same.gap_ns, strict=True) if v > 0
    )
    return (
        f"{len(work):>7} {graph.counts['launch']:>7} {graph.inferred:>8} {recorded * 1e-6:>11.3f}"
        f" {same.makespan_ns / recorded - 1 if recorded else 0:>+9.4%} {alone.makespan_ns / recorded:>11.1%}"
        f" {slow.makespan_ns / recorded:>6.2f} {fast.makespan_ns / recorded:>6.2f}  {gaps}"
    )


def main() -> None:
    """Print one line per trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    asked = parser.parse_args()
    heads = f"{'n':>7} {'calls':>7} {'inferred':>8} {'recorded ms':>11} {'replay':>9} {'edges alone':>11}"
    print(f"{'trace':56} {heads} {'x2':>6} {'/2':>6}  idle gaps")
    files = sorted(f for folder in asked.folders for f in folder.rglob("*") if f.is_file())
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = Run.open(ingest([file], [], tz=None, gpu=None, out=Path(folder) / "run"))
            except TracetoolError as error:
                print(f"{file.name[:56]:56} {error.line()[:60]}")
                continue
            print(f"{file.name[:56]:56} {line(run) if run.kernels.height else 'no kernels'}", flush=True)


if __name__ == "__main__":
    main()
