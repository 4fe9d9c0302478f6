"""Plant one waste in a run, fifteen times: does the diagnosis name it first, and count its joules?

Runs without one have no finding of 3 % and more.

``python benchmarks/diagnosis.py [NAME ...]``
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tracetool as tt
from tests.replay.planted_causes import CLEAN, MAKERS
from tests.replay.planted_files import write_planted_cause

NAMES = sys.argv[1:] or [*CLEAN, *MAKERS]
named = counted = 0
largest = 0.0
print(f"{'planted':24} {'J':>8} {'first finding':24} {'J':>8} {'error':>7} {'share':>6}")
for name in NAMES:
    planted = (CLEAN | MAKERS)[name]()
    with tempfile.TemporaryDirectory() as folder:
        traces, log = write_planted_cause(planted, Path(folder))
        found = tt.diagnose(tt.ingest(traces, [log], tz="+00:00", out=Path(folder) / "run")).findings
    first = found[0] if found else None
    cause, energy_j, share = (
        ("none", 0.0, 0.0) if first is None else (first.cause, first.energy_j, first.share)
    )
    error = energy_j / planted.joules - 1.0 if planted.joules else 0.0
    largest = largest if planted.cause else max(largest, share)
    named += bool(planted.cause) and cause == planted.cause
    counted += bool(planted.cause) and cause == planted.cause and abs(error) <= 0.10
    planted_text = f"{planted.cause or name:24} {planted.joules:8.1f}"
    print(f"{planted_text} {cause:24} {energy_j:8.1f} {error:+7.1%} {share:6.1%}", flush=True)
print(f"{named} of {len(set(NAMES) - set(CLEAN))} named first, {counted} of them within 10 %")
print(f"largest finding of {len(set(NAMES) & set(CLEAN))} clean runs: {largest:.1%} of the run")
