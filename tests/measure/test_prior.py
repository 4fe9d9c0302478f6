"""Attribution tied to the model or to a table of predictions, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.cli.app import run as command
from tracetool.core.errors import BadInput
from tracetool.measure.attribute import attribute_run
from tracetool.measure.prior_sources import read_prior
from tracetool.tables.run import Run

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prior") / "h100.tracetool"
    log = SAMPLES / "h100_training_power.csv"
    return ingest([SAMPLES / "h100_training.sqlite"], [log], tz="-05:00", gpu=None, out=out).path


def test_the_models_prior_is_used_and_its_share_is_told(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["attribute", str(run), "--prior", "model", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("comes from it" in note for note in told["notes"])
    assert all(row["model_share_j"] is not None for row in told["controls"])
    truth = json.loads((SAMPLES / "truth.json").read_text("utf-8"))["h100_training.sqlite"]
    work = sum(r["energy_j"] or 0.0 for r in told["energy"] if not r["class"].startswith("("))
    assert work == pytest.approx(truth["kernel_energy_j"], rel=0.05)


def test_what_predict_writes_is_a_prior(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "predicted.parquet"
    assert command(["predict", str(run), "-o", str(table), "-q"]) == 0
    found = attribute_run(run, prior=table)
    alone = attribute_run(run)
    assert any("comes from it" in note for note in found.notes)
    assert not any("comes from it" in note for note in alone.notes)
    moved = (found.energy["energy_j"] - alone.energy["energy_j"]).abs()
    sd = (alone.energy["energy_high_j"] - alone.energy["energy_low_j"]) / 2
    assert moved.max() > 0
    assert (moved <= 2 * sd + 1e-9).mean() > 0.9  # a prior fills in; it does not overrule the readings


def test_a_prior_by_name_serves_both_doors(run: Path, tmp_path: Path) -> None:
    names = Run.open(run).signatures["name"].unique()
    table = tmp_path / "prior.csv"
    pl.DataFrame({"name": names, "power_w": 400.0}).write_csv(table)
    assert any("comes from it" in note for note in attribute_run(run, prior=table).notes)
    pl.DataFrame({"name": ["nothing like it"], "power_w": 400.0}).write_csv(table)
    with pytest.raises(BadInput, match="nothing that the prior names"):
        attribute_run(run, prior=table)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "is empty"), ("power_w\n3\n", "missing column signature"),
     ("signature\n3\n", "missing column power_w"), ("signature,power_w\n1,x\n2,-4\n3,inf\n", "no usable")],
)  # fmt: skip
def test_a_bad_prior_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    bad = tmp_path / "prior.csv"
    bad.write_text(text)
    with pytest.raises(BadInput, match=said):
        read_prior(bad)


def test_no_model_speaks_for_a_table_of_activities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("name,start_us,end_us\nx,0,5\n")
    asked = ["attribute", str(tmp_path / "a.csv"), "--power", "none.csv", "--prior", "model"]
    assert command(asked) == 2
    assert "cannot be modeled" in capsys.readouterr().err
