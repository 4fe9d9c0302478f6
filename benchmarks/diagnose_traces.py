"""Diagnose real traces: what the joules of the causes miss the run's by, and those of pairs their change.

``python benchmarks/diagnose_traces.py [FOLDER]``, by default ``../shared/data/traces``. Where a trace names
no GPU an H100 is assumed. Pairs are one model on two GPUs, one program in two versions or settings.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tracetool as tt

FOLDER = Path(
    sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "shared/data/traces"
)
ASSUMED = "h100-sxm"
#: Words in the names of two traces of one program.
PAIRS = (
    ("h100__gaunernst", "mi300__gaunernst"),
    ("h100__Qwen", "mi300__Qwen"),
    ("h100__Falcon", "mi300__Falcon"),
    ("num_workers_0", "num_workers_4"),
    ("control__control", "test__test"),
    ("test01_trace1", "test01_trace2"),
    ("test02_trace1", "test02_trace2"),
    ("matrix_multi_report.nsys", "matrix_multi_report_v1"),
    ("SIGMA__report1", "SIGMA__report2.nsys"),
    ("resest2", "resest3"),
    ("nussinov-gpu__report1.", "nussinov-gpu__report10"),
)


def gpu_of(run: tt.Run) -> str | None:
    """Return the GPU to assume: none where the trace names one that is known."""
    try:
        tt.predict(run)
    except tt.TracetoolError:
        return ASSUMED
    return None


with tempfile.TemporaryDirectory() as scratch:
    runs: dict[str, tuple[tt.Run, str | None]] = {}
    worst, refused = 0.0, 0
    for number, path in enumerate(sorted(p for p in FOLDER.glob("*/*") if p.is_file())):
        try:
            run = tt.ingest([path], out=Path(scratch) / f"{number}.tracetool")
            assumed = gpu_of(run)
            diagnosis = tt.diagnose(run, gpu=assumed)
        except tt.TracetoolError as error:
            refused += 1
            print(f"not diagnosed: {str(error).replace(str(FOLDER), '')[:110]}", flush=True)
            continue
        runs[path.name] = run, assumed
        *parts, whole = diagnosis.causes["energy_j"].to_list()
        missed = max(abs(sum(parts) - whole), abs(float(diagnosis.rows["energy_j"].sum()) - whole))
        worst = max(worst, missed / whole if whole else missed)
        print(
            f"{path.name[-60:]:60} {whole:12.4g} J, sums miss it by {missed / whole if whole else 0:.1e}",
            flush=True,
        )
    print(f"{len(runs)} traces diagnosed, {refused} not; causes sum to the run within {worst:.1e}")
    worst = 0.0
    compared = 0
    for words in PAIRS:
        names = [next((n for n in runs if word in n), None) for word in words]
        if None in names:
            continue
        (base, one), (head, two) = (runs[str(n)] for n in names)
        pair = tt.diagnose_pair(base, head, gpu=one or two)
        *parts, change = pair.causes["change_j"].to_list()
        size = pair.source.base.energy_j + pair.source.head.energy_j
        missed = max(abs(sum(parts) - change), abs(float(pair.rows["change_j"].sum()) - change)) / size
        worst, compared = max(worst, missed), compared + 1
        print(
            f"{words[0]:26} {words[1]:26} {change:+11.4g} J a {pair.source.unit}, missed by {missed:.1e}",
            flush=True,
        )
    print(f"{compared} pairs; causes sum to the change within {worst:.1e} of the energy")
