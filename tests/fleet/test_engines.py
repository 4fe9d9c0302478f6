"""Tasks that fail, die or need too much memory take nobody else's work with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import dying
from tests.fleet.here import Here
from tests.fleet.test_fleet import kineto
from tracetool.core.errors import BadInput, Interrupted, MissingPart
from tracetool.core.progress import Silent
from tracetool.core.stop_signals import Terminated
from tracetool.fleet.engine import LocalEngine, started
from tracetool.fleet.fleet import fleet_ingest
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.run_jobs import Tally, Work, run_jobs
from tracetool.fleet.storage import Place
from tracetool.fleet.tasks import _scratch


def ran(
    task: Callable[..., Any], jobs: list[str], folder: Path, engine: Any, *more: Any, retries: int = 3
) -> Tally:
    works = [Work(job, "as it is", (job, *more)) for job in jobs]
    manifest = Manifest(Place(folder), "test")
    return run_jobs(task, works, engine, manifest, retries=retries, progress=Silent())


def test_what_is_done_is_skipped_and_what_changed_is_not(tmp_path: Path) -> None:
    assert ran(dying.figure, ["a", "bb"], tmp_path, Here()).kernels == 3
    again = ran(dying.figure, ["a", "bb", "c"], tmp_path, Here())
    assert (again.skipped, again.done) == (["a", "bb"], ["c"])
    manifest = Manifest(Place(tmp_path), "test")
    assert not manifest.done("a", "otherwise")
    (tmp_path / "manifest" / "test" / "a.json").write_text('{"schema": "fle')  # cut short: never done
    assert ran(dying.figure, ["a"], tmp_path, Here()).done == ["a"]


def test_a_passing_fault_is_tried_again_and_a_lasting_one_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracetool.fleet.run_jobs._WAIT_S", 0.001)
    tries: list[str] = []

    def task(job: str) -> dict[str, Any]:
        tries.append(job)
        if job == "server" and tries.count(job) < 3:
            raise ConnectionResetError("connection reset")
        if job == "broken":
            raise BadInput.in_file("x.json", "is cut short", "copy it again")
        if job == "down":
            raise ConnectionRefusedError("no server")
        return {}

    tally = ran(task, ["server", "broken", "fine", "down"], tmp_path, Here(), retries=2)
    assert sorted(tally.done) == ["fine", "server"]
    assert tally.failed == {
        "broken": "x.json: is cut short (copy it again)",
        "down": "ConnectionRefusedError: no server",
    }
    assert [tries.count(j) for j in ("server", "broken", "fine", "down")] == [3, 1, 1, 3]
    entries = Manifest(Place(tmp_path), "test").entries()
    assert {j: e["attempts"] for j, e in entries.items()} == {"server": 3, "broken": 1, "fine": 1, "down": 3}


def test_a_killed_process_takes_no_others_task(tmp_path: Path) -> None:
    engine = LocalEngine(2)
    try:
        first = engine.submit(dying.wait_for, str(tmp_path / "end"))
        with pytest.raises(BrokenExecutor):
            engine.submit(dying.die_always, "die").result(60.0)
        assert engine.submit(dying.figure, "abc").result(60.0) == {"kernels": 3}
        assert not first.done()
        (tmp_path / "end").touch()
        assert first.result(60.0) == {"kernels": 1}
    finally:
        engine.close()


def test_no_process_is_given_two_tasks_at_once() -> None:
    engine = LocalEngine(1)
    try:
        first = engine.submit(time.sleep, 0.3)
        second = engine.submit(os.getpid)
        assert first.done()
        assert second.result(60.0) == engine.submit(os.getpid).result(60.0)
    finally:
        engine.close()


def test_a_killed_worker_costs_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetool.fleet.run_jobs._WAIT_S", 0.001)
    jobs = ["a", "die-1", "b", "c", "die-2", "d"]
    engine = LocalEngine(2)
    try:
        tally = ran(dying.die_once, jobs, tmp_path, engine, str(tmp_path))
        assert (sorted(tally.done), tally.failed) == (sorted(jobs), {})
        lasting = ran(dying.die_always, ["die-3", "e"], tmp_path, engine, retries=1)
    finally:
        engine.close()
    assert lasting.done == ["e"]
    assert "was killed" in lasting.failed["die-3"]


def test_a_task_that_needs_too_much_memory_fails_alone(tmp_path: Path) -> None:
    engine = LocalEngine(1, 600 << 20)
    try:
        works = [Work("large", "", (4 << 30,)), Work("small", "", (1 << 20,))]
        tally = run_jobs(
            dying.take_memory, works, engine, Manifest(Place(tmp_path), "t"), retries=0, progress=Silent()
        )
    finally:
        engine.close()
    assert tally.done == ["small"]
    assert "--memory" in tally.failed["large"]


def test_engines_that_are_not_there_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput) as unknown, started("slurm", 1, None):
        pass
    assert "known: local, ray" in unknown.value.line()
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingPart) as missing, started("ray", 1, None):
        pass
    assert "tracetool-energy[fleet]" in missing.value.line()


def test_processes_end_with_a_killed_command(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from tracetool.fleet.engine import LocalEngine\n"
        "if __name__ == '__main__':\n"
        "    open(sys.argv[1], 'w').write(str(LocalEngine(1).submit(os.getpid).result()))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "worker")], check=False)
    worker = Path("/proc") / (tmp_path / "worker").read_text()
    deadline = time.monotonic() + 30.0
    while worker.exists() and "Z" not in worker.joinpath("stat").read_text().split()[2]:
        assert time.monotonic() < deadline, "waits for tasks that nobody will send"
        time.sleep(0.05)


@pytest.mark.parametrize("in_one_step", [True, False])
def test_what_a_task_writes_stands_whole_while_the_old_is_removed(
    in_one_step: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_one_step:
        monkeypatch.setattr("tracetool.tables.run_folder._exchange", lambda *_: False)
    standing: list[str] = []
    remove = shutil.rmtree

    def removed(folder: Path, **how: Any) -> None:
        remove(folder, **how)
        standing.append((tmp_path / "set" / "energy" / "part").read_text())

    monkeypatch.setattr("shutil.rmtree", removed)
    for text in ("old", "new", "newest"):
        (tmp_path / "made").mkdir()
        (tmp_path / "made" / "part").write_text(text)
        Place(tmp_path / "set").store(tmp_path / "made", "energy")
        assert (tmp_path / "set" / "energy" / "part").read_text() == text
    assert standing == ["new", "newest"]
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_scratch_of_a_killed_task_goes_with_the_next(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from tracetool.fleet.storage import Place\n"
        "from tracetool.fleet.tasks import _scratch\n"
        "with _scratch(Place(sys.argv[1])) as folder:\n"
        "    (folder / 'copy.sqlite').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert len(list((tmp_path / ".scratch").iterdir())) == 1
    with _scratch(Place(tmp_path)) as folder:
        assert list((tmp_path / ".scratch").iterdir()) == [folder]


@pytest.mark.usefixtures("fleet_here")
def test_a_disk_that_takes_no_record_of_a_job_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "cut.json").write_text('{"traceEvents": [{"ph":')

    def full(*_: Any) -> None:
        raise BadInput("no space left on device", "")

    monkeypatch.setattr(Manifest, "write", full)
    with pytest.raises(BadInput, match="no space left"):
        fleet_ingest(tmp_path / "traces", tmp_path / "set", workers=1)
    assert [p.name for p in tmp_path.iterdir()] == ["traces"]
    (tmp_path / "set" / "runs").mkdir(parents=True)  # somebody's
    with pytest.raises(BadInput, match="no space left"):
        fleet_ingest(tmp_path / "traces", tmp_path / "set", workers=1)
    assert [p.name for p in (tmp_path / "set").iterdir()] == ["runs"]


@pytest.mark.usefixtures("fleet_here")
@pytest.mark.parametrize(
    ("stop", "said", "code"), [(KeyboardInterrupt, "interrupted", 130), (Terminated, "terminated", 143)]
)
def test_a_stopped_task_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException], said: str, code: int
) -> None:
    for name in ("a", "b", "c"):
        kineto(tmp_path / "source" / name / "step.pt.trace.json", launches=2)
    write = Manifest.write

    def stopped_after_two(self: Manifest, job: str, entry: Mapping[str, Any]) -> None:
        write(self, job, entry)
        if len(self.entries()) == 2:
            raise stop

    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "write", stopped_after_two)
        with pytest.raises(Interrupted) as raised:
            fleet_ingest(tmp_path / "source", tmp_path / "set", workers=1)
    assert raised.value.line() == f"{said}; 2 of 3 jobs done; the same command again goes on with the others"
    assert raised.value.exit_code == code
    again = fleet_ingest(tmp_path / "source", tmp_path / "set", workers=1)
    assert (again.skipped, again.done) == (2, 1)
