"""A run is replaced whole or not at all, whenever its writer is killed; scratch of the killed is removed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.tables import kill_points
from tracetool.api.ingest import ingest
from tracetool.api.record import record
from tracetool.core.errors import BadInput
from tracetool.tables import run_folder, scratch
from tracetool.tables.run import Run, write_run
from tracetool.tables.run_folder import clean_up, replaced_run
from tracetool.tables.scratch import Scratch, scratch_prefix, temporary_folder
from tracetool.tables.write import aside_file

#: More file system calls than any replacement makes.
MOST_CALLS = 200


def _write(path: Path, kernels: int) -> Path:
    table = {
        "start_ns": range(kernels), "duration_ns": [1] * kernels, "device": [0] * kernels,
        "kind": ["kernel"] * kernels, "name": ["k"] * kernels, "signature": [0] * kernels,
    }  # fmt: skip
    return write_run(path, {"kernels": pl.DataFrame(table), "devices": pl.DataFrame({"device": [0]})}, {})


def _held(path: Path) -> tuple[int, int]:
    run = Run.open(path)
    return run.kernels.height, run.devices.height


@pytest.fixture(scope="module")
def killed_at() -> Iterator[Callable[[int, Path, Path, str], bool]]:
    """Return a function: replace a run and be killed at a file system call; was there such a call?"""
    with subprocess.Popen(
        [sys.executable, kill_points.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin
        assert program.stdout
        stdin, stdout = program.stdin, program.stdout

        def killed(call: int, run: Path, new: Path, manner: str) -> bool:
            print(json.dumps([str(run), str(new), call, manner]), file=stdin, flush=True)
            code = int(stdout.readline())
            assert code in (0, -signal.SIGKILL)
            return code != 0

        yield killed
        stdin.close()


@pytest.mark.parametrize("manner", ["exchange", "rename"])
@pytest.mark.parametrize("first", [False, True], ids=["replaced", "first"])
def test_a_killed_writer_leaves_the_old_run_or_the_new_one(
    tmp_path: Path, killed_at: Callable[[int, Path, Path, str], bool], manner: str, first: bool
) -> None:
    work, run = tmp_path / "work", tmp_path / "work" / "run"
    new = _write(tmp_path / "new", 7)
    outcomes = []
    for call in range(1, MOST_CALLS):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        if not first:
            _write(run, 3)
            (run / "notes.txt").write_text("the user's")
        if not killed_at(call, run, new, manner):
            break
        if first and not run.exists():
            with pytest.raises(BadInput, match="no such run"):
                Run.open(run)
        else:
            outcomes.append(_held(run)[0])
            assert _held(run) in ([(7, 1)] if first else [(3, 1), (7, 1)])
        _write(run, 5)
        assert [p.name for p in work.iterdir()] == ["run"], "scratch of the killed process stays"
        assert _held(run) == (5, 1)
        assert first or (run / "notes.txt").read_text() == "the user's"
    assert call < MOST_CALLS - 1
    assert set(outcomes) == ({7} if first else {3, 7})


def test_a_failure_between_two_renames_brings_the_old_run_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _write(tmp_path / "run", 3)
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if ".new-" in self.name:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(run_folder, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(BadInput, match="No space left"):
        _write(run, 7)
    assert _held(run) == (3, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_run_is_never_absent_where_names_can_be_exchanged(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (one / "a").touch()
    if not run_folder._exchange(one, other):
        pytest.skip("this file system cannot exchange two names")
    assert (other / "a").exists()
    assert not (one / "a").exists()


def test_a_reader_waits_while_a_living_process_replaces_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _write(tmp_path / "run", 3)
    aside = run.rename(tmp_path / f"{scratch_prefix(run, 'old')}12345678")
    monkeypatch.setattr(run_folder, "_PATIENCE_S", 0.05)
    with pytest.raises(BadInput, match="no such run"):
        Run.open(run)
    assert aside.exists(), "its process lives and will put the new run there"


def test_a_linked_run_is_replaced_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    run = _write(tmp_path / "disk" / "run", 3)
    link = tmp_path / "link"
    link.symlink_to(run)
    _write(link, 7)
    assert link.is_symlink()
    assert _held(run) == (7, 1)


def _dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def _named(folder: Path, pid: int, start: int, machine: str | None = None) -> Path:
    own = Scratch.of(folder / f"{scratch_prefix(folder / 'run')}abcdefgh")
    assert own is not None
    return folder / f".run.{pid}-{start}-{machine or own.machine}.new-abcdefgh"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_scratch_of_a_process_that_is_gone_is_removed(tmp_path: Path, kind: str) -> None:
    path = _named(tmp_path, _dead_pid(), 5)
    reused = _named(tmp_path, os.getpid(), 5)  # the number lives again, the process does not
    for one in (path, reused):
        if kind == "folder":
            one.mkdir()
            (one / "kernels.parquet").write_text("half")
        else:
            one.write_text("half")
    with aside_file(tmp_path / "out.csv") as part:
        part.write_text("1")
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_scratch_of_a_living_process_stays(tmp_path: Path) -> None:
    with replaced_run(tmp_path / "run") as mine, aside_file(tmp_path / "out.csv") as file:
        clean_up(tmp_path)
        assert mine.exists()
        assert file.exists()
        (mine / "run.json").write_text("{}")


def test_scratch_of_another_machine_stays_until_it_is_old(tmp_path: Path) -> None:
    path = _named(tmp_path, _dead_pid(), 5, machine="0badcafe")
    path.write_text("half")
    clean_up(tmp_path)
    assert path.exists()
    long_ago = time.time() - scratch.FOREIGN_AGE_S - 60
    os.utime(path, (long_ago, long_ago))
    clean_up(tmp_path)
    assert not path.exists()


@pytest.mark.parametrize(
    "name", [".run.1-2-0badcafe.new", ".run.x-2-0badcafe.new-abc", "run.1-2-0badcafe.new-abc"]
)
def test_other_files_are_never_taken_for_scratch(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("the user's")
    clean_up(tmp_path)
    assert (tmp_path / name).exists()


def test_temporary_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = (
        "import os, signal; from tracetool.tables.scratch import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'unpacked.sqlite').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with temporary_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_no_other_can_replace_is_refused_before_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "mount").symlink_to("/proc")
    monkeypatch.chdir(tmp_path / "work")
    for name, fix in (
        (".", "-o run"),
        ("..", "-o ../run"),
        ("/proc", "-o /proc/run"),
        ("../mount", "-o ../mount/run"),
    ):
        with pytest.raises(BadInput, match="cannot be replaced") as raised:
            ingest("never-read.csv", out=name)
        assert raised.value.fix == f"name one in it: {fix}"
        with pytest.raises(BadInput, match="cannot be replaced"):
            record(["never-run"], out=name)


def test_what_cannot_be_written_names_the_fix(tmp_path: Path) -> None:
    absent = tmp_path / "absent" / "run"
    with pytest.raises(BadInput, match="cannot be written") as raised, replaced_run(absent):
        pass
    assert raised.value.fix == "make its folder, or choose another place"
    for code, fix in ((errno.ENOSPC, "free space there"), (errno.EACCES, "allow writing there")):
        with pytest.raises(BadInput, match="cannot be written") as raised, aside_file(tmp_path / "a.csv"):
            raise OSError(code, os.strerror(code))
        assert raised.value.fix == f"{fix}, or choose another place"
