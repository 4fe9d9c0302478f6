"""One model traced on two GPUs: each predicted from the other's trace, error per family.

    python benchmarks/cross_gpu.py FIRST.json.gz SECOND.json.gz [FIRST SECOND ...]

Times are the sums of kernel durations of a family; ``ratio`` is predicted over recorded. A family
whose kernels differ in number ran differently on the two (other libraries fuse other operators):
its line is printed, not hidden.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import polars as pl

from tracetool.api.ingest import ingest
from tracetool.replay.breakdown import breakdown
from tracetool.replay.predict_run import predict_run
from tracetool.tables.run import Run


def families(run: Run, gpu: str | None) -> tuple[pl.DataFrame, float, str]:
    """Return time per family of a run on a GPU, its makespan and the GPU's name."""
    made = predict_run(run, gpu)
    rows = breakdown(made, "family").select("family", "launches", "device_time_ms")
    return rows, float(made.totals[0]["makespan_ms"]), made.gpu


def main() -> None:
    """Print a table per pair and direction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    traces = parser.parse_args().traces
    for pair in zip(traces[::2], traces[1::2], strict=True):
        with tempfile.TemporaryDirectory() as folder:
            runs = [
                Run.open(ingest([f], [], tz=None, gpu=None, out=Path(folder) / str(i)))
                for i, f in enumerate(pair)
            ]
            for source, target in (runs, runs[::-1]):
                recorded, span, gpu = families(target, None)
                predicted, made, _ = families(source, gpu)
                both = recorded.join(predicted, on="family", how="full", suffix="_predicted", coalesce=True)
                total = both.select(pl.col("device_time_ms", "device_time_ms_predicted").sum()).row(0)
                print(f"\n{pair[0].name.split('__')[-1]} on {gpu}, from the other trace")
                print(
                    f"  {'family':16} {'launches':>16} {'recorded ms':>12} {'predicted ms':>13} {'ratio':>6}"
                )
                for row in both.sort("device_time_ms", descending=True, nulls_last=True).iter_rows(
                    named=True
                ):
                    had, got = row["device_time_ms"] or 0.0, row["device_time_ms_predicted"] or 0.0
                    counts = f"{row['launches'] or 0} / {row['launches_predicted'] or 0}"
                    ratio = f"{got / had:.2f}" if had else "-"
                    print(f"  {row['family']:16} {counts:>16} {had:>12.3f} {got:>13.3f} {ratio:>6}")
                for name, had, got in (("kernels", *total), ("makespan", span, made)):
                    print(f"  {name:16} {'':>16} {had:>12.3f} {got:>13.3f} {got / had:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
