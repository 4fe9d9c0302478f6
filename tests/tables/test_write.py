"""Whole or not at all: what a failure leaves behind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tracetool.core.errors import BadInput
from tracetool.tables.run_folder import replaced_run
from tracetool.tables.schema import load_schema
from tracetool.tables.scratch import temporary_folder
from tracetool.tables.write import aside_file, write_parquet


class PlannedError(Exception):
    """A failure in the middle of writing."""


def test_parquet_carries_its_schema(tmp_path: Path) -> None:
    schema = load_schema("devices")
    write_parquet(schema.empty(), tmp_path / "devices.parquet", schema)
    metadata = pq.read_metadata(tmp_path / "devices.parquet").metadata
    assert metadata[b"tracetool.schema"] == schema.tag.encode()


def test_a_file_appears_only_when_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with aside_file(target) as part:
        part.write_text("1")
        assert not target.exists()
        assert part.suffix == ".csv"
    assert target.read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(PlannedError), aside_file(target) as part:
        part.write_text("half")
        raise PlannedError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"), aside_file(tmp_path / "absent" / "out.csv"):
        pass


def test_a_full_disk_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No space left"), aside_file(tmp_path / "x.csv"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [1, 100_000])
def test_a_limit_of_size_is_told_by_the_system(rows: int) -> None:
    """polars says of it that its own text is out of specification."""
    program = (
        "import resource, sys, tempfile\nfrom pathlib import Path\nimport polars as pl\n"
        "from tracetool.tables.write import aside_file, write_parquet\n"
        "folder = Path(tempfile.mkdtemp())\nframe = pl.DataFrame({'a': range(int(sys.argv[1]))})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "try:\n    with aside_file(folder / 'a.parquet') as path: write_parquet(frame, path)\n"
        "except Exception as error: print(error.line(), list(folder.iterdir()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(rows)], capture_output=True, text=True, check=True
    )
    assert "File too large (allow larger files (ulimit -f), or choose another place) []" in done.stdout


_FULL = "No space left on device"


@pytest.mark.parametrize(
    "fault", [OSError(28, _FULL), pl.exceptions.ComputeError(f"underlying IO error: {_FULL} (os error 28)")]
)
def test_a_full_folder_for_temporary_files_is_named(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BadInput, match=_FULL) as raised, temporary_folder():
        raise fault
    assert raised.value.file == str(tmp_path)
    assert "TMPDIR" in raised.value.fix
    with pytest.raises(FileNotFoundError), temporary_folder():
        raise FileNotFoundError(2, "other faults are", "themselves")
    assert not list(tmp_path.iterdir())


def test_a_folder_takes_the_place_of_an_older_one_of_ours(tmp_path: Path) -> None:
    target = tmp_path / "a.tracetool"
    for text in ("first", "second"):
        with replaced_run(target) as part:
            (part / "run.json").write_text(text)
    assert (target / "run.json").read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["a.tracetool"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_ours_is_never_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "precious"
    if kind == "file":
        target.write_text("keep")
    else:
        target.mkdir()
        (target / "thesis.tex").write_text("keep")
    with pytest.raises(BadInput, match="not a run"), replaced_run(target):
        pass
    assert (target if kind == "file" else target / "thesis.tex").read_text() == "keep"


def test_a_failing_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PlannedError), replaced_run(tmp_path / "run") as part:
        (part / "kernels.parquet").write_text("half")
        raise PlannedError
    assert not list(tmp_path.iterdir())


def test_write_parquet_gives_back_what_was_written(tmp_path: Path) -> None:
    schema = load_schema("telemetry")
    frame = schema.conform(
        pl.DataFrame({"time_ns": [1, 2], "device": [0, 0], "power_w": [1.5, None], "source": ["µ,\n", "x"]})
    )
    write_parquet(frame, tmp_path / "t.parquet", schema)
    assert pl.read_parquet(tmp_path / "t.parquet").equals(frame)
