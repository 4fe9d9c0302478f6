"""Work read from the names of steps: tokens and requests of serving engines, steps of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tracetool as tt
from tests.sources.makers import kineto_document
from tests.sources.test_modules import _event, _launch
from tracetool.api.energy_by import parse_work
from tracetool.replay.work_units import step_work

PREFILL = "execute_context_1(888_788544)_generation_0(0)"
DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk{0}sqsq32sqsk{0})"
MIXED = "execute_40_context_2(sq8sk8sqsq32sqsk32)_generation_32(sq32sk400sqsq32sqsk400)"


@pytest.mark.parametrize(
    ("name", "phase", "tokens", "requests"),
    [
        (PREFILL, "prefill", 888, 1),
        (DECODE.format(32785), "decode", 32, 0),
        (MIXED, "mixed", 40, 2),
        ("step[DECODE bs=32]", "decode", 32, 0),
        ("step[EXTEND bs=4 toks=512]", "prefill", 512, 4),
        ("step[EXTEND bs=4]", "prefill", None, 4),
        ("training_step_7", None, None, None),
    ],
)
def test_names_state_phase_tokens_and_requests(
    name: str, phase: str | None, tokens: int | None, requests: int | None
) -> None:
    assert step_work([name]).row(0) == (name, phase, tokens, requests)


def _run(folder: Path, *names: str) -> tt.Run:
    events: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        at = 1000.0 * i
        events.append(_event("user_annotation", name, 1, at, 800.0))
        for k in range(3):
            events += _launch(10 * i + k + 1, 1, at + 10.0 + 100.0 * k, 50.0)
    (folder / "t.json").write_text(json.dumps(kineto_document(events)))
    return tt.ingest(folder / "t.json", out=folder / "run.tracetool")


def test_prefill_and_decode_have_their_own_joules_a_token(tmp_path: Path) -> None:
    run = _run(tmp_path, PREFILL, DECODE.format(100), DECODE.format(132), MIXED)
    groups = tt.energy_by(run, ["phase"], work={"tokens": None}).groups
    work = dict(groups.select("name", "work").iter_rows())
    assert {k: work[k] for k in ("prefill", "decode", "mixed", "run")} == {
        "prefill": 888.0, "decode": 64.0, "mixed": 40.0, "run": 992.0,
    }  # fmt: skip
    for row in groups.filter(groups["work"].is_not_null()).iter_rows(named=True):
        assert row["energy_per_unit_j"] == pytest.approx(row["energy_j"] / row["work"])
        assert row["units_per_joule"] == pytest.approx(row["work"] / row["energy_j"])
    assert groups["energy_j"][:-1].sum() == pytest.approx(groups["energy_j"][-1], rel=1e-9)
    tt.export(run.path, tmp_path / "run.prom")
    metrics = (tmp_path / "run.prom").read_text().splitlines()
    for phase, row in (("decode", "decode"), ("all", "run")):
        labels = f'{{work="tokens",phase="{phase}"}}'
        told = [
            line for line in metrics if line.startswith(f"tracetool_predicted_energy_per_work_joules{labels}")
        ]
        per_token = float(groups.filter(name=row)["energy_per_unit_j"][0])
        assert [float(line.split()[-1]) for line in told] == pytest.approx([per_token], rel=1e-6)
    assert 'tracetool_work_total{work="requests",phase="all"} 3' in metrics
    requests = tt.energy_by(run, ["gpu"], work={"requests": None}).groups
    assert requests["work"].to_list() == [3.0, 3.0]


def test_training_counts_its_steps_and_states_no_tokens(tmp_path: Path) -> None:
    run = _run(tmp_path, "training_step_1", "training_step_2")
    steps = tt.energy_by(run, ["iteration"], work={"steps": None}).groups
    assert steps["work"][-1] == 2.0
    assert set(steps["name"]) >= {"training_step_1", "training_step_2"}
    with pytest.raises(tt.BadInput, match="state no tokens"):
        tt.energy_by(run, ["gpu"], work={"tokens": None})
    with pytest.raises(tt.BadInput, match="phase"):
        tt.energy_by(run, ["phase"])


def test_work_on_the_command_line() -> None:
    assert parse_work("tokens") == {"tokens": None}
    assert parse_work("images=4") == {"images": 4.0}
    for text in ("4096", "tokens=", "tokens=-1", "a b"):
        with pytest.raises(tt.BadInput):
            parse_work(text)
