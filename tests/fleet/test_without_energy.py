"""What fleet tables say of energies that nobody measured, and of jobs without any."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tracetool as tt
from tests.documents import check_document
from tests.fleet.test_fleet import kineto

pytestmark = pytest.mark.usefixtures("fleet_here")


def test_a_job_without_energy_says_why_and_what_to_do(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / "source" / name).mkdir(parents=True)
        trace = tmp_path / "source" / name / "mi300x_kernel_trace.csv"
        shutil.copy(samples / trace.name, trace)
    with trace.open("a") as file:
        file.write("\n")  # no copy
    kineto(tmp_path / "source" / "named" / "step.pt.trace.json", launches=2)
    tt.fleet_ingest(tmp_path / "source", tmp_path / "set", workers=1)
    for _ in range(2):  # also where it was done before
        jobs = tt.fleet_run("attribute", tmp_path / "set", workers=1)
        check_document("fleet attribute", jobs.to_dict())
        assert sorted(jobs.without_energy) == ["one--mi300x_kernel_trace", "two--mi300x_kernel_trace"]
        jobs.show()
        said = " ".join(capsys.readouterr().out.split()).split("no energy: ")[1:]
        assert len(said) == 1
        assert said[0].startswith("one--mi300x_kernel_trace (2 jobs in all): no power readings")
        assert "names no GPU (name it: --gpu" in said[0]
        assert str(tmp_path) not in said[0]
    named = tt.fleet_run("attribute", tmp_path / "set", options={"gpu": "mi300x"}, workers=1)
    assert not named.without_energy


@pytest.mark.parametrize(
    ("measured", "said"),
    [((True,), "All of this energy is measured"), ((False,), "All of this energy is predicted"),
     ((True, False), "the rest is predicted")],
)  # fmt: skip
def test_a_table_of_energies_says_what_they_rest_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: tuple[bool, ...], said: str
) -> None:
    for n, with_log in enumerate(measured):
        trace = kineto(tmp_path / "source" / str(n) / "step.pt.trace.json", launches=4)
        if not with_log:
            trace.with_name("step_power.csv").unlink()
    tt.fleet_ingest(tmp_path / "source", tmp_path / "set", workers=1)
    tt.fleet_run("attribute", tmp_path / "set", workers=1)
    tt.fleet_ask("energy", tmp_path / "set", by="family").show()
    assert said in " ".join(capsys.readouterr().out.split())
