"""Columns, work and the plug-in registry."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tracetool.core.interval import LEVEL, Z90
from tracetool.core.operators import _DISTINCT, OperatorColumns, distinct_texts
from tracetool.core.registry import members
from tracetool.core.work import Work


def _columns() -> OperatorColumns:
    return OperatorColumns(
        np.array(["gemm", "norm"], dtype=object),
        {"m": np.array([8.0, np.nan]), "dtype": np.array(["bf16", ""], dtype=object)},
    )


def test_z90_is_the_quantile_of_the_level() -> None:
    assert pytest.approx(stats.norm.ppf((1 + LEVEL) / 2), rel=1e-12) == Z90


def test_absent_numbers_and_texts_have_defaults() -> None:
    rows = _columns()
    assert rows.number("m", 1.0).tolist() == [8.0, 1.0]
    assert np.isnan(rows.number("k")).all()
    assert rows.text("dtype", "fp32").tolist() == ["bf16", "fp32"]
    assert rows.text("absent", "x").tolist() == ["x", "x"]


def test_a_text_column_is_read_once_and_nobody_can_write_to_it() -> None:
    rows = _columns()
    texts = rows.text("dtype", "fp32")
    assert rows.text("dtype", "fp32") is texts
    assert rows.text("dtype").tolist() == ["bf16", ""]  # another default is another column
    with pytest.raises(ValueError, match="read-only"):
        texts[0] = "fp8"
    assert distinct_texts(texts)[1] is distinct_texts(texts)[1]
    assert rows.columns["dtype"].tolist() == ["bf16", ""]


def test_distinct_texts_are_of_what_the_column_holds_now() -> None:
    column = np.array(["a", "b", "a"], dtype=object)
    assert distinct_texts(column)[0] == ["a", "b"]
    column[:] = "c"
    assert distinct_texts(column)[0] == ["c"]
    seen = column.view()  # cannot be written to, while what it shows can
    seen.flags.writeable = False
    assert distinct_texts(seen)[0] == ["c"]
    column[1] = "d"
    assert distinct_texts(seen)[0] == ["c", "d"]
    held = len(_DISTINCT)
    passing = np.array(["x", "y"], dtype=object)
    passing.flags.writeable = False
    distinct_texts(passing)
    assert len(_DISTINCT) == held + 1
    del passing
    assert len(_DISTINCT) == held


@pytest.mark.parametrize("rows", [np.array([False, True]), np.array([1])])
def test_take_chooses_the_same_rows_of_every_column(rows: np.ndarray) -> None:  # type: ignore[type-arg]
    part = _columns().take(rows)
    assert len(part) == 1
    assert part.family.tolist() == ["norm"]
    assert part.text("dtype").tolist() == [""]


def test_work_not_named_is_zero_and_unknown_counts_are_refused() -> None:
    work = Work.of(2, dram_bytes=3.0, tensor_flops=np.array([1.0, 2.0]))
    assert work.dram_bytes.tolist() == [3.0, 3.0]
    assert work.sfu_ops.tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="flops"):
        Work.of(1, flops=1.0)


def test_work_is_put_and_taken_by_rows() -> None:
    whole = Work.of(3)
    whole.put(np.array([2, 0]), Work.of(2, l2_bytes=np.array([5.0, 7.0])))
    assert whole.l2_bytes.tolist() == [7.0, 0.0, 5.0]
    assert whole.take(np.array([True, False, True])).l2_bytes.tolist() == [7.0, 5.0]


def test_a_plugin_without_its_constant_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "plugins_under_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "right.py").write_text("NUMBER = 3\n")
    (package / "_private.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert members("plugins_under_test", "NUMBER", int) == {"right": 3}
    with pytest.raises(TypeError, match=r"plugins_under_test\.right must define TEXT: str"):
        members("plugins_under_test", "TEXT", str)
    for name in [m for m in sys.modules if m.startswith("plugins_under_test")]:
        del sys.modules[name]
