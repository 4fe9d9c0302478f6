"""Execution traces state the shapes of a profile that was recorded without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sources.execution_files import CALLS, OBSERVED, chakra, observed, profile
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.tables.run import Run


@pytest.mark.parametrize("make", OBSERVED)
def test_shapes_are_joined_by_the_number_of_the_call(make: Callable[[Path], Path], tmp_path: Path) -> None:
    file = make(tmp_path)
    assert detect(file)[0] == "execution_trace"
    run = Run.open(ingest([profile(tmp_path), file], out=tmp_path / "run"))
    operators = run.table("operators").sort("start_ns")
    assert operators["input_dims"].to_list() == [[*map(list, sizes), []] for sizes in CALLS.values()]
    assert operators["input_types"].to_list() == [["c10::Half", "c10::Half", "Scalar"]] * 3
    assert operators["concrete_inputs"].to_list() == [["", "", "1"]] * 3
    assert any("states the shapes of 3 calls" in w for w in run.info["warnings"])
    assert run.signatures["operator_name"].drop_nulls().unique().to_list() == ["aten::mm"]


def test_known_shapes_and_calls_of_other_names_stay(tmp_path: Path) -> None:
    known = Run.open(ingest([profile(tmp_path, shapes=True), observed(tmp_path)], out=tmp_path / "known"))
    assert known.table("operators")["input_dims"].to_list() == [[[1, 1], [1, 1]]] * 3
    renamed = observed(tmp_path, name="aten::add")
    run = Run.open(ingest([profile(tmp_path), renamed], out=tmp_path / "run"))
    assert run.table("operators")["input_dims"].null_count() == 3
    assert any("another run's" in w for w in run.info["warnings"])


def test_damaged_ones_are_refused_in_one_line(tmp_path: Path) -> None:
    trace = profile(tmp_path)
    for make, fault in (
        (observed, "is a cut or damaged execution trace"),
        (chakra, "a node reaches beyond the end"),
    ):
        whole = make(tmp_path)
        cut = tmp_path / f"cut_{whole.name}"
        cut.write_bytes(whole.read_bytes()[:-9])
        with pytest.raises(BadInput, match=fault):
            ingest([trace, cut], out=tmp_path / "run")
    with pytest.raises(BadInput, match="states shapes of operators, and no timeline"):
        ingest([observed(tmp_path)], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
