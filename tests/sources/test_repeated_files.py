"""A file named twice, or beside its copy, counts once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sources.makers import nsys_tables, write_tables
from tracetool.api.ingest import ingest
from tracetool.sources.repeated_files import without_repeats


@pytest.mark.parametrize("how", ["named", "another path", "copied"])
def test_kernels_of_a_repeated_trace_count_once(tmp_path: Path, how: str) -> None:
    trace = write_tables(tmp_path / "run.sqlite", nsys_tables())
    second = trace
    if how == "another path":
        second = tmp_path / "link.sqlite"
        second.symlink_to(trace)
    elif how == "copied":
        second = Path(shutil.copy(trace, tmp_path / "copy.sqlite"))
    once = ingest([trace], out=tmp_path / "once")
    twice = ingest([trace, second], out=tmp_path / "twice")
    assert twice.kernels.height == once.kernels.height
    assert len(twice.info["sources"]) == 1
    assert any("counts once" in warning for warning in twice.info["warnings"])
    assert not any("counts once" in warning for warning in once.info["warnings"])


def test_files_that_differ_all_count(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "two"), ("c", "three")):
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in "abc"]
    assert without_repeats(paths, Path) == (paths, [])


def test_a_pipe_is_never_read_to_be_compared(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths = [tmp_path / "pipe", tmp_path / "pipe"]
    assert without_repeats(paths, Path) == (paths, [])
