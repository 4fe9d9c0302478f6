"""A trace that several sources of a fleet hold counts once."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt
from tests.documents import check_document
from tests.fleet.test_fleet import kineto
from tracetool.fleet.jobs import find_jobs


def test_a_trace_counts_once_however_often_it_is_named(tmp_path: Path) -> None:
    for name in ("a/one.json", "a/rank0.json", "a/rank1.json", "b/one.json"):
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "src")
    src = str(tmp_path / "src")
    once, nothing = find_jobs([src])
    assert nothing == ()
    jobs, (note,) = find_jobs([src, src, str(tmp_path / "link"), f"{src}/a/*.json", f"{src}/b/one.json"])
    assert jobs == once
    assert note.startswith("12 traces, first ")
    assert find_jobs([f"{src}/b/one.json"] * 2)[1] == (
        f"{src}/b/one.json is named more than once: it counts once",
    )
    parts, _ = find_jobs([f"{src}/a/rank0.json", src])
    assert sorted(Path(t.path).name for j in parts for t in j.traces) == sorted(
        Path(t.path).name for j in once for t in j.traces
    )  # fmt: skip
    names = [j.name for j in find_jobs([f"{src}/a", f"{src}/b"])[0]]
    assert names[:2] == ["one", "rank"]
    assert names[2].startswith("one-")


@pytest.mark.usefixtures("fleet_here")
def test_a_source_named_twice_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kineto(tmp_path / "src" / "a" / "step.pt.trace.json", launches=2)
    jobs = tt.fleet_ingest([tmp_path / "src"] * 2, tmp_path / "set", workers=1)
    assert jobs.frame["job"].to_list() == ["a--step"]
    check_document("fleet ingest", jobs.to_dict())
    jobs.show()
    printed = " ".join(capsys.readouterr().out.split())
    assert "step.pt.trace.json is named more than once: it counts once" in printed
