"""The prefill law holds the coefficients its page explains, and no more than the ablation left."""

from __future__ import annotations

import re
from pathlib import Path

from tracetool.families.attention.prefill import PREFILL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "families" / "prefill.md"
#: Coefficients left by ``benchmarks/ablate_law.py``: one more must be worth its place on shapes left out.
MOST = 24


def test_the_law_has_no_more_coefficients_than_the_ablation_left() -> None:
    assert len(PREFILL.priors) <= MOST


def test_the_page_explains_every_coefficient() -> None:
    table = PAGE.read_text("utf-8").split("\n| coefficient |", 1)[1].split("\n\n", 1)[0]
    explained = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(explained) == sorted(PREFILL.priors)
