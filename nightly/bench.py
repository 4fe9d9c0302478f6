"""Time and memory of the main jobs beside other tools, on the same inputs, in one go.

``python nightly/bench.py [--kernels 1000000] [--hta PYTHON] [--tracelens PYTHON] [--growth]``: inputs are made by script; each job is
a process of its own, interpreter start included, ours and the peer's in turns. Peers: connectorx and plain polars (here), ``nsys stats``
(where ``nsys`` is on PATH), HolisticTraceAnalysis and TraceLens (in environments of their own, whose Python is given). A peer that
is not there is named and left out. Reading beside the peers is ``benchmarks/ingest.py``, which this runs first; the model beside a plain
roofline is ``benchmarks/predict.py``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import ingest_inputs  # noqa: E402
from ingest import Cost, cost  # noqa: E402

TOOL = [sys.executable, "-m", "tracetool"]
#: Sums by name of what the file or the run holds: the least any tool for the question must do.
_POLARS_RUN = (
    "import polars as pl, sys; k = pl.read_parquet(sys.argv[1] + '/kernels.parquet', columns=['signature', 'duration_ns']);"
    " print(k.group_by('signature').agg(pl.sum('duration_ns'), pl.len()).sort('duration_ns').height)"
)
_CONNECTORX_NAMES = (
    'import connectorx as c, sys; q = \'SELECT s.value, sum(k."end" - k.start), count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k'
    " JOIN StringIds s ON s.id = k.demangledName GROUP BY 1'; print(c.read_sql('sqlite://' + sys.argv[1], q, return_type='polars').height)"
)
_HTA_KERNELS = (
    "import sys, logging; logging.disable(logging.CRITICAL)\n"
    "from hta.trace_analysis import TraceAnalysis\n"
    "t = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='/')\n"
    "print(len(t.get_gpu_kernel_breakdown(visualize=False)[1]))"
)
_TRACELENS = (
    "import sys\nfrom TraceLens import TreePerfAnalyzer\n"
    "a = TreePerfAnalyzer.from_file(sys.argv[1])\nprint(len(a.get_df_kernel_launchers()))"
)


def line(title: str, used: Cost | None, reason: str = "failed") -> None:
    """Print one job."""
    text = (
        f"{used.wall_s:7.2f} s  {used.cpu_s:6.2f} s CPU  {used.peak_mib:6.0f} MiB" if used else f"  {reason}"
    )
    print(f"  {title:52s} {text}", flush=True)


def beside(title: str, ours: list[str], peers: dict[str, list[str] | None], repeat: int) -> None:
    """Print a job beside what peers do of it, and the ratios of wall times."""
    print(f"\n{title}")
    cost(ours, 1)
    used = cost(ours, repeat)
    line("tracetool " + " ".join(w for w in ours[3:] if not w.startswith("/")), used)
    for name, words in peers.items():
        if words is None:
            line(name, None, "not installed here")
            continue
        peer = cost(words, repeat)
        line(name, peer)
        if used and peer:
            print(
                f"    ours / theirs: {used.wall_s / peer.wall_s:.2f} wall, {used.cpu_s / peer.cpu_s:.2f} CPU"
            )


def kernel_report(nsys: str) -> str:
    """Return what this release calls its sums by kernel: an unknown name ends in exit code 0 too."""
    reports = subprocess.run(
        [nsys, "stats", "--help-reports"], capture_output=True, text=True, check=False
    ).stdout
    return "cuda_gpu_kern_sum" if "cuda_gpu_kern_sum" in reports else "gpukernsum"


def growth(folder: Path, sizes: tuple[int, ...]) -> None:
    """Print what each job takes as the run grows."""
    print("\ngrowth with the run (Nsight SQLite, made by script)")
    for kernels in sizes:
        source = ingest_inputs.nsys_sqlite(folder / f"g{kernels}.sqlite", kernels)
        run = str(folder / f"g{kernels}.tracetool")
        line(
            f"{kernels:>10,} kernels: ingest",
            cost([*TOOL, "ingest", "-q", "--gpu", "h100-sxm", str(source), "-o", run], 1),
        )
        for words in (["classify", run], ["predict", run, "--gpu", "h100-sxm", "--clock", "1200,1500,1755"]):
            line(f"{'':>10} {'':7}  {words[0]}", cost([*TOOL, *words, "-q"], 1))
        source.unlink()
        shutil.rmtree(run, ignore_errors=True)


def main() -> int:
    """Make the inputs, run everything, print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--hta", default="", help="the Python that has HolisticTraceAnalysis")
    parser.add_argument("--tracelens", default="", help="the Python that has TraceLens")
    parser.add_argument("--growth", action="store_true", help="also 0.1 to 10 million kernels")
    chosen = parser.parse_args()
    n, repeat = chosen.kernels, chosen.repeat
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [
            sys.executable,
            ROOT / "benchmarks" / "ingest.py",
            "--kernels",
            str(n),
            "--repeat",
            str(repeat),
            "--folder",
            folder,
        ]
        subprocess.run([*words, *(["--hta", chosen.hta] if chosen.hta else [])], check=True)
        sqlite, run = str(folder / "trace.sqlite"), str(folder / "sqlite.tracetool")
        if not Path(sqlite).exists():
            ingest_inputs.nsys_sqlite(Path(sqlite), n)
        subprocess.run([*TOOL, "ingest", "-q", "--gpu", "h100-sxm", sqlite, "-o", run], check=True)
        python = [sys.executable, "-c"]
        nsys = shutil.which("nsys")
        beside(f"What ran: {n:,} kernels by name and family", [*TOOL, "classify", run, "-q"], {
            "plain polars, sums by signature of the run": [*python, _POLARS_RUN, run],
            "connectorx, sums by name of the SQLite file": [*python, _CONNECTORX_NAMES, sqlite],
            "nsys stats, sums by name": [nsys, "stats", "-q", "-r", kernel_report(nsys), sqlite] if nsys else None,
        }, repeat)  # fmt: skip
        events = n // 8
        kineto = str(ingest_inputs.kineto_json(folder / "trace.json", events))
        beside(f"A PyTorch trace of {events:,} events: read, and kernels by operator", [*TOOL, "ingest", "-q", kineto, "-o", str(folder / "k.tracetool")], {
            "HolisticTraceAnalysis, kernel breakdown": [chosen.hta, "-c", _HTA_KERNELS, kineto] if chosen.hta else None,
            "TraceLens, kernel launchers": [chosen.tracelens, "-c", _TRACELENS, kineto] if chosen.tracelens else None,
        }, 1)  # fmt: skip
        print("\nWhat no peer does (same run)")
        for words in (
            ["predict", run, "--gpu", "h100-sxm", "--clock", "1200,1500,1755"],
            ["predict", run, "--gpu", "h100-sxm", "--clock", "1500", "--power-cap", "500"],
            ["export", run, "--gpu", "h100-sxm", "-o", str(folder / "run.pftrace")],
        ):
            line(
                "tracetool " + " ".join(w for w in words if not w.startswith("/")),
                cost([*TOOL, *words, "-q"], 1),
            )
        subprocess.run([sys.executable, ROOT / "benchmarks" / "predict.py"], check=True)
        if chosen.growth:
            growth(folder, (100_000, 1_000_000, 5_000_000))
    return 0


if __name__ == "__main__":
    sys.exit(main())
