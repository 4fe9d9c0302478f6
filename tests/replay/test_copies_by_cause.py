"""Causes of copies and sets that run alone: by the memories they go between, whatever the profiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracetool as tt

#: What runs alone, and the cause of its energy where it is a waste.
CAUSES = {
    "Memcpy DtoD (Device -> Device)": "redundant copies",
    "CopyDeviceToDevice": "redundant copies",
    "Memcpy HtoD (Pinned -> Device)": "host copies",
    "Memcpy DtoH (Device -> Pageable)": "host copies",
    "CopyDeviceToHost": "host copies",
    "Memcpy PtoP (Device -> Device)": None,
    "Memset (Device)": None,
}


def _event(name: str, start_us: float, **arguments: object) -> dict[str, object]:
    kind = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    place = {"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": 7, "ts": start_us, "dur": 100.0}
    return {**place, "args": {"device": 0, "stream": 7, "bytes": 1 << 20, **arguments}}


def _diagnosed(folder: Path, names: tuple[str, ...]) -> tt.Diagnosis:
    events = [_event(n, 200.0 * i, correlation=i + 1) for i, n in enumerate(names)]
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}
    path = folder / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [gpu], "traceEvents": events}))
    return tt.diagnose(tt.ingest([path], out=folder / "run.tracetool"))


@pytest.mark.parametrize("name", CAUSES)
def test_a_copy_has_the_cause_of_the_memories_it_goes_between(tmp_path: Path, name: str) -> None:
    rows = _diagnosed(tmp_path, (name,)).rows
    wastes = {"redundant copies", "host copies"} & set(rows["cause"])
    assert wastes == ({CAUSES[name]} - {None})
    if CAUSES[name]:
        assert set(rows["cause"]) == {CAUSES[name]}


def test_copies_of_one_run_are_told_apart(tmp_path: Path) -> None:
    diagnosis = _diagnosed(tmp_path, tuple(CAUSES))
    rows = diagnosis.rows.drop_nulls("signature")
    for cause in ("redundant copies", "host copies"):
        of_cause = {name for name, one in CAUSES.items() if one == cause}
        assert set(rows.filter(rows["cause"] == cause)["name"]) == of_cause
    assert rows["energy_j"].sum() <= diagnosis.causes["energy_j"][-1]
