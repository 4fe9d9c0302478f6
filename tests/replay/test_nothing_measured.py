"""A run without a power log states no measured energy, in any command: nothing measured is not 0 J."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt


@pytest.fixture(scope="module")
def unlogged(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("unlogged") / "run.tracetool"
    return tt.ingest(samples / "h100_training.sqlite", out=out)


def test_what_nothing_measured_is_null_in_every_command(unlogged: tt.Run) -> None:
    assert tt.summary(unlogged).to_dict()["measured_j"] is None
    assert tt.diagnose(unlogged).to_dict()["measured_j"] is None
    assert set(tt.energy_by(unlogged, ["family"]).groups["measured_j"]) == {None}


def test_a_run_too_large_for_energies_states_none(unlogged: tt.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETOOL_WINDOW", "10")
    document = tt.summary(unlogged).to_dict()
    assert document["measured_j"] is None
    assert document["parts"][-1]["energy_j"] is None
