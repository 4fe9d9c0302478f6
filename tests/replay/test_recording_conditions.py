"""At its own clock a run takes what it took; what the recording rules out is left aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import NIGHTLY
from tracetool.api.ingest import ingest
from tracetool.core.errors import TracetoolError
from tracetool.replay.predict_run import predict_run

#: Larger traces are tried by ``make fuzz`` and benchmarks/recorded_makespan.py. [bytes]
LARGEST = 130_000 if NIGHTLY else 40_000


@pytest.mark.data
def test_real_traces_keep_their_makespan(data: Path, tmp_path: Path) -> None:
    off: dict[str, float] = {}
    files = [f for f in sorted((data / "traces/kineto").iterdir()) if f.stat().st_size < LARGEST]
    for number, file in enumerate(files):
        try:
            made = predict_run(ingest([file], [], tz=None, gpu=None, out=tmp_path / str(number)).path)
        except TracetoolError:
            continue  # no kernels, or a GPU nobody described
        off[file.name] = made.totals[0]["makespan_ms"] / made.info["recorded_makespan_ms"] - 1.0
        parts = sum(made.totals[0]["energy_parts_j"].values())
        assert parts == pytest.approx(made.totals[0]["energy_j"], rel=1e-9)
    assert len(off) >= 10
    assert max(np.abs(list(off.values()))) < 0.01, off


@pytest.mark.data
def test_a_run_bound_by_its_host_keeps_its_time_and_saves_energy(data: Path, tmp_path: Path) -> None:
    file = next((data / "traces/kineto").glob("*h100__gaunernst_bert-small*"))
    slow, fast = predict_run(
        ingest([file], [], tz=None, gpu=None, out=tmp_path / "run").path, clocks_mhz=[800, 1980]
    ).totals
    assert slow["makespan_ms"] < 1.02 * fast["makespan_ms"]
    assert slow["energy_j"] < 0.9 * fast["energy_j"]
    assert fast["gaps_ms"]["host"] > 0.7 * fast["makespan_ms"]
