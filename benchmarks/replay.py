"""How the replay grows: 10^4 to 10^7 kernels on 4 streams, 20 clocks, graph and gaps included.

    python benchmarks/replay.py [--most 10000000] [--clocks 20]

Prints seconds and peak memory per size, and the time of a plain pass over the kernel starts in the
same run, as the unit the machine can be judged by.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import polars as pl

from tracetool.replay.activities import read_activities
from tracetool.replay.dependencies import dependency_graph
from tracetool.replay.overlap import Rates
from tracetool.replay.reused_memory import Memory, at_each
from tracetool.replay.timeline import replay

STREAMS = 4
SIGNATURES = 500


def kernels(n: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return n kernels on 4 streams, launched every 4 us by one host thread that waits now and then."""
    rng = np.random.default_rng(7)
    signature = rng.integers(0, SIGNATURES, n)
    duration = rng.integers(2_000, 20_000, SIGNATURES)[signature]
    stream = rng.integers(0, STREAMS, n)
    launch = np.cumsum(rng.integers(2_000, 6_000, n))
    start = launch + 5_000
    for s in range(STREAMS):
        mine = np.flatnonzero(stream == s)
        # A stream is a running maximum: a kernel starts when it is issued and its predecessor is done.
        before = np.concatenate([[0], np.cumsum(duration[mine] + 1_000)[:-1]])
        start[mine] = before + np.maximum.accumulate(start[mine] - before)
    order = np.argsort(start, kind="stable")
    null = pl.repeat(None, n, dtype=pl.Int64, eager=True)
    frame = pl.DataFrame(
        {
            "start_ns": start[order],
            "duration_ns": duration[order],
            "device": np.zeros(n, np.int32),
            "stream": stream[order],
            "context": np.ones(n, np.int64),
            "process": np.ones(n, np.int64),
            "kind": pl.repeat("kernel", n, eager=True),
            "correlation": order,
            "launch_ns": launch[order],
            "graph_node": null,
            "operator": null,
            "range": null,
            "signature": signature[order],
        }
    )
    calls = pl.DataFrame(
        {
            "start_ns": launch,
            "duration_ns": np.full(n, 1_500),
            "process": np.ones(n, np.int64),
            "thread": np.ones(n, np.int64),
            "name": pl.repeat("cudaLaunchKernel", n, eager=True),
            "kind": pl.repeat("launch", n, eager=True),
            "correlation": np.arange(n),
        }
    )
    return frame, calls


def main() -> None:
    """Run every size and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000_000)
    parser.add_argument("--clocks", type=int, default=20)
    asked = parser.parse_args()
    rates = Rates(
        np.full(SIGNATURES, 0.5),
        np.full(SIGNATURES, 80.0),
        np.full(SIGNATURES, 30.0),
        np.full(SIGNATURES, 1e-4),
        np.full(SIGNATURES, 20.0),
    )
    sizes = [n for n in (10**4, 10**5, 10**6, 10**7) if n <= asked.most]
    heads = ("kernels", "graph s", "replay s", "total s", "CPU s", "ns a kernel and clock", "peak GiB")
    print("".join(f"{h:>{len(h) + 4}}" for h in heads))
    for n in sizes:
        frame, host = kernels(n)
        began, used = time.perf_counter(), time.process_time()
        work, calls = read_activities(frame, host)
        del frame, host
        graph, _ = dependency_graph(work, calls)
        built = time.perf_counter()
        collective = np.zeros(n, np.bool_)
        clocks = np.linspace(0.5, 1.0, asked.clocks)

        def at(j: int, memory: Memory) -> float:
            duration = work.duration_ns / clocks[j]  # noqa: B023
            return replay(graph, work, duration, rates, collective, memory=memory).makespan_ns  # noqa: B023

        at_each(asked.clocks, at, Memory(), n)
        done = time.perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        each = (done - built) / n / asked.clocks * 1e9
        cells = (
            f"{n:,}",
            f"{built - began:.2f}",
            f"{done - built:.2f}",
            f"{done - began:.2f}",
            f"{time.process_time() - used:.2f}",
            f"{each:.0f}",
            f"{peak:.2f}",
        )
        print("".join(f"{c:>{len(h) + 4}}" for c, h in zip(cells, heads, strict=True)), flush=True)


if __name__ == "__main__":
    main()
