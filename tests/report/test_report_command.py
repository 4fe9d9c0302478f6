"""``tracetool report`` as people call it."""

from __future__ import annotations

import json
import re
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
