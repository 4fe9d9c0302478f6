"""One folder adds a family: a toy in a copy of the package is read, counted, priced and tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package_copy import check_covered, check_use, copy_package, run_tests

SPEC = '''"""The family toy: every element is squared once."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Streams, TableOperator, UserWords
from tracetool.families.toy.problem import toy_work

TOY = Family(
    name="toy",
    meaning="one square per element",
    example="toyish_kernel",
    place=75,
    shares=(0.1, 0.8, 0.1),
    needs=(("rows", "cols"), ("elements",)),
    count=toy_work,
    laws=("toy",),
    table=(TableOperator("toy", ("rows", "cols"), ("reads", "writes")),),
    operators={"play": sizes(Reading.LAST_AXIS, 0)},
    words=(UserWords(75, "square", "toyish"),),
    streams=Streams.OWN,
)

FAMILIES = (TOY,)
'''
PROBLEM = '''"""What a toy must do: one product for each element read and written."""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.hardware.gpu import Gpu


def toy_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of toys."""
    del gpu
    elements = rows.number("elements")
    elements = np.where(np.isfinite(elements), elements, rows.number("rows", 0.0) * rows.number("cols", 1.0))
    passes = rows.number("reads", 1.0) + rows.number("writes", 1.0)
    moved = passes * elements * element_bytes(dtype_of(rows))
    return Work.of(len(rows), useful_flops=elements, fp32_flops=elements, l2_bytes=moved, dram_bytes=moved)
'''
LAW = '''"""Toys: memory, or the FP32 pipe, behind one latency."""

from __future__ import annotations

from tracetool.core.operators import OperatorColumns
from tracetool.families.law import Coefficient, Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.streamed import stream_pieces
from tracetool.families.toy.problem import toy_work
from tracetool.hardware.gpu import Gpu


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return stream_pieces(
        toy_work(rows, gpu), gpu,
        launch_us=c["launch_us"], latency_clk=1000.0, efficiency=c["efficiency"], norm=3.0
    )


PRIORS = {"launch_us": Coefficient(1.0, 0.3, 9.0, "us"), "efficiency": Coefficient(0.5, 0.4, 1.0, "1")}
LAWS = (Law("toy", _parts, PRIORS),)
'''
#: What the rest of the program must know of it without a line of its own.
USE = """
import polars as pl
from tracetool.kernels.classify import classify_names
from tracetool.kernels.structure import describe
from tracetool.kernels.classify import NAMES
from tracetool.replay.predict import predict_table

assert "toy" in NAMES
assert classify_names(["toyish_kernel(float*)"])["family"].to_list() == ["toy"]
signature = {"name": "toyish_kernel(float*)", "kind": "kernel", "operator_name": "toys::play"}
row = describe(pl.DataFrame([signature | {"input_dims": "[[64, 128]]"}])).row(0, named=True)
assert (row["family"], row["rows"], row["cols"], row["shape_source"]) == ("toy", 64, 128, "operator"), row
table = pl.DataFrame({"op": ["toy"], "dtype": ["fp32"], "rows": [1 << 14], "cols": [1 << 12]})
prediction = predict_table(table, "h100-sxm", [1755])
moved_s = 2 * 4 * (1 << 26) / 3.35e12
# half of the memory's peak, as its own law says
assert 2e6 * moved_s < prediction.frame["duration_us"][0] < 2.2e6 * moved_s
"""
#: Tests over every family.
OVER_ALL = (
    "tests/families/test_needs.py",
    "tests/families/test_laws.py",
    "tests/families/test_count.py",
    "tests/model/test_residency.py",
    "tests/kernels/test_grammars.py::test_families_are_the_closed_list",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of package and tests with a toy family in it."""
    root = copy_package(tmp_path_factory.mktemp("copy"))
    folder = root / "tracetool/families/toy"
    folder.mkdir()
    for name, text in {"__init__": '"""Toys."""\n', "spec": SPEC, "problem": PROBLEM, "law": LAW}.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return root


def test_a_toy_family_is_known_everywhere(copy: Path) -> None:
    check_use(copy, USE)


def test_the_tests_over_every_family_cover_it(copy: Path) -> None:
    done = run_tests(copy, *OVER_ALL)
    assert done.returncode == 0, done.stdout[-3000:]
    for test in (
        "test_a_trace_states_a_shape",
        "test_counts_are_finite",
        "test_a_table_row_of_the_columns",
        "test_a_family_chooses_among_its_laws",
    ):
        check_covered(done, test, "[toy]")
