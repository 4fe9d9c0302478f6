"""What the examples in docstrings use: ``tt``, a sample ``run``, an empty ``folder``."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import Any

import pytest

# A shell that starts the tests in the background has them, and all they start, ignore the interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As the command does: a search for cycles meets all that was loaded and collected, again and again.
gc.set_threshold(200_000, 50, 100)

SAMPLES = Path(__file__).resolve().parent / "sample_traces"


def pytest_collection_finish() -> None:
    """Leave out of the searches for cycles what stays to the end: modules and tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def example_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a run of the smallest sample trace; it has no power log."""
    import tracetool as tt

    out = tmp_path_factory.mktemp("examples") / "mi300x.tracetool"
    return tt.ingest(SAMPLES / "mi300x_kernel_trace.csv", gpu="mi300x", out=out)


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Give the examples of the API their sample; others need none."""
    path = request.path
    if path.parent.name == "api" and path.parent.parent.name == "tracetool":
        doctest_namespace["run"] = request.getfixturevalue("example_run")
        doctest_namespace["folder"] = request.getfixturevalue("tmp_path")
