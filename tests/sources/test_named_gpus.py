"""``ingest --gpu``: for a GPU that the trace does not name, not in place of one that it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracetool as tt
from tests.sources.makers import kineto_document, kineto_events, rocprof_csv

GIB = 1 << 30


def _run(folder: Path, gpu: str | None, **device: object) -> tt.Run:
    document = kineto_document(kineto_events(), deviceProperties=[{"id": i, **device} for i in range(2)])
    trace = folder / "trace.json"
    trace.write_text(json.dumps(document))
    return tt.ingest(trace, gpu=gpu, out=folder / "run.tracetool")


def _unused(run: tt.Run) -> list[str]:
    return [w for w in run.info["warnings"] if "not used" in w]  # type: ignore[attr-defined]


def test_what_the_trace_names_is_kept_and_said(tmp_path: Path) -> None:
    named = {"name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "totalGlobalMem": 80 * GIB}
    run = _run(tmp_path, "h100-sxm", **named)
    assert set(run.devices["gpu"]) == {"a100-sxm"}
    (note,) = _unused(run)
    assert note.startswith(
        "--gpu h100-sxm not used: the trace names NVIDIA A100-SXM4-80GB, which is a100-sxm;"
    )
    assert note.endswith("tracetool predict RUN --gpu h100-sxm")


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ({"name": "NVIDIA A100-SXM4-80GB"}, "a100-sxm"),
        ({"name": "NVIDIA X900 Prototype"}, "h100-sxm"),
        ({}, "h100-sxm"),
        # the driver calls both sizes alike
        ({"name": "NVIDIA H20"}, "h20-141gb"),
        ({"name": "Tesla V100-SXM2"}, "v100-sxm2-32gb"),
        # a slice of a GPU, or another model by its own figures
        ({"name": "NVIDIA A100-SXM4-80GB", "numSms": 14, "totalGlobalMem": 10 * GIB}, "a2"),
    ],
)
def test_the_gpu_given_counts_where_the_name_leaves_it_open(
    device: dict[str, object], gpu: str, tmp_path: Path
) -> None:
    run = _run(tmp_path, gpu, **device)
    assert set(run.devices["gpu"]) == {gpu} and not _unused(run)


def test_another_memory_than_stated_is_not_taken(tmp_path: Path) -> None:
    run = _run(tmp_path, "v100-sxm2-32gb", name="Tesla V100-SXM2-16GB", totalGlobalMem=16 * GIB)
    assert set(run.devices["gpu"]) == {"v100-sxm2-16gb"} and len(_unused(run)) == 1


def test_a_large_trace_is_named_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETOOL_WINDOW", "5")
    run = _run(tmp_path, "h100-sxm", name="NVIDIA A100-SXM4-80GB")
    assert set(run.devices["gpu"]) == {"a100-sxm"} and len(_unused(run)) == 1


@pytest.mark.parametrize("window", [None, "300"])
def test_who_names_the_gpu_is_not_told_to(
    window: str | None, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if window:
        monkeypatch.setenv("TRACETOOL_WINDOW", window)
    trace = samples / "mi300x_kernel_trace.csv"
    for gpu, ends in (("mi300x", ": taken as mi300x"), (None, ": name it with --gpu")):
        run = tt.ingest(trace, gpu=gpu, out=tmp_path / f"{gpu}.tracetool")
        (note,) = [w for w in run.info["warnings"] if "does not name its GPU" in w]  # type: ignore[attr-defined]
        assert note.endswith(ends)


def test_a_file_that_names_no_gpu_asks_for_it_once(tmp_path: Path) -> None:
    """Its reader's note and one on a GPU without a name said the same."""
    run = tt.ingest(rocprof_csv(tmp_path), out=tmp_path / "run")
    asking = [w for w in run.info["warnings"] if "--gpu" in w]
    assert len(asking) == 1
    assert asking[0].endswith("does not name its GPU: name it with --gpu")
    assert run.summary().split(", ")[1] == "2 signatures"  # of kernels, as the number before it
