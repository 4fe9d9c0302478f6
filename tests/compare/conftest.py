"""What several tests of comparisons share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetool.compare.run_options import Basis, RunOptions
from tracetool.compare.run_side import LoadedRun, load_run
from tracetool.tables.run import Run


@pytest.fixture(scope="module")
def each_run_loaded_once() -> Iterator[None]:
    """Load every run once for all tests of a module: they compare the same runs in many ways."""
    loaded: dict[tuple[Path, str, RunOptions], LoadedRun] = {}

    def load(path: Path, basis: Basis, options: RunOptions, opened: dict[Path, Run]) -> LoadedRun:
        key = (path.resolve(), basis, options)
        if key not in loaded:
            loaded[key] = load_run(path, basis, options, opened)
        return loaded[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in ("diff", "check", "baseline"):
            patch.setattr(f"tracetool.compare.{module}.load_run", load)
        yield
