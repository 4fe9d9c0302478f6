"""``tracetool report`` as people call it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.compare.folders import write_folder
from tracetool.cli.app import run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_folder(folder / "base.tracetool")
    write_folder(folder / "head.tracetool", slower=1.2, extra=2)
    return folder


def test_a_run_beside_its_base_is_one_page(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folders / "report.html"
    assert (
        run(
            [
                "report",
                str(folders / "head.tracetool"),
                str(folders / "base.tracetool"),
                "-o",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    text = out.read_text("utf-8")
    sections = re.findall(r'<section id="(\w+)"', text)
    assert sections[0] == "budget"
    assert {"where", "timeline", "agreement", "clocks", "kernels", "provenance"} <= set(sections)
    assert "Why the energy changed" in text
    assert said["path"] == str(out)
    assert any(f["label"] == "Energy of the run, predicted" for f in said["facts"])
    assert any("no power readings" in w for w in said["warnings"])
    assert "measured power" not in text
    assert "the run has no power log" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{head}", "-o", "{folder}/report.md"], "a report is a page"),
        (["{head}", "-o", "{folder}/no/report.html"], "folder does not exist"),
        (["{folder}"], "not a run"),
        (["{head}", "{folder}/nowhere", "-o", "{folder}/x.html"], "no such run"),
    ],
)
def test_slips_exit_2_and_leave_nothing(
    folders: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    named = {"head": folders / "head.tracetool", "folder": folders}
    before = sorted(folders.iterdir())
    assert run(["report", *(a.format(**named) for a in arguments)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert sorted(folders.iterdir()) == before


def test_a_page_that_takes_long_says_on_a_terminal_what_it_does(
    folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tracetool.cli.progress.PATIENCE_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    call = ["report", str(folders / "head.tracetool"), "-o", str(tmp_path / "page.html")]
    assert run(call) == 0
    shown = capsys.readouterr().err
    steps = [step.strip() for step in re.split(r"\r\x1b\[2K", shown) if step.strip()]
    assert steps[:3] == ["predicting 10%", "attributing 30%", "trying other clocks 60%"]
    assert shown.endswith("\r\x1b[2K")
    assert run([*call, "-q"]) == 0
    assert capsys.readouterr().err == ""
