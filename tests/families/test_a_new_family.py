"""One file adds a family: a toy in a copy of the package is read, counted, priced and tested as any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOY = '''"""Toys: every element is squared once."""

from __future__ import annotations

from tracetool.families.arguments import Reading, sizes
from tracetool.families.spec import Family, Streams, TableOperator, UserWords
from tracetool.families.streaming.problem import stream_counter

FAMILY = Family(
    meaning="one square per element",
    example="toyish_kernel",
    place=75,
    shares=(0.1, 0.8, 0.1),
    needs=(("rows", "cols"), ("elements",)),
    count=stream_counter(flops=1.0),
    table=(TableOperator("toy", ("rows", "cols"), ("reads", "writes")),),
    operators={"play": sizes(Reading.LAST_AXIS, 0)},
    words=(UserWords(75, "square", "toyish"),),
    streams=Streams.OWN,
)
'''
#: What the rest of the program must know of it without a line of its own.
USE = """
import polars as pl
from tracetool.kernels.classify import classify_names
from tracetool.kernels.structure import describe
from tracetool.kernels.taxonomy import NAMES
from tracetool.replay.predict import predict_table

assert "toy" in NAMES
assert classify_names(["toyish_kernel(float*)"])["family"].to_list() == ["toy"]
signature = {"name": "toyish_kernel(float*)", "kind": "kernel", "operator_name": "toys::play"}
row = describe(pl.DataFrame([signature | {"input_dims": "[[64, 128]]"}])).row(0, named=True)
assert (row["family"], row["rows"], row["cols"], row["shape_source"]) == ("toy", 64, 128, "operator"), row
table = pl.DataFrame({"op": ["toy"], "dtype": ["fp32"], "rows": [1 << 14], "cols": [1 << 12]})
prediction = predict_table(table, "h100-sxm", [1755])
moved_s = 2 * 4 * (1 << 26) / 3.35e12
assert 1e6 * moved_s < prediction.frame["duration_us"][0] < 3e6 * moved_s
"""
#: Tests over every family.
OVER_ALL = (
    "tests/families/test_needs.py",
    "tests/families/test_count.py",
    "tests/model/test_residency.py",
    "tests/kernels/test_grammars.py::test_families_are_the_closed_list",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of package and tests with a toy family in it."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("tracetool", "tests", "schemas"):
        skipped = shutil.ignore_patterns("__pycache__", "*.tracetool", "samples", "damaged")
        shutil.copytree(ROOT / folder, root / folder, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "tracetool/families/streaming/members/toy.py").write_text(TOY, "utf-8")
    return root


def _run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # the copy stands before the checkout, which is installed beside it
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


def test_a_toy_family_is_known_everywhere(copy: Path) -> None:
    done = _run(copy, "-c", f"import tracetool; assert {str(copy)!r} in tracetool.__file__\n{USE}")
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_tests_over_every_family_cover_it(copy: Path) -> None:
    done = _run(copy, "-m", "pytest", "-vv", "-p", "no:xdist", "-p", "no:cacheprovider", *OVER_ALL)
    assert done.returncode == 0, done.stdout[-3000:]
    for test in ("test_a_trace_states_a_shape", "test_counts_are_finite", "test_a_table_row_of_the_columns"):
        lines = [line for line in done.stdout.splitlines() if test in line and "[toy]" in line]
        assert lines, f"{test} did not run over the toy"
        assert all("PASSED" in line for line in lines)
