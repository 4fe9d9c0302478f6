"""Arguments of the Python functions: any real number, one text or several; all else ends in a typed error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt

_ROWS = [{"op": "gemm", "dtype": "bf16", "m": 64, "n": 4096, "k": 4096}]
_TABLE = pl.DataFrame(_ROWS)


@pytest.fixture(scope="module")
def run(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("run") / "mi300x.tracetool"
    return tt.ingest(samples / "mi300x_kernel_trace.csv", gpu="mi300x", out=out)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda run: run.table("bogus"), "no table called 'bogus'"),
        (lambda run: run.predict(power_cap="500"), "power_cap: '500' is not a number"),
        (lambda run: run.predict(temperature=True), "temperature: bool True is not a number"),
        (lambda run: run.predict(mem_clock=float("nan")), "mem_clock: nan is not a finite number"),
        (lambda run: run.predict(clock=True), "--clock: True are no values in MHz"),
        (lambda run: run.predict(clock=[1200, None]), r"--clock: \[1200, None\] are no values in MHz"),
        (lambda run: run.predict(drop=[5]), "drop: int 5 is not a text or path"),
        (lambda run: run.predict(gpu=5), "gpu: int 5 is not a text"),
        (lambda run: run.sweep(power_cap=object()), "--power-cap: .* are no values in W"),
        (lambda run: tt.diagnose(run, clock="fast"), "clock: 'fast' is not a number"),
        (lambda run: tt.diff(run, run, fail_on=[2]), "fail_on: int 2 is not a text or path"),
        (lambda _: tt.predict(_ROWS, gpu="h100-sxm"), "list .* is no run, path or table"),
        (lambda _: tt.predict(_TABLE, gpu=5), "gpu: int 5 is not a text"),
        (lambda _: tt.gpu(5), "name: int 5 is not a text"),
        (lambda _: tt.ingest(5), "'5' is no path"),
    ],
)
def test_what_is_not_of_its_kind_is_refused_with_a_fix(
    run: tt.Run, call: Callable[[tt.Run], Any], fault: str
) -> None:
    with pytest.raises(tt.BadInput, match=fault) as caught:
        call(run)
    assert caught.value.fix


def test_real_numbers_of_any_type_are_taken() -> None:
    clock = tt.predict(_TABLE, gpu="h100-sxm", clock=1200, power_cap=500).totals
    for one in (np.float32(1200), np.int64(1200), np.array([1200]), [np.float64(1200)], pl.Series([1200])):
        assert tt.predict(_TABLE, gpu="h100-sxm", clock=one, power_cap=np.float32(500)).totals.equals(clock)


def test_a_single_text_is_one_of_several(run: tt.Run) -> None:
    one, several = (tt.diff(run, run, fail_on=limits) for limits in ("energy=2%", ["energy=2%"]))
    assert one.to_dict() == several.to_dict()


def test_a_run_without_a_place_stands_beside_its_trace(samples: Path, tmp_path: Path) -> None:
    """As the docstring of ingest and docs/python.md say."""
    trace = tmp_path / "mi300x_kernel_trace.csv"
    trace.write_bytes((samples / trace.name).read_bytes())
    assert tt.ingest(trace, gpu="mi300x").path == tmp_path / "mi300x_kernel_trace.tracetool"
    assert "beside the first trace" in str(tt.ingest.__doc__)
