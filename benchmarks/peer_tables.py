"""Tables of TraceLens and HolisticTraceAnalysis beside ours, for the same PyTorch profiler traces.

    python benchmarks/peer_tables.py DATA --peers PYTHON [--hta PYTHON] [--largest-kb 800] [--only NAME]

DATA is a folder of PyTorch profiler traces, such as ``TraceLens/tests/traces/h100`` of the clone below, or
holds one as ``traces/kineto``. The peers run in an environment of their own (TraceLens on the package index
is another program); ``--hta`` names a second environment where one cannot hold both:

    git clone https://github.com/AMD-AGI/TraceLens
    python -m venv peers && peers/bin/pip install ./TraceLens HolisticTraceAnalysis 'pandas<3'

Products: rows of ``roofline --gemm`` against TraceLens's GEMM table, by operator and argument sizes. A row
whose times differ is explained where the difference is, to rounding, what TraceLens says it spent in copies
and sets, or in some of the operator's other kernels. Time budget: HTA's temporal breakdown of all steps
against ``summary``: as HTA comes, then without its cut of starts and ends to whole microseconds
(``HTA_DISABLE_NS_ROUNDING``), then without events of the host that name a stream, and last with ours of the
activities alone whose launch call the trace holds. The last lines count rows and traces over all of DATA.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import tracetool as tt
from tracetool.replay.time_parts import PARTS

COPIES = ("Memset", "Memcpy")
TIMEOUT_S = 300
#: GPUs that stand in for those of a maker that are not known here.
STAND_INS = {"nvidia": "h100-sxm", "amd": "mi300x"}
TRACELENS_BIN = "TraceLens_generate_perf_report_pytorch"
HTA = """
import json, logging, os, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path = sys.argv[1]
def budget(trace):
    row = trace.get_temporal_breakdown(visualize=False).iloc[0]
    overlap = trace.get_comm_comp_overlap(visualize=False)
    share = float(overlap["comp_comm_overlap_pctg"].iloc[0]) if len(overlap) else 0.0
    return [float(row[f"{part}_time(us)"]) for part in ("idle", "compute", "non_compute")] + [share]
for uncut in "01":
    os.environ["HTA_DISABLE_NS_ROUNDING"] = uncut
    where = {"trace_files": {0: path}, "trace_dir": os.path.dirname(path)}
    trace = TraceAnalysis(**where, include_last_profiler_step=True)
    print(json.dumps(budget(trace)))
table, names = trace.t.traces[0], trace.t.symbol_table.get_sym_table()
ours = [names[c] in ("kernel", "gpu_memcpy", "gpu_memset") for c in table["cat"]]
trace.t.traces[0] = table[ours]
print(json.dumps(budget(trace)))
"""
#: HTA as it comes, with ends left as they are, and of those events only that ran on the GPU.
READINGS = (
    "equal",
    "HTA cuts starts and ends to whole microseconds",
    "HTA also takes events of the host that name a stream for work of the GPU",
    "so, and it knows collectives by NCCL's names only: others compute",
)
LAUNCHES = ("runtime", "cuda_runtime", "cuda_driver", "hip_runtime")
ACTIVITIES = ("kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset")


@dataclass
class Row:
    """A product in one of the tables. [us]"""

    calls: int = 0
    time_us: float = 0.0
    of_kernel_us: Counter[str] = field(default_factory=Counter)


Rows = dict[tuple[str, str], Row]


def our_products(run: tt.Run) -> Rows:
    """Return ours by operator and argument sizes."""
    rows: Rows = {}
    for given in tt.roofline(run).products.iter_rows(named=True):
        row = rows.setdefault((given["operator"], (given["shape"] or "").strip()), Row())
        row.calls += given["launches"]
        row.time_us += 1000.0 * given["time_ms"]
    return rows


def _details(text: str) -> list[dict[str, Any]]:
    plain = text.replace("np.float64(", "(").replace("nan", "None")
    try:
        return list(ast.literal_eval(plain))
    except (SyntaxError, ValueError):
        return []


def their_products(trace: Path, peers: str, folder: Path) -> Rows | None:
    """Return TraceLens's, or nothing where it cannot read the trace."""
    command = [str(Path(peers).parent / TRACELENS_BIN), "--profile_json_path", str(trace)]
    try:
        done = subprocess.run(
            [*command, "--output_csvs_dir", str(folder)], capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    rows: Rows = {}
    if not (folder / "GEMM.csv").exists():
        return rows
    table = pl.read_csv(folder / "GEMM.csv", infer_schema_length=None)
    for given in table.iter_rows(named=True):
        sizes = " ".join("x".join(map(str, size)) for size in ast.literal_eval(given["Input Dims_first"]))
        row = rows.setdefault((given["name"], sizes.strip()), Row())
        row.calls += given["name_count"]
        row.time_us += given["Kernel Time (µs)_sum"]
        for kernel in _details(given.get("kernel_details__summarize_kernel_stats") or "[]"):
            row.of_kernel_us[kernel["name"]] += kernel["total_duration_us"]
    return rows


def difference(ours: Row, theirs: Row) -> str:
    """Return what explains the difference of two rows' times."""
    if not theirs.time_us and not theirs.of_kernel_us:
        return "TraceLens links no kernel to it: it follows flows named ac2g only"
    more_us, rounding_us = theirs.time_us - ours.time_us, 0.02 + 1e-5 * theirs.time_us
    if abs(more_us) < rounding_us:
        return "equal"
    copies_us = sum(us for name, us in theirs.of_kernel_us.items() if name.startswith(COPIES))
    if copies_us and abs(more_us - copies_us) < rounding_us:
        return "copies and sets counted with the operator"
    for count in range(1, min(len(theirs.of_kernel_us), 8)):
        for some in combinations(theirs.of_kernel_us.values(), count):
            if abs(more_us - sum(some)) < rounding_us:
                return "the operator's other kernels counted with it"
    if theirs.of_kernel_us and abs(sum(theirs.of_kernel_us.values()) - ours.time_us) < rounding_us:
        return "kernels that overlap counted once"
    return "not explained"


def alone(key: tuple[str, str], operators: pl.DataFrame) -> str:
    """Return why a row of TraceLens's has none in ours."""
    rows = operators.filter((pl.col("operator") == key[0]) & (pl.col("shape").str.strip_chars() == key[1]))
    return f"theirs alone: ours is {rows['family'][0]}" if rows.height else "theirs alone: no such operator"


def our_budget(run: tt.Run) -> list[float]:
    """Return idle, compute and the rest [us], and the share of communication that computing hides [%]."""
    table = tt.summary(run).parts
    part_ms = dict(zip(table["part"], table["time_ms"], strict=True))
    compute = part_ms["computing"] + part_ms["overlapped communication"]
    rest = sum(part_ms[p] for p in ("exposed communication", "waiting for ranks", "copies"))
    idle = sum(part_ms[p] for p in PARTS if "idle" in p)
    moved = rest - part_ms["copies"] + part_ms["overlapped communication"]
    share = 100.0 * part_ms["overlapped communication"] / moved if moved else 0.0
    return [1000.0 * idle, 1000.0 * compute, 1000.0 * rest, share]


def unnamed_collectives_us(run: tt.Run) -> float:
    """Return the time of collectives that HTA does not know by name. [us]"""
    kernels = tt.classify(run).kernels
    unnamed = (pl.col("family") == "collective") & ~pl.col("name").str.contains("^nccl.*Kernel")
    return float(kernels.filter(unnamed)["duration_ns"].sum()) / 1000.0


def their_budgets(trace: Path, hta: str) -> list[list[float]]:
    """Return HTA's idle, compute, rest and overlap, once for each of the readings it could make."""
    try:
        done = subprocess.run(
            [hta, "-c", HTA, str(trace)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [[float(np.nan_to_num(x)) for x in line] for line in lines]


def called_only(trace: Path, folder: Path) -> Path:
    """Write a trace without the activities whose launch call it does not hold, which HTA leaves out."""
    text = trace.read_bytes()
    document = json.loads(gzip.decompress(text) if trace.suffix == ".gz" else text)
    events = document["traceEvents"]

    def kind(event: dict[str, Any]) -> str:
        return str(event.get("cat", "")).lower() if event.get("ph") == "X" else ""

    def number(event: dict[str, Any]) -> Any:
        return event.get("args", {}).get("correlation")

    called = {number(e) for e in events if kind(e) in LAUNCHES}
    document["traceEvents"] = [e for e in events if kind(e) not in ACTIVITIES or number(e) in called]
    (folder / "called.json").write_text(json.dumps(document))
    return folder / "called.json"


def show_products(run: tt.Run, trace: Path, peers: str, folder: Path) -> Counter[str]:
    """Print how the GEMM tables agree, and return how many rows there are of each kind."""
    theirs = their_products(trace, peers, folder)
    if theirs is None:
        print("  products  TraceLens cannot read the trace")
        return Counter()
    ours = our_products(run)
    both = ours.keys() & theirs.keys()
    classes = Counter(difference(ours[key], theirs[key]) for key in both)
    operators = tt.roofline(run).operators
    classes.update(alone(key, operators) for key in theirs.keys() - both)
    named = sum(":" in key[0] for key in ours.keys() - both)
    classes["ours alone: operator not in its list"] += named
    classes["ours alone: kernel without operator"] += len(ours.keys() - both) - named
    largest = max((abs(ours[key].time_us - theirs[key].time_us) for key in both), default=0.0)
    calls = [sum(rows[key].calls for key in both) for rows in (ours, theirs)]
    spent = [sum(rows[key].time_us for key in both) for rows in (ours, theirs)]
    print(f"  products  rows {len(ours)} ours, {len(theirs)} TraceLens, {len(both)} matched; "
          f"launches {calls[0]:,} ours, calls {calls[1]:,}; time {spent[0]:,.1f} and {spent[1]:,.1f} us; "
          f"largest difference of a row {largest:,.3f} us")  # fmt: skip
    for name, count in sorted(classes.items()):
        if count:
            print(f"            {count:4d}  {name}")
    return classes


def show_budget(run: tt.Run, trace: Path, hta: str, folder: Path) -> str:
    """Print how the time budgets agree, and return under which reading of the trace HTA's are ours."""
    theirs = their_budgets(trace, hta)
    if not theirs:
        print("  budget    HTA cannot read the trace")
        return "HTA cannot read the trace"
    ours, named_us = our_budget(run), unnamed_collectives_us(run)
    theirs += [
        [idle, compute - named_us, rest + named_us, share] for idle, compute, rest, share in theirs[-1:]
    ]
    why, off_us = reading_of(ours, theirs, run.kernels.height)
    uncalled = run.kernels["launch_ns"].null_count()
    if why is None and 0 < uncalled < run.kernels.height:
        fewer = our_budget(ingested(called_only(trace, folder), folder))
        why, off_us = reading_of(fewer, theirs, run.kernels.height)
        why = why and f"HTA leaves out {uncalled} activities without a launch call ({why})"
    print(f"  budget    idle {ours[0] / 1000:,.3f} ms ours, {theirs[0][0] / 1000:,.3f} HTA; "
          f"compute {ours[1] / 1000:,.3f}, {theirs[0][1] / 1000:,.3f}; rest {ours[2] / 1000:,.3f}, "
          f"{theirs[0][2] / 1000:,.3f}; overlap {ours[3]:.2f} %, {theirs[0][3]:.2f} %: "
          f"{why or 'not explained'}; largest difference so {off_us:,.3f} us")  # fmt: skip
    return why or "not explained"


def reading_of(ours: list[float], theirs: list[list[float]], activities: int) -> tuple[str | None, float]:
    """Return the reading under which HTA's budget is ours, if any is, and the least difference. [us]"""
    # HTA holds times as floats of microseconds since the trace began: 4 ns in ten seconds, a gap at a time
    rounding_us = 1.0 + 1e-3 * activities
    off = [max(abs(a - b) for a, b in zip(ours[:3], told[:3], strict=True)) for told in theirs]
    return next((READINGS[i] for i, us in enumerate(off) if us <= rounding_us), None), min(off)


def ingested(trace: Path, folder: Path) -> tt.Run:
    """Return a trace as a run; of a GPU not known here as one that is, which no time depends on."""
    run = tt.ingest(trace, out=folder / f"{trace.name}.tracetool")
    named = run.devices["gpu"]
    if len(named) and not named.null_count():
        return run
    stand_in = STAND_INS[run.devices["vendor"].drop_nulls().first() or "nvidia"]  # type: ignore[index]
    return tt.ingest(trace, gpu=stand_in, out=folder / f"{trace.name}-stand-in.tracetool")


def main() -> None:
    """Compare trace after trace, small ones first."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("data", type=Path)
    ask.add_argument("--peers", required=True, metavar="PYTHON", help="The Python that has the peers.")
    ask.add_argument("--hta", metavar="PYTHON", help="The Python that has HTA, if not that of --peers.")
    ask.add_argument("--largest-kb", type=float, default=800.0, help="Leave larger files out.")
    ask.add_argument("--only", default="", help="Part of the names of the traces to compare.")
    given = ask.parse_args()
    place = given.data / "traces" / "kineto"
    files = place.iterdir() if place.is_dir() else given.data.rglob("*")
    named = [p for p in files if given.only in p.name]
    traces = [p for p in named if p.name.endswith((".json", ".json.gz"))]
    rows: Counter[str] = Counter()
    budgets: Counter[str] = Counter()
    for trace in sorted(traces, key=lambda p: p.stat().st_size):
        if trace.stat().st_size > 1000 * given.largest_kb:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = ingested(trace, Path(folder))
                print(f"{trace.name}: {run.kernels.height:,} activities", flush=True)
                rows += show_products(run, trace, given.peers, Path(folder) / "tracelens")
                budgets[show_budget(run, trace, given.hta or given.peers, Path(folder))] += 1
            except tt.TracetoolError as error:
                print(f"{trace.name}: {error}", file=sys.stderr)
    for title, counts in (("rows of products", rows), ("time budgets", budgets)):
        print(f"{counts.total()} {title}: " + "; ".join(f"{n} {why}" for why, n in counts.most_common()))


if __name__ == "__main__":
    main()
