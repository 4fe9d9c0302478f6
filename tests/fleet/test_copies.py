"""A trace counts once in a data set, whichever calls, names and copies brought it there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tracetool as tt
from tests.documents import check_document
from tests.fleet.test_fleet import found, kineto
from tracetool.fleet.jobs import run_name
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.storage import Place

pytestmark = pytest.mark.usefixtures("fleet_here")


def ingested(source: Path, target: Path) -> tuple[int, int, tuple[str, ...]]:
    jobs = tt.fleet_ingest(source, target, workers=1)
    check_document("fleet ingest", jobs.to_dict())
    return jobs.done, jobs.skipped, jobs.notes


def names(target: Path) -> list[str]:
    return tt.fleet_ask("jobs", target).frame["job"].to_list()


def test_a_folder_below_a_source_holds_the_same_jobs(tmp_path: Path) -> None:
    kineto(tmp_path / "src" / "a" / "step.pt.trace.json", launches=2)
    target = tmp_path / "set"
    assert ingested(tmp_path / "src", target) == (1, 0, ())
    assert ingested(tmp_path / "src" / "a", target) == (0, 1, ())
    assert names(target) == ["a--step"]
    assert ingested(tmp_path / "src" / "a" / "*.json", target) == (0, 1, ())  # names no log: it has one still
    kineto(tmp_path / "src" / "a" / "step.pt.trace.json", launches=3)  # changed: read anew, the same job
    assert ingested(tmp_path / "src" / "a", target) == (1, 0, ())
    assert tt.fleet_ask("jobs", target).frame.select("job", "kernels").rows() == [("a--step", 3)]


def test_a_copy_counts_once_whenever_it_comes(tmp_path: Path) -> None:
    trace = kineto(tmp_path / "src" / "b" / "step.pt.trace.json", launches=2)
    target = tmp_path / "set"
    ingested(tmp_path / "src", target)
    tt.fleet_run("attribute", target, workers=1)
    whole = tt.fleet_ask("energy", target).frame["energy_j"].sum()
    (tmp_path / "src" / "a").mkdir()
    copy = Path(shutil.copy(trace, tmp_path / "src" / "a" / "moved.json"))
    for _ in range(2):  # found out once, known then
        done, skipped, (note,) = ingested(tmp_path / "src", target)
        assert (done, skipped) == (0, 1)
        assert note == "a--moved holds the traces of b--step: they count once"
        tt.fleet_run("attribute", target, workers=1)
        assert names(target) == ["b--step"]
        assert tt.fleet_ask("energy", target).frame["energy_j"].sum() == pytest.approx(whole)
        assert [p.name for p in (target / "runs").iterdir()] == ["job=b--step"]
    kineto(trace, launches=3)  # the one it was a copy of changed: the copy is all there is of that work
    assert ingested(tmp_path / "src", target) == (2, 0, ())
    assert names(target) == ["a--moved", "b--step"]
    shutil.copy(trace, copy)
    assert ingested(tmp_path / "src", target)[2] == ("b--step holds the traces of a--moved: they count once",)
    assert names(target) == ["a--moved"]


def test_a_data_set_that_counted_a_trace_twice_is_put_right(tmp_path: Path) -> None:
    trace = kineto(tmp_path / "src" / "a" / "step.pt.trace.json", launches=2)
    target = tmp_path / "set"
    ingested(tmp_path / "src", target)
    place = Place(target)
    entry = Manifest(place, "ingest").entries()["a--step"]
    for name in ("job", "from", "traces", "trace_sha256"):  # as an earlier version wrote it
        del entry[name]
    Manifest(place, "ingest").write("step", entry)
    Manifest(place, "ingest").write("a--step", entry)
    shutil.copytree(target / "runs" / "job=a--step", target / "runs" / "job=step")
    tt.fleet_run("attribute", target, workers=1)
    assert len(tt.fleet_ask("energy", target).frame) == 2
    tt.fleet_ingest(trace, target, workers=1)
    assert names(target) == ["a--step"]
    assert tt.fleet_ask("energy", target).frame["name"].to_list() == ["a--step"]


def test_ranks_that_come_later_are_of_the_same_job(tmp_path: Path) -> None:
    kineto(tmp_path / "src" / "rank0.pt.trace.json", launches=2)
    target = tmp_path / "set"
    ingested(tmp_path / "src", target)
    assert names(target) == ["rank0"]
    kineto(tmp_path / "src" / "rank1.pt.trace.json", rank=1, launches=2)
    assert ingested(tmp_path / "src", target)[:2] == (1, 0)
    assert tt.fleet_ask("jobs", target).frame.select("job", "kernels").rows() == [("rank", 4)]


def test_equal_names_of_two_calls_are_two_jobs(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        kineto(tmp_path / folder / "step.pt.trace.json", launches=2)
        ingested(tmp_path / folder, tmp_path / "set")
    first, second = names(tmp_path / "set")
    assert first == "step"
    assert second.startswith("step-")
    for folder in ("two", "one"):
        assert ingested(tmp_path / folder, tmp_path / "set") == (0, 1, ())


def test_names_keep_their_dots_and_logs_their_traces(tmp_path: Path) -> None:
    models = ("Qwen1.5-0.5B", "Qwen1.5-7B", "step1", "step10")
    for model in models:
        kineto(tmp_path / f"{model}.pt.trace.json", launches=2)
        (tmp_path / "Qwen1_power.csv").rename(tmp_path / f"{model}_power.csv") if "." in model else None
    jobs = {j.name: [Path(i.path).name for i in j.logs] for j in found([str(tmp_path)])}
    assert jobs == {model: [f"{model}_power.csv"] for model in models}
    for rank in (0, 1):
        kineto(tmp_path / "ranks" / f"Qwen1.5_rank{rank}.pt.trace.json", rank=rank, launches=2)
    assert [j.name for j in found([str(tmp_path / "ranks")])] == ["Qwen1.5_rank"]
    for n in (1700, 1800):  # names cut at the first dot still say whose log it is
        (tmp_path / "hosts").mkdir(exist_ok=True)
        (tmp_path / "hosts" / f"host.{n}.pt.trace.json").write_text("{}")
    (tmp_path / "hosts" / "host_power.csv").write_text("")
    assert [(j.name, len(j.logs)) for j in found([str(tmp_path / "hosts")])] == [
        ("host.1700", 1), ("host.1800", 1)
    ]  # fmt: skip


def test_a_job_keeps_the_name_that_a_data_set_has_for_it(tmp_path: Path) -> None:
    kineto(tmp_path / "src" / "Qwen1.5-7B.pt.trace.json", launches=2)
    target = tmp_path / "set"
    ingested(tmp_path / "src", target)
    assert names(target) == ["Qwen1.5-7B"]
    manifest = target / "manifest" / "ingest" / "Qwen1.5-7B.json"
    document = json.loads(manifest.read_text("utf-8"))
    (target / "runs" / "job=Qwen1.5-7B").rename(target / "runs" / "job=Qwen1")
    manifest.with_name("Qwen1.json").write_text(json.dumps({**document, "job": "Qwen1", "marks": "earlier"}))
    manifest.unlink()
    assert ingested(tmp_path / "src", target) == (1, 0, ())
    assert names(target) == ["Qwen1"]


@pytest.mark.parametrize(
    "end", [".pt.trace.json.gz", ".nsys-rep", ".xplane.pb", ".tar.gz", ".perfetto-trace"]
)
def test_only_endings_of_formats_are_no_name(end: str) -> None:
    assert run_name(f"Llama-3.1-8B.v2{end}") == "Llama-3.1-8B.v2"
