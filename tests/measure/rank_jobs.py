"""Jobs of several ranks by the samples' own generator, as runs."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracetool as tt

_SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@dataclass(frozen=True)
class RankJob:
    """A job, the run its files were read into, and what each rank really spent."""

    run: tt.Run
    folder: Path
    truth: list[dict[str, Any]]


def written_job(folder: Path, **job: Any) -> list[dict[str, Any]]:
    """Write the files of a job and return its truth."""
    sys.path.insert(0, str(_SAMPLES))
    try:
        generator = importlib.import_module("rank_job")
    finally:
        sys.path.remove(str(_SAMPLES))
    truth: list[dict[str, Any]] = generator.write_job(generator.Job(**job), folder)
    return truth


def read_job(folder: Path, **job: Any) -> RankJob:
    """Write a job's files and read them into a run."""
    truth = written_job(folder, **job)
    traces = [folder / f"rank{rank}.json.gz" for rank in range(len(truth))]
    run = tt.ingest(traces, sorted(folder.glob("power*.csv")), tz="-05:00", out=folder / "job.tracetool")
    return RankJob(run, folder, truth)
