"""Folders as file systems allow them: patterns as names, links in circles, names that are no text, files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.damaged.small_run import write_trace
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.fleet.jobs import find_jobs
from tracetool.fleet.storage import Place


def test_a_folder_whose_name_is_a_pattern_is_that_folder(tmp_path: Path) -> None:
    for folder in ("lr[1]", "lr1"):
        (tmp_path / folder).mkdir()
        write_trace(tmp_path / folder / "trace.json")
    for source in (f"{tmp_path}/lr[1]", f"{tmp_path}/lr[1]/*.json", f"{tmp_path}/lr[1]/trace.json"):
        (job,), notes = find_jobs([source])
        assert job.traces[0].path == f"{tmp_path}/lr[1]/trace.json"
        assert not notes


def test_links_in_circles_end_and_names_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_trace(tmp_path / "a" / "trace.json")
    (tmp_path / "a" / "circle").symlink_to(tmp_path)
    (tmp_path / "0link").symlink_to(tmp_path / "a")
    (tmp_path / "itself.json").symlink_to(tmp_path / "itself.json")
    os.mkfifo(tmp_path / "pipe.json")
    assert [i.path for i in Place(tmp_path).items()] == [f"{tmp_path}/a/trace.json"]
    odd = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(odd)).mkdir()
    write_trace(Path(os.fsdecode(odd)) / "trace.json")
    (job,), (note,) = find_jobs([str(tmp_path)], "{team}")
    assert dict(job.labels) == {"team": "a"}
    assert note == f"1 trace is left out, first {tmp_path}/\\xff/trace.json: no name in UTF-8 (rename them)"
    with pytest.raises(BadInput, match="UTF-8"):
        Place(os.fsdecode(odd))


def test_a_folder_of_a_long_name_is_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path below the source names a job, and a job names files: no path is too long for that."""
    folders = [tmp_path / "in" / ("a" * 240) / "b", tmp_path / "in" / ("a" * 240) / ("c" * 240)]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        write_trace(folder / "trace.json", names=(f"gemm_{number}",))
    words = ["fleet", "ingest", str(tmp_path / "in"), "-o", str(tmp_path / "set"), "--workers", "1"]
    assert command(words) == 0, capsys.readouterr().err
    assert "ingest of 2 jobs" in capsys.readouterr().out
    assert command(words) == 0
    assert "2 done before" in capsys.readouterr().out


def test_a_data_set_where_no_folder_can_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path / "trace.json")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    odd = tmp_path / "two\nlines"
    odd.write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "circle", odd):
        for words in (["fleet", "ingest", tmp_path, "-o", place], ["fleet", "energy", place]):
            assert command([str(w) for w in words]) == 2
            error = capsys.readouterr().err
            assert len(error.splitlines()) == 1
            assert "internal fault" not in error
            assert error.endswith(")\n")
    assert (tmp_path / "file").read_text() == "mine"
