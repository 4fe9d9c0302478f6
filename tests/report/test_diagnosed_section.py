"""The findings of a run on its page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from tracetool.replay.diagnosis.findings import Finding
from tracetool.report.sections.diagnosed import diagnosed


def test_names_of_kernels_are_cut_in_sentences() -> None:
    name = "void at::native::elementwise_kernel<" + "at::native::BinaryFunctor<float>, " * 20 + "4>(int)"
    finding = Finding(
        "padding", 2.0, 1.0, 3.0, 0.5, "sizes", "setting", [{"name": name, "launches": 3, "energy_j": 2.0}],
        None, ("padding: 2 J", f"shown by: 2 J of it in 3 launches of {name}"),
    )  # fmt: skip
    causes = pl.DataFrame({
        "cause": ["padding", "run"], "energy_j": [2.0, 4.0], "energy_low_j": [1.0, 3.0],
        "energy_high_j": [3.0, 5.0], "share": [0.5, 1.0], "time_ms": [1.0, 2.0],
    })  # fmt: skip
    words = "5 J measured"
    diagnosis = SimpleNamespace(causes=causes, findings=[finding], warnings=(), energy_words=words)
    page: Any = SimpleNamespace(diagnosis=diagnosis)
    section = diagnosed(page)
    assert section is not None
    (line,) = [part for part in section.body.split("<p") if "shown by" in part]
    assert "elementwise_kernel" in line and "…" in line
    assert len(line.split("</p>")[0]) < 160
