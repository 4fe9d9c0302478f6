"""Real pairs of traces: everything is matched or listed, and the causes sum to the change."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tracetool.api.ingest import ingest
from tracetool.compare.diff import diff_runs

PAIRS = {
    "compiled": ("hta__trace_diff__control__control.json.gz", "hta__trace_diff__test__test.json.gz"),
    "vendors": (
        "tracelens__h100__gaunernst_bert-small-uncased.json.gz",
        "tracelens__mi300__gaunernst_bert-small-uncased.json.gz",
    ),
}


@pytest.mark.data
@pytest.mark.parametrize("pair", PAIRS)
def test_a_real_pair_closes(pair: str, data: Path, tmp_path: Path) -> None:
    runs = [
        ingest([data / "traces" / "kineto" / name], out=tmp_path / f"{side}.tracetool").path
        for side, name in zip(("base", "head"), PAIRS[pair], strict=True)
    ]
    found = diff_runs(runs[:1], runs[1:])
    energy, total = found.metrics[0], found.level("total").row(0, named=True)
    assert sum(found.factors.values()) == pytest.approx(energy.head - energy.base, rel=1e-9)
    kernels = found.level("kernel")
    for side in ("base", "head"):
        gap = found.level("gap")[f"energy_{side}_j"].sum()
        assert kernels[f"energy_{side}_j"].sum() + gap == pytest.approx(total[f"energy_{side}_j"])
        assert kernels[f"launches_{side}"].sum() == pytest.approx(total[f"launches_{side}"])
    # other GPUs: shown, explained, not judged
    assert found.verdict == "inconclusive"
    assert "GPU" in found.keys
    unmatched = kernels.filter(pl.col("relation").is_in(["added", "removed"]))
    matched = 1 - unmatched["energy_head_j"].sum() / kernels["energy_head_j"].sum()
    # a compiled model keeps its operators' names to itself: half of its work has no counterpart by name
    assert matched > {"compiled": 0.4, "vendors": 0.8}[pair]
