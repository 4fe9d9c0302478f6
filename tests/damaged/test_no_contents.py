"""Files without contents, tables without rows, places where nothing can be written: one line with the fix."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import tracetool as tt
from tracetool.cli.app import run
from tracetool.core.errors import BadInput

_ENDLESS = Path("/proc/kmsg")


def line_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the line on standard error of a command that is refused."""
    assert run([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(")"), f"names no fix: {line}"
    return line


def test_tables_without_rows_say_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cases := tmp_path / "cases.csv").write_text("model,gpu\n")
    (spans := tmp_path / "spans.csv").write_text("name,start_us,end_us\n")
    (nothing := tmp_path / "nothing.csv").touch()
    assert "holds no cases (give one row per case" in line_of(capsys, "forecast", cases)
    for command in ("attribute", "profile"):
        assert "holds no rows (give a row" in line_of(capsys, command, spans, "--power", spans)
    for command in (("classify",), ("predict", "--gpu", "a10"), ("forecast", "--gpu", "a10")):
        assert "nothing.csv: is empty (0 bytes) (" in line_of(capsys, *command, nothing)
    (config := tmp_path / "config.json").write_text("{}")
    said = line_of(capsys, "forecast", config, "--gpu", "a10")
    assert "model_type: is missing (give the config.json that came with the model" in said


def test_a_file_in_place_of_a_folder_of_baselines_is_named(
    example_run: tt.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "file").touch()
    for words in (("add", file, example_run.path), ("list", file), ("prune", file, "--keep", "1")):
        assert "is a file, not a folder of baselines (name a folder)" in line_of(capsys, "baseline", *words)
    assert "choose another place" in line_of(capsys, "baseline", "add", file / "in", example_run.path)


def test_a_link_to_itself_is_called_one(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (loop := tmp_path / "loop").symlink_to(loop)
    said = line_of(capsys, "ingest", samples / "mi300x_kernel_trace.csv", "-o", loop)
    assert "is a link that leads to itself (remove it" in said
    assert [p.name for p in tmp_path.iterdir()] == ["loop"]
    for name in ("ELOOP", "ENOTDIR", "EFBIG", "EROFS", "ENAMETOOLONG"):
        error = OSError(getattr(errno, name), name)
        assert "allow writing there" not in BadInput.unwritable("place", error).fix


@pytest.mark.skipif(not _ENDLESS.is_file(), reason="this system shows no log of its own as a file")
@pytest.mark.parametrize(
    "command",
    [("classify",), ("ingest",), ("forecast", "--gpu", "a10"), ("attribute",), ("profile",), ("check-power",),
     ("sensor", "identify")],
)  # fmt: skip
def test_a_stream_of_the_system_is_not_waited_for(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    line_of(capsys, *command, _ENDLESS)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no such folder to write into here")
def test_a_data_set_where_no_folder_can_be_made(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = line_of(capsys, "fleet", "ingest", samples / "mi300x_kernel_trace.csv", "-o", "/proc/x")
    assert said.startswith("error: /proc/x: cannot be written")


def test_what_a_library_says_of_the_system_has_the_fix_of_it() -> None:
    too_large = OSError("parquet: underlying IO error: File too large (os error 27) (is the disk full?)")
    line = BadInput.unwritable("run", too_large).line()
    assert line == (
        "run: cannot be written: File too large (allow larger files (ulimit -f), or choose another place)"
    )
    full = OSError("Cannot write. Detail: [errno 28] No space left on device")
    assert BadInput.unwritable("run", full).fix == "free space there, or choose another place"
