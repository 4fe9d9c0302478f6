"""Traces of different GPUs, or of different days, in one run: said at ingest, and not predicted as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracetool as tt
from tests.sources.makers import kineto_document, kineto_events
from tracetool.core.errors import BadInput

DAYS_NS = 9 * 86_400 * 10**9


def _trace(path: Path, gpu: str, later_ns: int = 0, **properties: object) -> Path:
    document = kineto_document(kineto_events())
    for device in document["deviceProperties"]:  # type: ignore[attr-defined]
        device |= {"name": gpu, **properties}
    base = int(document.get("baseTimeNanoseconds", 0)) or 1_750_000_000_000_000_000  # type: ignore[call-overload]
    document["baseTimeNanoseconds"] = base + later_ns
    path.write_text(json.dumps(document), "utf-8")
    return path


def _warnings(run: object) -> list[str]:
    return list(run.info["warnings"])  # type: ignore[attr-defined]


def test_traces_of_other_days_are_named(tmp_path: Path) -> None:
    first, later = (_trace(tmp_path / f"{n}.json", "NVIDIA H100 80GB HBM3", n * DAYS_NS) for n in (0, 1))
    run = tt.ingest([first, later], out=tmp_path / "days.tracetool")
    (said,) = [w for w in _warnings(run) if "apart" in w]
    assert said.startswith("0.json and 1.json lie 9.0 days apart") and "run of its own" in said


def test_ranks_and_restarts_lie_together(tmp_path: Path) -> None:
    minute = 60 * 10**9
    paths = [_trace(tmp_path / f"{n}.json", "NVIDIA H100 80GB HBM3", n * minute) for n in (0, 1, 2)]
    run = tt.ingest(paths, out=tmp_path / "near.tracetool")
    assert not [w for w in _warnings(run) if "apart" in w]


def test_gpus_of_several_architectures_are_not_predicted_as_one(tmp_path: Path) -> None:
    one = _trace(tmp_path / "h100.json", "NVIDIA H100 80GB HBM3")
    other = _trace(tmp_path / "mi300x.json", "AMD Instinct MI300X")
    run = tt.ingest([one, other], out=tmp_path / "two.tracetool")
    for job in (tt.predict, tt.sweep, tt.roofline, tt.diagnose):
        with pytest.raises(BadInput, match=r"several GPUs \((h100-sxm, mi300x|mi300x, h100-sxm)\)"):
            job(run)
    tt.classify(run)  # what needs no model goes on


def test_a_sibling_is_predicted_with_a_note(tmp_path: Path) -> None:
    one = _trace(tmp_path / "h100.json", "NVIDIA H100 80GB HBM3", numSms=132)
    other = _trace(tmp_path / "h200.json", "NVIDIA H200", numSms=132)
    notes = tt.ingest([one, other], out=tmp_path / "two.tracetool").predict().notes
    assert [n for n in notes if n.startswith("kernels of ") and "are predicted as those of h" in n]
