"""One file adds a trace format: a toy in a copy of the package is listed, detected, read and tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package_copy import check_covered, check_use, copy_package, run_tests

FORMAT = '''"""Toy traces: a first line ``TOYTRACE`` and one kernel a line: start, end, name. [ns]"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import clean_text
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import decode


def sniff(probe: Probe) -> float:
    """Score: the first line."""
    return 1.0 if probe.head.startswith(b"TOYTRACE") else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the kernels."""
    options.progress.step(f"reading {path.name}")
    lines = [line.split(" ", 2) for line in decode(path.read_bytes()).splitlines()[1:] if line.strip()]
    rows = [line for line in lines if len(line) == 3 and line[0].isdigit() and line[1].isdigit()]
    if not rows:
        raise BadInput.in_file(path, "holds no line: start end name", "write the trace again")
    trace = Trace("toy", Clock("session", basis="times as the trace gives them"))
    if len(rows) < len(lines):
        trace.warnings.append(f"{len(lines) - len(rows)} of {len(lines)} lines could not be used")
    trace.devices = pl.DataFrame({"device": [0], "name": ["NVIDIA H100 80GB HBM3"]})
    trace.activities = pl.DataFrame(
        {
            "start_ns": [int(row[0]) for row in rows],
            "end_ns": [int(row[1]) for row in rows],
            "name": [row[2] for row in rows],
            "place": [f"line {n}" for n in range(2, len(rows) + 2)],
        }
    ).with_columns(clean_text(pl.col("name")), kind=pl.lit("kernel"), device=pl.lit(0, pl.Int32))
    return trace


FORMAT = Format(
    title="toy trace",
    holds="trace",
    made_by="a toy profiler",
    tried="1",
    sniff=sniff,
    read=read,
    suffixes=(".toy",),
)
'''
MAKER = '''

def toy_trace(folder: Path) -> Path:
    """A toy trace of the same launches."""
    path = folder / "run.toy"
    lines = [f"{start} {end} {name}" for name, start, end, *_ in LAUNCHES]
    path.write_text("TOYTRACE 1\\n" + "\\n".join(lines) + "\\n", "utf-8")
    return path


TRACES = [*TRACES, Sample("toy", toy_trace, geometry=False)]
'''
USE = """
import sys
from pathlib import Path
from tracetool.sources.detect import all_formats, detect
assert all_formats()["toy"].title == "toy trace"
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of package and tests with a toy format in it."""
    root = copy_package(tmp_path_factory.mktemp("copy"))
    (root / "tracetool/sources/tabular/formats/toy.py").write_text(FORMAT, "utf-8")
    with (root / "tests/sources/makers.py").open("a", encoding="utf-8") as makers:
        makers.write(MAKER)
    return root


def test_a_toy_format_is_listed(copy: Path) -> None:
    check_use(copy, USE)


def test_the_tests_over_every_format_cover_it(copy: Path) -> None:
    """Detection, reading to the nanosecond and that no other format claims it, over the toy too."""
    done = run_tests(copy, "-k", "toy or described", "tests/sources/test_every_format.py")
    assert done.returncode == 0, done.stdout[-3000:]
    for test in ("told_by_content_alone", "gives_its_kernels_to_the_nanosecond"):
        check_covered(done, test, "[toy-")
