"""Arguments of the Python functions: any real number, one text or several; all else ends in a typed error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.api.public import CHECKS

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
        (lambda run: run.predict(mem_clock=0), "mem_clock: 0 is not above zero"),
        (lambda run: run.predict(scale={"gemm": None}), "scale: gemm: None is given"),
        (lambda run: run.predict(by=5), "by: int 5 is not a text"),
        (lambda run: run.predict(depth=0), "depth: 0 levels are none"),
        (lambda run: run.predict(power_over_time="no"), "power_over_time: 'no' is neither True nor False"),
        (lambda run: run.predict(tariff=0.3), "tariff: float 0.3 is not a tariff"),
        (lambda run: run.sweep(against=0), "against: 0 is not above zero"),
        (lambda run: tt.summary(run, tz="Mars"), "unknown time zone 'Mars'"),
        (lambda run: run.attribute(device=1), "is a run: --device is of a table of activities"),
        (lambda run: run.attribute(prior=5), "prior: int 5 is no path"),
        (lambda run: run.profile(window=2.0), "--sync and --window are of samples"),
        (lambda run: tt.diagnose_pair(run, run, work={"tokens": 1}), "tokens: int 1 is no pair of amounts"),
        (lambda run: tt.energy_by(run, "family", work={"tokens": "x"}), "work: tokens: 'x' is not a number"),
        (lambda run: tt.diff(run, run, ignore=Path("gemm")), "ignore: PosixPath.* is not a text"),
        (lambda _: tt.classify(5), "source: int 5 is no path"),
        (lambda _: tt.gpu(None), "name: None is given"),
        (lambda _: tt.forecast(5, gpu="h100-sxm"), "int 5 is no run, path or table"),
        (lambda _: tt.request_energy("nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (lambda _: tt.prune_baselines("kept", keep=1.5), "keep: float 1.5 is not a whole number"),
    ],
)
def test_what_is_not_of_its_kind_is_refused_with_a_fix(
    run: tt.Run, call: Callable[[tt.Run], Any], fault: str
) -> None:
    with pytest.raises(tt.BadInput, match=fault) as caught:
        call(run)
    assert caught.value.fix


#: Annotations of arguments that are checked where they are used: in words of their own, or by Python.
_ELSEWHERE = {
    "PathLike | Sequence[PathLike]", "Values", "str | float | Sequence[float]", "float | str", "Any",
    "Progress", "Callable[[str], None]", "Literal['nvidia', 'amd']", "Vendor", "Sequence[int]", "IO[Any]",
    "dict[str, Any]",
}  # fmt: skip


def test_every_argument_is_checked() -> None:
    functions = [f for name in tt.__all__ if inspect.isfunction(f := getattr(tt, name))]
    kinds = {
        str(p.annotation).removesuffix(" | None")
        for f in functions
        for p in inspect.signature(f).parameters.values()
    }
    assert kinds - _ELSEWHERE <= set(CHECKS)
    with_arguments = [f for f in functions if inspect.signature(f).parameters]
    assert [f.__name__ for f in with_arguments if not hasattr(f, "__wrapped__")] == []


def test_a_sensor_is_not_identified_on_another_gpu(tmp_path: Path) -> None:
    activity, log = tmp_path / "activity.csv", tmp_path / "power.csv"
    activity.write_text("name,start_us,end_us\nload,1000000,6000000\n", "utf-8")
    rows = [f"{t * 1000},0,{300 if 1000 <= t < 6000 else 60}" for t in range(0, 8000, 20)]
    log.write_text("\n".join(["time_us,device,power_w", *rows, ""]), "utf-8")
    with pytest.raises(tt.BadInput, match="the log has no device 5"):
        tt.identify_sensor(activity, power=log, device=5)


def test_keys_are_a_text_or_several(run: tt.Run) -> None:
    both = tt.energy_by(run, "family,gpu").to_dict()
    assert both == tt.energy_by(run, ["family", "gpu"]).to_dict()


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


def test_a_forecast_takes_the_words_of_other_functions() -> None:
    model = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2,
             "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000,
             "torch_dtype": "bfloat16"}  # fmt: skip
    asked: dict[str, Any] = {"gpu": "h100-sxm", "mode": "decode", "bs": 4, "isl": 100}
    columns = tt.forecast(model, **asked, clock_mhz=1200, power_cap_w=400, token_budget=4096)
    words = tt.forecast(model, **asked, clock=1200, power_cap=400, max_num_batched_tokens=4096)
    assert words.frame.equals(columns.frame)
    with pytest.raises(tt.BadInput, match="clock and clock_mhz are the same"):
        tt.forecast(model, **asked, clock=1200, clock_mhz=1300)
