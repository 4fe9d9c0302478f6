"""Reads that would not fit are refused before anything is read, in one line with the rows and the size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources import makers
from tests.sources.makers import TRACES, Sample
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput, TracetoolError
from tracetool.replay.operator_tables import load_table
from tracetool.sources.io import sqlite_file
from tracetool.tables import memory
from tracetool.tables.activity_table import read_activity
from tracetool.tables.run import Run

ROWS, GROUPS = 1_000_000, 20


def _bomb(path: Path, **columns: object) -> Path:
    """Write 20 million equal rows, which take a few hundred kilobytes."""
    table = pa.table(
        {name: pa.array([value]).take(pa.nulls(0, pa.int64())) for name, value in columns.items()}
    )
    block = pa.table({n: pa.array([v] * ROWS) for n, v in columns.items()}, schema=table.schema)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(GROUPS):
            writer.write_table(block, row_group_size=ROWS)
    assert path.stat().st_size < 1 << 20
    return path


def _ingested(path: Path) -> object:
    return ingest([path], out=path.parent / "run").path


def _of_a_run(path: Path) -> object:
    path.rename(path.with_name("kernels.parquet"))
    return Run(path.parent, {}).kernels


def _of_an_export(path: Path) -> object:
    folder = makers.nsys_folder(path.parent)
    path.rename(next(folder.glob("StringIds*")))
    return ingest([folder], out=path.parent / "run").path


READERS: list[tuple[Callable[[Path], object], dict[str, object]]] = [
    (_ingested, {"kernel": "k", "start_us": 1, "duration_us": 1}),
    (load_table, {"op": "gemm", "m": 1, "n": 1}),
    (load_table, {"op": "gemm", "sizes": [1, 2, 3]}),
    (read_activity, {"name": "k", "start_us": 1, "end_us": 2}),
    (_of_a_run, {"name": "k", "start_ns": 1, "duration_ns": 1}),
    (_of_an_export, {"id": 1, "value": "x"}),
]


@pytest.mark.parametrize(("read", "columns"), READERS, ids=[f"{r.__name__}-{len(c)}" for r, c in READERS])
def test_rows_that_take_no_room_on_disk_are_refused(
    read: Callable[[Path], object], columns: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="declares 20,000,000 rows") as error:
        read(_bomb(tmp_path / "bomb.parquet", **columns))
    assert "\n" not in error.value.line()
    assert "TRACETOOL_MAX_GZ_RATIO" in error.value.line()
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob(".run*"))


def test_a_ratio_that_is_real_can_be_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _bomb(tmp_path / "bomb.parquet", op="gemm", m=1, n=1)
    monkeypatch.setenv("TRACETOOL_MAX_GZ_RATIO", "1000000")
    memory.check_parquet(path)
    monkeypatch.setattr(memory, "available_bytes", lambda **_: 1 << 20)
    with pytest.raises(BadInput, match=r"20,000,000 rows take about .* GiB of memory"):
        memory.check_parquet(path)
    memory.check_parquet(path, ["not there"])


@pytest.mark.parametrize("sample", TRACES, ids=[f"{s.format}-{i}" for i, s in enumerate(TRACES)])
def test_every_reader_predicts_its_memory(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample.make(tmp_path)
    monkeypatch.setattr(sqlite_file, "FAST_ROWS", 0)
    monkeypatch.setattr(memory, "SMALL_BYTES", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda **_: 1)
    with pytest.raises(TracetoolError, match="GiB of memory") as error:
        ingest([path], out=tmp_path / "run")
    assert error.value.exit_code == 2
    assert not list(tmp_path.glob("*run"))


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the address space")
def test_what_limits_leave_is_seen() -> None:
    ask = "print(memory.available_bytes(), memory.available_bytes(driver=True))"
    imported = "from tracetool.tables import memory"
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); {imported}; {ask}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    plain, driver = map(int, run.stdout.split())
    assert 0 < driver < plain < 3 << 30


def test_a_broken_file_is_left_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    memory.check_parquet(path)
    pl.DataFrame({"a": [1]}).write_ipc(tmp_path / "t.arrow")
    memory.check_parquet(tmp_path / "t.arrow")
