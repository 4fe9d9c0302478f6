"""A trace that names no GPU: what it is taken for is said, and no other maker's GPU is taken for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tracetool as tt
from tests.sources.makers import kineto_document, kineto_events
from tracetool.replay.unnamed_gpu import trace_vendor
from tracetool.tables.run import Run

Told = dict[str, Callable[..., tuple[str, ...]]]
ROCPROF = "mi300x_kernel_trace.csv"


@pytest.fixture(scope="module")
def unnamed(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of rocprof that names no GPU."""
    return tt.ingest(samples / ROCPROF, out=tmp_path_factory.mktemp("unnamed") / "run.tracetool").path


def _taken(notes: tuple[str, ...]) -> list[str]:
    return [note for note in notes if "taken as recorded on" in note]


def test_what_an_unnamed_trace_is_taken_for_is_said(unnamed: Path) -> None:
    (note,) = _taken(tt.predict(unnamed, gpu="mi300x").notes)
    assert note.startswith("the trace names no GPU: its times are taken as recorded on mi300x; ")
    assert "ingest the trace with --gpu" in note
    assert _taken(tt.predict(unnamed, gpu="mi300x", anchor="none").notes)


def test_a_named_trace_says_nothing(samples: Path, tmp_path: Path) -> None:
    run = tt.ingest(samples / ROCPROF, gpu="mi300x", out=tmp_path / "run.tracetool")
    assert not _taken(tt.predict(run).notes)
    carried = tt.predict(run, gpu="b200-sxm")  # to another maker's: by the model's ratio
    assert not _taken(carried.notes) and any("recorded on mi300x" in note for note in carried.notes)


@pytest.mark.parametrize("job", [tt.predict, tt.sweep, tt.roofline, tt.diagnose])
def test_another_makers_gpu_is_refused(job: object, unnamed: Path) -> None:
    with pytest.raises(tt.BadInput, match="recorded on a GPU of AMD, not on h100-sxm") as refused:
        job(unnamed, gpu="h100-sxm")  # type: ignore[operator]
    assert "ingest it with the GPU it ran on, e.g. --gpu mi300x" in refused.value.fix


def test_ingest_refuses_another_makers_gpu(samples: Path, tmp_path: Path) -> None:
    with pytest.raises(tt.BadInput, match="--gpu h100-sxm: the trace was recorded on a GPU of AMD"):
        tt.ingest(samples / ROCPROF, gpu="h100-sxm", out=tmp_path / "run.tracetool")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("job", [tt.predict, tt.sweep])
def test_the_gpu_suggested_is_the_traces_maker_s(job: object, unnamed: Path, tmp_path: Path) -> None:
    with pytest.raises(tt.BadInput, match="names no GPU") as refused:
        job(unnamed)  # type: ignore[operator]
    assert "name it: --gpu mi300x;" in refused.value.fix
    file = tmp_path / "cuda.json"
    file.write_text(json.dumps(kineto_document(kineto_events(), deviceProperties=[])))
    of_cuda = tt.ingest(file, out=tmp_path / "cuda.tracetool")
    with pytest.raises(tt.BadInput, match="names no GPU") as refused:
        job(of_cuda.path)  # type: ignore[operator]
    assert "name it: --gpu h100-sxm;" in refused.value.fix


@pytest.mark.parametrize(
    ("kept", "header", "vendor"),
    [
        (("kernel", "cuda_runtime"), {}, "nvidia"),
        (("kernel",), {"cupti_version": 26}, "nvidia"),
        (("kernel",), {}, None),
    ],
)
def test_whose_gpus_a_profile_is_of_is_known_only_where_it_says_so(
    kept: tuple[str, ...], header: dict[str, object], vendor: str | None, tmp_path: Path
) -> None:
    document = kineto_document([e for e in kineto_events() if e.get("cat") in kept])
    for key in ("deviceProperties", "cupti_version"):
        del document[key]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(document | header))
    assert trace_vendor(Run.open(tt.ingest(file, out=tmp_path / "run.tracetool").path)) == vendor


@pytest.fixture(scope="module")
def told(unnamed: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Return the jobs that go on without a prediction: what each notes."""
    out = tmp_path_factory.mktemp("told") / "run.pftrace"
    return {
        "summary": lambda **gpu: tt.summary(unnamed, **gpu).notes,
        "attribute": lambda **gpu: tt.energy_by(unnamed, ["family"], **gpu).notes,
        "export": lambda **gpu: tt.export(unnamed, out, **gpu).notes,
    }


JOBS = ("summary", "attribute", "export")


@pytest.mark.parametrize("job", JOBS)
def test_without_log_and_gpu_one_note_says_so_with_the_fix(job: str, told: Told) -> None:
    (note,) = [n for n in told[job]() if "power readings" in n or "predicted" in n]
    assert note.startswith("no energies: no power readings, and not predicted: ")
    assert note.endswith("names no GPU (name it: --gpu mi300x; the known ones: tracetool gpus)")


@pytest.mark.parametrize("job", JOBS)
def test_with_the_gpu_given_energies_are_predicted(job: str, told: Told) -> None:
    notes = told[job](gpu="mi300x")
    assert "no power readings: energies are predicted" in notes and len(_taken(notes)) == 1


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("gpu", "fault"), [("h100-sxm", "GPU of AMD"), ("mi300x-foo", "no GPU called")])
def test_a_wrong_gpu_is_no_note(job: str, gpu: str, fault: str, told: Told) -> None:
    with pytest.raises(tt.BadInput, match=fault):
        told[job](gpu=gpu)
