"""Reports go through the installed nsys: absent, too old, hanging or working, each told in one line."""

# ruff: noqa: E501

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.sources.makers import nsys_sqlite
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput, MissingPart
from tracetool.sources.nsight.formats import nsys_rep
from tracetool.tables.run import Run

REPORT = b"NVIDIA Tegra Profiler Report 2026@1@2@63-261237296639v0.\n" + b"\0" * 400 + b"U3w[END]"


def _fake(folder: Path, body: str) -> Path:
    path = folder / "nsys"
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo NVIDIA Nsight Systems version 2022.4.2.1; exit 0; fi\n{body}\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(REPORT)
    return path


def test_without_nsys_the_line_says_what_to_install_and_what_to_run_elsewhere(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsys_rep, "candidates", lambda _given: iter(()))
    with pytest.raises(MissingPart) as error:
        ingest([report], out=tmp_path / "out")
    assert error.value.exit_code == 3
    assert "apt-get install nsight-systems" in error.value.line()
    assert "nsys export --type sqlite" in error.value.line()


def test_a_newer_report_names_both_versions(report: Path, tmp_path: Path) -> None:
    old = _fake(
        tmp_path, 'echo "Exportation error: Version number is invalid: 2026@1@2@63-261237296639v0"; exit 1'
    )
    with pytest.raises(BadInput) as error:
        ingest([report], out=tmp_path / "out", nsys=old)
    assert (
        "written by Nsight Systems 2026.1.2.63, newer than the nsys of this machine (2022.4.2.1)"
        in error.value.line()
    )
    assert not (tmp_path / "out").exists()


def test_a_cut_report_is_told_before_nsys_is_asked(report: Path, tmp_path: Path) -> None:
    report.write_bytes(REPORT[:100])
    with pytest.raises(BadInput, match="its end is missing"):
        ingest([report], out=tmp_path / "out", nsys=_fake(tmp_path, "exit 0"))


def test_a_working_nsys_gives_the_run(report: Path, tmp_path: Path) -> None:
    export = shutil.move(nsys_sqlite(tmp_path), tmp_path / "elsewhere.db")
    nsys = _fake(tmp_path, f'while [ "$1" != -o ]; do shift; done; cp "{export}" "$2"')
    run = Run.open(ingest([report], out=tmp_path / "out", nsys=nsys))
    assert run.kernels.height == 4
    assert run.info["sources"][0]["details"]["exported_by"] == "nsys 2022.4.2.1"


def test_an_export_beside_a_report_is_read_and_named_unless_an_older_nsys_made_it(
    report: Path, tmp_path: Path
) -> None:
    export = nsys_sqlite(tmp_path)
    made_by = Run.open(ingest([export], out=tmp_path / "own")).info["sources"][0]["profiler_version"]
    assert made_by
    newer = f"{int(made_by.split('.')[0]) + 1}@1@1@1-".encode()
    report.write_bytes(nsys_rep.MAGIC + newer + b"0" * 200 + nsys_rep.END)
    report_time = export.stat().st_mtime - 10
    os.utime(report, (report_time, report_time))
    nsys = _fake(tmp_path, "echo protobuf error; exit 1")
    with pytest.raises(BadInput, match="cannot be parsed"):
        ingest([report], out=tmp_path / "out", nsys=nsys)
    older = newer.replace(newer[:4], b"2020")
    report.write_bytes(nsys_rep.MAGIC + older + b"0" * 200 + nsys_rep.END)
    os.utime(report, (report_time, report_time))
    run = Run.open(ingest([report], out=tmp_path / "out", nsys=nsys))
    details = run.info["sources"][0]["details"]
    assert details["read_from"] == export.name
    assert details["read_from_sha256"] == hashlib.sha256(export.read_bytes()).hexdigest()
    assert any("read from run.sqlite beside it" in w for w in run.info["warnings"])


def test_an_nsys_that_hangs_is_ended(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_rep, "LIMIT_S", 0.3)
    with pytest.raises(BadInput, match="took longer"):
        ingest([report], out=tmp_path / "out", nsys=_fake(tmp_path, "sleep 30"))
