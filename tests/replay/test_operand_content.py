"""What operands hold is stated by tables; kernels of a run state how many they touch under the same word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.model.operators import rows_of
from tracetool.replay.operand_content import with_operands


def test_a_count_of_operands_is_no_content() -> None:
    rows = rows_of("elementwise", elements=[1e6, 1e6], reads=1, writes=1)
    counted = replace(rows, columns={**rows.columns, "operands": np.array([3.0, np.nan])})
    assert with_operands(counted, "") is counted
    assert "switching" in " ".join(with_operands(counted, "zeros").columns)
