"""Traced workloads of four models: a configuration gives their operators, one by one and in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.forecast.test_training_operators import BERT
from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Prompt

TABLE = Path(__file__).resolve().parents[3] / "shared/data/workloads/operators.parquet"
WORKLOADS = pl.read_parquet(TABLE)["workload"].unique().sort().to_list() if TABLE.is_file() else []
MODELS: dict[str, Any] = {
    "optmodel": "opt-1.3b",
    "gpt2model": "gpt2",
    "qwen2model": "qwen2-1.5b",
    "bertmodel": BERT,
}


def expected(workload: str) -> list[dict[str, Any]]:
    """Return its rows, absent columns left out; attention sees repeated keys."""
    rows = pl.read_parquet(TABLE).filter(pl.col("workload") == workload).sort("position")
    return [
        {k: v for k, v in row.items() if v is not None and k not in {"workload", "position"}}
        for row in rows.iter_rows(named=True)
    ]


@pytest.mark.data
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_configuration_gives_the_operators_of_its_trace(workload: str) -> None:
    model, _, _, batch, length, _, *eager = workload.split("_")
    prompt = Prompt(int(batch[1:]), int(length[1:]), fused=not eager)
    rows = read_model(MODELS[model]).eager_operators(prompt)
    traced = expected(workload)
    given = [
        {k: row.get(k, 1.0 if k == "batch" else None) for k in one}
        for row, one in zip(rows, traced, strict=False)
    ]
    assert len(rows) == len(traced)
    assert given == traced


def test_an_architecture_nobody_wrote_down_is_one_line() -> None:
    with pytest.raises(BadInput, match="transformers"):
        read_model("deepseek-r1").eager_operators(Prompt(1, 16))
