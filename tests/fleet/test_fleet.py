"""Folders and buckets of traces as one data set, and what it answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.fs as pafs
import pytest

import tracetool as tt
from tests.documents import check_document
from tests.sources import execution_files
from tests.sources.logs import LOGS, Log
from tracetool.fleet import jobs as jobs_of_files
from tracetool.fleet.jobs import Job, find_jobs
from tracetool.fleet.report import _answer
from tracetool.fleet.storage import Place
from tracetool.report.view import Drawing, Grid

GEMM = "ampere_sgemm_128x64_nn"


def kineto(path: Path, *, rank: int = 0, launches: int = 30, scale: float = 1.0) -> Path:
    """Write a trace of one GPU, and a power log beside it: 300 W in kernels, 60 W between and before."""
    start = 1_767_607_200_000_000.0
    launch = {"device": 0, "stream": 7, "grid": [32, 32, 1], "block": [128, 1, 1]}
    events = [
        {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": start + 2_000_000.0 * i,
         "dur": 1_000_000.0, "args": {**launch, "correlation": i + 1}}
        for i in range(launches)
    ]  # fmt: skip
    rows = [
        f"{int(start + 20_000 * n)},0,{(scale * 300 if n >= 0 and n % 100 < 50 else 60) + 0.1 * (n % 7)}"
        for n in range(-100, 100 * launches)
    ]
    device = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42_000_000_000, "numSms": 108,
              "computeMajor": 8, "computeMinor": 0}  # fmt: skip
    document = {
        "schemaVersion": 1, "deviceProperties": [device], "distributedInfo": {"rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 0, "traceEvents": events, "traceName": str(path),  # no two are copies
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")
    log = path.with_name(path.name.split(".", 1)[0] + "_power.csv")
    log.write_text("\n".join(["time_us,device,power_w", *rows, ""]), "utf-8")
    return path


def found(sources: list[str], labels: str = "", *, each: bool = False) -> list[Job]:
    return find_jobs(sources, labels, each=each)[0]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    for team, model, scale in (("nlp", "gpt", 1.0), ("nlp", "bert", 1.0), ("vision", "vit", 1.3)):
        kineto(folder / team / model / "step.pt.trace.json", scale=scale)
    (folder / "vision" / "broken.pt.trace.json").write_text('{"traceEvents": [{', "utf-8")
    return folder


@pytest.fixture(scope="module")
def fleet(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("fleet") / "set"
    jobs = tt.fleet_ingest(source, target, labels="{team}/{model}", workers=2)
    assert (jobs.done, jobs.skipped, list(jobs.failed)) == (3, 0, ["vision--broken"])
    assert "cut short" in jobs.failed["vision--broken"]
    assert tt.fleet_run("attribute", target, workers=1).done == 3
    return target


def test_jobs_are_what_folders_hold(tmp_path: Path) -> None:
    for name in (
        "a/rank0.json",
        "a/rank1.json",
        "a/power.csv",
        "b/one.json",
        "b/two.json",
        "b/two_power.csv",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "a" / "notes.txt").write_text("")
    jobs = {j.name: j for j in found([str(tmp_path)], "{run}")}
    assert list(jobs) == ["a--rank", "b--one", "b--two"]
    ranks = jobs["a--rank"]
    assert [Path(i.path).name for i in ranks.traces] == ["rank0.json", "rank1.json"]
    assert [Path(i.path).name for i in ranks.logs] == ["power.csv"]
    assert ranks.labels == {"run": "a"}
    assert [Path(i.path).name for i in jobs["b--two"].logs] == ["two_power.csv"]
    assert not jobs["b--one"].logs
    assert len(found([str(tmp_path / "a")], each=True)) == 2
    assert [j.name for j in found([f"{tmp_path}/b/o*.json"])] == ["one"]
    marks = ranks.marks
    os.utime(tmp_path / "a" / "rank0.json", ns=(1, 1))
    assert {j.name: j for j in found([str(tmp_path)])}["a--rank"].marks != marks
    with pytest.raises(tt.BadInput, match="holds no trace"):
        found([str(tmp_path / "absent")])


@pytest.mark.usefixtures("fleet_here")
@pytest.mark.parametrize("name", ["step.csv", "step_smi.csv", "smi.csv", "step-smi.txt", "step.log"])
def test_a_power_log_is_told_by_its_content(tmp_path: Path, name: str) -> None:
    trace = kineto(tmp_path / "a" / "step.pt.trace.json", launches=2)
    log = trace.with_name("step_power.csv").rename(trace.with_name(name))
    (trace.parent / "notes.txt").write_text("a run of two kernels\n", "utf-8")
    (job,) = found([str(tmp_path)])
    assert [Path(i.path).name for i in (*job.traces, *job.logs)] == [trace.name, log.name]
    (alike,) = found([(tmp_path / "a").as_uri()])
    assert [Path(i.path).name for i in (*alike.traces, *alike.logs)] == [trace.name, log.name]
    tt.fleet_ingest(tmp_path / "a", tmp_path / "set", workers=1)
    assert tt.open(next((tmp_path / "set" / "runs").iterdir())).telemetry.height == 300
    kineto(tmp_path / "a" / "other.pt.trace.json").with_name("other_power.csv").unlink()
    of_each = {j.name: [Path(i.path).name for i in j.logs] for j in found([str(tmp_path / "a")])}
    assert of_each == {"step": [log.name] if name != "smi.csv" else [], "other": []}


@pytest.mark.parametrize(
    "log", [log for log in LOGS if log.name.endswith(".json")], ids=lambda log: log.format
)
def test_a_json_log_beside_json_traces_is_told_by_its_content(tmp_path: Path, log: Log) -> None:
    """A folder of nothing but JSON was taken for traces, whose logs failed as jobs."""
    trace = kineto(tmp_path / "a" / "step.pt.trace.json", launches=2)
    trace.with_name("step_power.csv").unlink()
    trace.with_name("gpu0.json").write_text(log.text, "utf-8")
    for source in (str(tmp_path), (tmp_path / "a").as_uri()):
        (job,) = found([source])
        assert [[Path(i.path).name for i in files] for files in (job.traces, job.logs)] == [
            [trace.name],
            ["gpu0.json"],
        ]
    kineto(tmp_path / "a" / "other.json").with_name("other_power.csv").unlink()
    trace.with_name("gpu0.json").rename(trace.with_name("other-gpu.json"))
    of_each = {j.name: [Path(i.path).name for i in j.logs] for j in found([str(tmp_path / "a")])}
    assert of_each == {"step": [], "other": ["other-gpu.json"]}


def test_of_many_json_files_named_alike_one_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        jobs_of_files,
        "_kind",
        lambda _, item: opened.append(item.path) or ("telemetry" if "gpu" in item.path else ""),
    )
    for number in range(20):
        for name in (f"rank{number}.json", f"rank{number}_gpu.json"):
            (tmp_path / name).write_text("{}")
    for number in range(3):
        (tmp_path / f"step{'x' * (number + 1)}.json").write_text("{}")
    jobs = found([str(tmp_path)])
    assert len(opened) == 2 + 3
    assert [(len(j.traces), len(j.logs)) for j in jobs] == [(20, 20), (1, 0), (1, 0), (1, 0)]
    monkeypatch.setattr(jobs_of_files, "_OPENED", 1)
    assert sum(len(j.logs) for j in found([str(tmp_path)])) == 0  # as if they were traces


@pytest.mark.usefixtures("fleet_here")
def test_operators_of_an_execution_trace_go_with_the_profile_beside_them(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    execution_files.profile(folder)
    execution_files.observed(folder)
    (job,) = found([str(tmp_path)])
    assert [[Path(i.path).name for i in files] for files in (job.traces, job.beside)] == [
        ["trace.json"],
        ["et.json"],
    ]
    target = tmp_path / "set"
    tt.fleet_ingest(tmp_path, target, workers=1, gpu="a100-sxm")
    run = tt.open(next((target / "runs").iterdir()))
    assert run.signatures["input_dims"].is_not_null().any()
    again = tt.fleet_ingest(folder / "trace.json", target, workers=1, gpu="a100-sxm")
    assert (again.done, again.skipped) == (0, 1)  # the file that was beside it is taken as before


def test_runs_are_what_ingest_alone_writes(fleet: Path, source: Path, tmp_path: Path) -> None:
    trace = source / "nlp" / "gpt" / "step.pt.trace.json"
    alone = tt.ingest(trace, trace.with_name("step_power.csv"), out=tmp_path / "alone")
    run = tt.open(fleet / "runs" / "job=nlp--gpt--step")
    assert run.kernels.equals(alone.kernels)
    assert run.telemetry.equals(alone.telemetry)


@pytest.mark.usefixtures("fleet_here")
def test_a_predicted_jobs_interval_is_that_of_its_run(samples: Path, tmp_path: Path) -> None:
    """The model's intervals reach farther up than down: one half width for both is another interval."""
    (tmp_path / "job").mkdir()
    shutil.copy(samples / "a100_generation.pt.trace.json.gz", tmp_path / "job")
    tt.fleet_ingest(tmp_path / "job", tmp_path / "set", workers=1)
    tt.fleet_run("attribute", tmp_path / "set", workers=1)
    whole = tt.summary(next((tmp_path / "set" / "runs").iterdir())).parts.filter(part="run")
    (row,) = tt.fleet_ask("energy", tmp_path / "set", by="job").frame.to_dicts()
    for end in ("", "_low", "_high"):
        assert row[f"energy{end}_j"] == pytest.approx(whole[f"energy{end}_j"][0], rel=1e-9)


def test_a_second_time_only_what_changed_is_read(fleet: Path, source: Path) -> None:
    before = (fleet / "runs" / "job=nlp--gpt--step" / "kernels.parquet").stat().st_mtime_ns
    jobs = tt.fleet_ingest(source, fleet, labels="{team}/{model}", workers=1)
    assert (jobs.done, jobs.skipped, len(jobs.failed)) == (0, 3, 1)
    check_document("fleet ingest", jobs.to_dict())
    assert (fleet / "runs" / "job=nlp--gpt--step" / "kernels.parquet").stat().st_mtime_ns == before
    again = tt.fleet_run("attribute", fleet, workers=1)
    assert again.skipped == 3
    check_document("fleet attribute", again.to_dict())


def test_energy_is_that_of_the_runs(fleet: Path) -> None:
    by_team = {r["name"]: r for r in tt.fleet_ask("energy", fleet, by="team").frame.to_dicts()}
    each = 30 * (300 + 60) - 60  # [J]: the window ends with the last kernel
    assert by_team["nlp"]["energy_j"] == pytest.approx(2 * each, rel=0.03)
    assert by_team["vision"]["energy_j"] == pytest.approx(each + 30 * 90, rel=0.03)
    assert by_team["nlp"]["energy_low_j"] < 2 * each < by_team["nlp"]["energy_high_j"]
    whole = sum(r["energy_j"] for r in by_team.values())
    for by in ("job", "gpu", "family", "kernel", "signature", "rank", "month", "model"):
        frame = tt.fleet_ask("energy", fleet, by=by).frame
        assert frame["energy_j"].sum() == pytest.approx(whole, rel=1e-9)
        assert frame["share"].sum() == pytest.approx(1.0)
    for row in tt.fleet_ask("energy", fleet, by="job").frame.to_dicts():  # a job's interval is its run's
        run = tt.open(fleet / f"runs/job={row['name']}")
        whole_run = tt.energy_by(run, "family").frame.row(-1, named=True)
        for end in ("", "_low", "_high"):
            assert row[f"energy{end}_j"] == pytest.approx(whole_run[f"energy{end}_j"], rel=1e-6)
    top = tt.fleet_ask("energy", fleet, by="kernel").frame.row(0, named=True)
    assert (top["name"], top["launches"]) == (GEMM, 90)
    nowhere = fleet.with_name("nowhere")
    for ask in (lambda: tt.fleet_ask("energy", nowhere), lambda: tt.fleet_run("attribute", nowhere)):
        with pytest.raises(tt.BadInput, match="no such data set"):
            ask()
    with pytest.raises(tt.BadInput) as raised:
        tt.fleet_ask("energy", fleet, by="color")
    assert "known: job" in raised.value.line()


def test_documents_fit_their_schemas(fleet: Path) -> None:
    for question in ("jobs", "energy", "outliers", "report"):
        check_document(f"fleet {question}", tt.fleet_ask(question, fleet).to_dict())


def test_kernels_are_classified_by_job_and_rank(fleet: Path) -> None:
    done = tt.fleet_run("classify", fleet, workers=1)
    check_document("fleet classify", done.to_dict())
    rows = pl.read_parquet(f"{fleet}/families/*/*/*.parquet", hive_partitioning=True)
    assert rows.select("job", "rank", "kernel", "family", "launches", "time_ms").sort("job").rows() == [
        (job, 0, GEMM, "gemm", 30, 30_000.0)
        for job in ("nlp--bert--step", "nlp--gpt--step", "vision--vit--step")
    ]
    jobs = pl.read_parquet(fleet / "jobs.parquet")
    assert jobs.select("team", "month").unique().sort("team").rows() == [
        ("nlp", "2026-01"), ("vision", "2026-01")
    ]  # fmt: skip


@pytest.mark.usefixtures("fleet_here")
def test_two_fleets_differ_by_what_one_takes_more(fleet: Path, tmp_path: Path) -> None:
    for team, scale in (("nlp", 1.0), ("vision", 1.0)):
        kineto(tmp_path / "traces" / team / "gpt" / "step.pt.trace.json", scale=scale)
    base = tmp_path / "base"
    tt.fleet_ingest(tmp_path / "traces", base, labels="{team}/{model}", workers=1)
    tt.fleet_run("attribute", base, workers=1)
    answer = tt.fleet_ask("diff", base, by="job", head=fleet)
    check_document("fleet diff", answer.to_dict())
    rows = {r["name"]: r for r in answer.frame.to_dicts()}
    same = rows["nlp--gpt--step"]
    assert (same["verdict"], same["energy_more_pct"]) == ("inconclusive", pytest.approx(0.0, abs=0.1))
    assert rows["vision--gpt--step"]["verdict"] == "only base"
    assert rows["vision--vit--step"]["verdict"] == "only head"
    family = tt.fleet_ask("diff", base, by="family", head=fleet).frame.row(
        by_predicate=pl.col("name") == "gemm", named=True
    )
    assert family["energy_more_pct"] == pytest.approx(100 * (3.3 / 2 - 1), abs=3.0)
    assert family["verdict"] == "more"
    with pytest.raises(tt.BadInput, match="one data set only"):
        tt.fleet_ask("diff", base)


def test_a_page_shows_each_question(fleet: Path, tmp_path: Path) -> None:
    page = tt.fleet_ask("report", fleet).save(tmp_path / "fleet.html").read_text("utf-8")
    for title in ("Energy by team", "Kernels of most energy", "GPUs by energy at equal work"):
        assert title in page
    assert page.count("<svg") >= 7
    assert "of all [%]" in page and "of run" not in page


def test_each_question_of_a_page_is_a_table_of_its_own_on_the_console(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has the whole energy: in one table without the question shares would sum to several hundred."""
    monkeypatch.setenv("COLUMNS", "80")
    tt.fleet_ask("report", fleet).show()
    lines = capsys.readouterr().out.splitlines()
    places = [lines.index(title) for title in ("Energy by team", "Kernels of most energy", "Energy by GPU")]
    assert places == sorted(places)
    assert all("energy [" in lines[place + 1] for place in places)
    assert "question" not in "".join(lines)


def test_sql_of_the_documentation_gives_the_same(fleet: Path) -> None:
    energy = pl.scan_parquet(f"{fleet}/energy/*/*/*.parquet", hive_partitioning=True)
    summed = pl.SQLContext(energy=energy).execute(
        "SELECT kernel, sum(energy_j) AS energy_j FROM energy GROUP BY kernel ORDER BY energy_j DESC",
        eager=True,
    )
    asked = tt.fleet_ask("energy", fleet, by="kernel").frame
    assert summed["kernel"].to_list() == asked["name"].to_list()
    assert summed["energy_j"].to_list() == pytest.approx(asked["energy_j"].to_list())


def test_a_gpu_that_takes_more_stands_out(fleet: Path) -> None:
    worst = tt.fleet_ask("outliers", fleet).frame.row(0, named=True)
    assert worst["name"].startswith("vision--vit")
    assert worst["energy_more_pct"] == pytest.approx(30.0, abs=3.0)
    # two sensors of one model may differ by their gains: the interval holds that even for one kernel
    assert worst["energy_more_low_pct"] < 28.0
    assert worst["energy_more_high_pct"] > 32.0


def test_savings_are_against_the_highest_clock(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(tt.BadInput) as raised:
        tt.fleet_ask("savings", fleet)
    assert "tracetool fleet predict" in raised.value.line()
    done = tt.fleet_run("predict", fleet, options={"clock": "900,1200,1410"}, workers=1)
    check_document("fleet predict", done.to_dict())
    answer = tt.fleet_ask("savings", fleet, slowdown="100%")
    check_document("fleet savings", answer.to_dict())
    frame = answer.frame
    jobs, whole = frame.head(-1), frame.row(-1, named=True)
    assert whole["saved_energy_j"] == pytest.approx(jobs["saved_energy_j"].sum())
    for row in jobs.to_dicts():  # sweeps showed 7 % of power and 7.5 % of time per octave, at one deviation
        best_j = row["energy_j"] - row["saved_energy_j"]
        octaves = np.log2(row["from_clock_mhz"] / row["clock_mhz"])
        assert row["saved_energy_high_j"] - row["saved_energy_j"] >= 0.1 * octaves * best_j
    assert (jobs["from_clock_mhz"] == 1410.0).all()
    assert tt.fleet_ask("savings", fleet, slowdown="100%").frame.equals(frame)
    within = tt.fleet_ask("savings", fleet, slowdown="5%")
    (on_page,) = (
        b for b in tt.fleet_ask("report", fleet).blocks if isinstance(b, Grid) and "save" in b.title
    )
    assert (on_page.title, on_page.frame["clock_mhz"].to_list()) == (
        within.title, within.frame["clock_mhz"].to_list()
    )  # fmt: skip
    assert not within.frame["clock_mhz"].equals(frame["clock_mhz"])
    monkeypatch.setenv("COLUMNS", "80")
    within.show()
    assert "  clock [MHz]" in capsys.readouterr().out.splitlines()[1], "the clock to set has its place"
    none = tt.fleet_ask("savings", fleet, slowdown=0.0).frame
    assert none.row(-1, named=True)["saved_energy_j"] == pytest.approx(0.0)


@pytest.mark.usefixtures("fleet_here")
def test_predictions_of_ranks_add_up_to_the_job(tmp_path: Path) -> None:
    for rank, launches in ((0, 30), (1, 20)):
        kineto(tmp_path / "job" / f"rank{rank}.pt.trace.json", rank=rank, launches=launches)
    tt.fleet_ingest(tmp_path / "job", tmp_path / "set", workers=1)
    tt.fleet_run("predict", tmp_path / "set", options={"clock": "900,1410"}, workers=1)
    rows = pl.scan_parquet(f"{tmp_path}/set/predictions/*/*/*.parquet", hive_partitioning=True).collect()
    assert sorted(rows["rank"].unique()) == [0, 1]
    whole = tt.predict(next((tmp_path / "set" / "runs").iterdir()), clock="900,1410").totals
    for total in whole.to_dicts():
        ranks = rows.filter(pl.col("clock_mhz") == total["clock_mhz"])
        for figure in ("energy_j", "energy_low_j", "energy_high_j", "mean_power_w", "kernel_time_ms"):
            assert ranks[figure].sum() == pytest.approx(total[figure]), figure
        assert (ranks["makespan_ms"] == total["makespan_ms"]).all()
        assert ranks.sort("rank")["kernel_time_ms"].is_sorted(descending=True)
    saved = tt.fleet_ask("savings", tmp_path / "set").frame
    top = whole.sort("clock_mhz").row(-1, named=True)
    assert saved.row(0, named=True)["energy_j"] == pytest.approx(top["energy_j"])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the options of an address on an S3 server of this machine; skipped where none is installed."""
    pytest.importorskip("moto.server", reason='pip install "moto[server]"')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    finally:
        server.kill()
        server.wait()


def test_a_bucket_is_a_place_like_any(source: Path, fleet: Path, bucket: str) -> None:
    for name in ("traces", "fleet"):
        files, _ = pafs.FileSystem.from_uri(f"s3://{name}{bucket}")
        files.create_dir(name)
    place = Place(f"s3://traces{bucket}")
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        place.write(place.path(file.relative_to(source).as_posix()), file.read_bytes())
    target = f"s3://fleet/set{bucket}"
    jobs = tt.fleet_ingest(f"s3://traces{bucket}", target, labels="{team}/{model}", workers=1)
    assert (jobs.done, len(jobs.failed)) == (3, 1)
    assert "s3://traces/" in jobs.failed["vision--broken"]
    assert tt.fleet_ingest(f"s3://traces{bucket}", target, labels="{team}/{model}", workers=1).skipped == 3
    tt.fleet_run("attribute", target, workers=1)
    here, there = (tt.fleet_ask("energy", t, by="team").frame for t in (fleet, target))
    assert here["energy_j"].to_list() == pytest.approx(there["energy_j"].to_list())


@pytest.mark.usefixtures("fleet_here")
def test_what_no_trace_names_has_a_name_in_the_table(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tt.fleet_ingest(samples / "mi300x_kernel_trace.csv", tmp_path / "set", workers=1)
    tt.fleet_run("attribute", tmp_path / "set", workers=1)
    tt.fleet_ask("energy", tmp_path / "set", by="gpu").show()
    assert "(not known)" in capsys.readouterr().out
    tt.fleet_ask("outliers", tmp_path / "set").show()
    assert capsys.readouterr().out.splitlines() == ["GPUs by energy at equal work: none"]


def test_bars_of_a_page_have_names_told_apart_a_unit_and_intervals() -> None:
    names = [f"void at::native::vectorized_elementwise_kernel<4, {f}, std::array<char*, 3>>(int, T2, T3)"
             for f in ("CUDAFunctor_add<float>", "GeluBackwardCUDAKernelImpl")]  # fmt: skip
    rows = pl.DataFrame({"question": ["q"] * 2, "name": names, "energy_j": [2.0, 1.0],
                         "energy_low_j": [1.5, 0.5], "energy_high_j": [2.5, 1.5]})  # fmt: skip
    drawing, table = _answer("Kernels of most energy", rows, "energy_j", "J")
    assert isinstance(drawing, Drawing)
    assert isinstance(table, Grid)
    assert drawing.caption == "Kernels of most energy [J]: 2 of 2; lines are 90 % intervals"
    labels = re.findall(r'text-anchor="end"[^>]*>([^<]*)<', drawing.svg)
    assert len(set(labels)) == 2
    assert "question" not in table.frame.columns


@pytest.mark.usefixtures("fleet_here")
@pytest.mark.parametrize(
    ("question", "kind", "task"),
    [
        ("energy", "energy", "attribute"),
        ("outliers", "energy", "attribute"),
        ("savings", "predictions", "predict"),
    ],
)
def test_a_broken_table_of_a_data_set_is_named(
    question: str, kind: str, task: str, fleet: Path, tmp_path: Path
) -> None:
    where = tmp_path / "set"
    shutil.copytree(fleet, where)
    if kind == "predictions":
        tt.fleet_run("predict", where, options={"clock": "1410"}, workers=1)
    table = min((where / kind).rglob("*.parquet"))
    table.write_bytes(table.read_bytes()[:-9])
    with pytest.raises(tt.BadInput, match=re.escape(f"{table}: is a broken table")) as raised:
        tt.fleet_ask(question, where)
    assert "tracetool fleet" in raised.value.fix
