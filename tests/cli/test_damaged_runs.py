"""A run with a table missing, cut, changed or of another run is refused by every command that opens runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.compare.folders import write_folder
from tracetool.cli.app import run
from tracetool.tables.run import Run

COMMANDS = {
    "classify": ["classify", "RUN"],
    "predict": ["predict", "RUN"],
    "sweep": ["sweep", "RUN"],
    "attribute": ["attribute", "RUN"],
    "sensor": ["sensor", "identify", "RUN"],
    "profile": ["profile", "RUN", "--kernel", "gemm"],
    "diff": ["diff", "RUN"],
    "diff base": ["diff", "RUN", "GOOD"],
    "diff head": ["diff", "GOOD", "RUN"],
    "check": ["check", "RUN", "--base", "GOOD"],
    "report": ["report", "RUN", "-o", "OUT.html"],
    "report base": ["report", "GOOD", "RUN", "-o", "OUT.html"],
    "baseline": ["baseline", "add", "OUT", "RUN"],
    "calibrate": ["calibrate", "RUN", "--gpu", "a100-sxm", "-o", "OUT.toml"],
}


def _missing(file: Path, _: Path) -> None:
    file.unlink()


def _short(file: Path, _: Path) -> None:
    pl.read_parquet(file).head(1).write_parquet(file)


def _foreign(file: Path, other: Path) -> None:
    shutil.copyfile(other / file.name, file)


def _edited(file: Path, _: Path) -> None:
    frame = pl.read_parquet(file)
    column = next(c for c, kind in frame.schema.items() if kind.is_integer())
    frame.with_columns(pl.col(column) + 1).write_parquet(file, compression="zstd", compression_level=1)


def _torn(file: Path, _: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, ``GOOD``, and one of other kernels."""
    folder = tmp_path_factory.mktemp("runs")
    write_folder(folder / "GOOD")
    write_folder(folder / "other", steps=5, slower=1.1, gpu="h100-sxm")
    return folder


@pytest.mark.parametrize("table", ["kernels", "ranges"])
@pytest.mark.parametrize("damage", [_missing, _short, _foreign, _edited, _torn])
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS.keys())
def test_every_command_refuses_it_in_one_line(
    words: list[str], damage: Callable[[Path, Path], None], table: str, runs: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    damaged = tmp_path / "RUN"
    shutil.copytree(runs / "GOOD", damaged)
    file = damaged / f"{table}.parquet"
    before = file.read_bytes()
    damage(file, runs / "other")
    if file.exists() and file.read_bytes() == before:
        pytest.skip("this table is the same in both, or of one row")
    places = {"RUN": damaged, "GOOD": runs / "GOOD", "OUT": tmp_path / "out"}
    code = run([str(places.get(w, w)).replace("OUT", str(tmp_path / "out")) for w in words])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {file}: ")
    assert err.rstrip().endswith("(ingest the trace again)")
    assert len(err.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["RUN"], "something was written"


def test_a_copied_run_is_still_one(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "GOOD", tmp_path / "moved")
    assert Run.open(tmp_path / "moved").kernels.height == Run.open(runs / "GOOD").kernels.height
