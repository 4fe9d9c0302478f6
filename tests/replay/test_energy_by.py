"""Groups sum to the run exactly, every activity is in one, and their energies are those of its truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracetool as tt


@pytest.fixture(scope="module")
def trained(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("by") / "run.tracetool"
    return tt.ingest(samples / "h100_training.sqlite", samples / "h100_training_power.csv", out=out)


@pytest.mark.parametrize("by", ["signature", "family", "operator", "range", "iteration", "gpu", "gpu,range"])
def test_groups_sum_to_the_run(by: str, trained: tt.Run) -> None:
    groups = tt.energy_by(trained, by.split(","), work={"tokens": 1000.0}).groups
    run = groups.row(-1, named=True)
    assert run["name"] == "run"
    assert run["source"] == "measured"
    assert run["energy_per_unit_j"] == pytest.approx(run["energy_j"] / 1000.0)
    for column in ("energy_j", "predicted_energy_j", "time_ms", "idle_ms"):
        assert groups[column][:-1].sum() == pytest.approx(run[column], rel=1e-9)
    assert groups["launches"][:-1].sum() == run["launches"] == trained.kernels.height
    assert run["energy_j"] == pytest.approx(trained.attribute().scopes["run"]["energy_j"], rel=1e-9)
    ends = groups["energy_low_j"] <= groups["energy_j"]
    assert ends.all()
    assert (groups["energy_high_j"] >= groups["energy_j"]).all()


def test_a_key_nobody_knows_is_one_line(trained: tt.Run) -> None:
    with pytest.raises(tt.BadInput, match="color"):
        tt.energy_by(trained, ["color"])
    assert json.loads(tt.energy_by(trained, ["family"]).to_json())["by"] == ["family"]
