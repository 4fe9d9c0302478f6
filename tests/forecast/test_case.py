"""Cases: values are checked one by one, and GPUs divided as asked."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tracetool as tt
from tracetool.core.errors import BadInput
from tracetool.forecast.case import Case, divide, read_case

GOOD = {"model": "config.json", "gpu": "h100-sxm"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bs", -1), ("bs", 0), ("bs", "many"), ("bs", math.inf), ("bs", 1e12), ("isl", True), ("tp", 1.5),
        ("tp", 0), ("gpus", "two"), ("mode", "dream"), ("clock_mhz", 0), ("host_us", -3), ("stack", 7),
    ],
)  # fmt: skip
def test_a_bad_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=rf"^{name}: "):
        read_case({**GOOD, name: value})


@pytest.mark.parametrize("name", ["model", "gpu"])
def test_what_is_needed_is_asked_for(name: str) -> None:
    with pytest.raises(BadInput, match=rf"^{name}: is not given"):
        read_case({k: v for k, v in GOOD.items() if k != name})
    with pytest.raises(BadInput) as raised:
        read_case({"model": "llama-3.1-8b"})
    assert "--gpu h100-sxm" in raised.value.line() and "tracetool gpus" in raised.value.line()


@pytest.mark.parametrize("mode", ["prefill", "decode", "train", "generate", "pass"])
@pytest.mark.parametrize("batch", [1.5, "0.5", "2.25"])
def test_a_pass_holds_whole_requests(mode: str, batch: Any) -> None:
    with pytest.raises(BadInput, match=r"bs: .* is not a whole number"):
        read_case({**GOOD, "mode": mode, "bs": batch})
    assert read_case({**GOOD, "mode": mode, "bs": "2.0"}).bs == 2


def test_serving_takes_the_mean_of_running_requests() -> None:
    assert read_case({**GOOD, "mode": "serve", "bs": 37.4}).bs == 37.4


@pytest.mark.parametrize("batches", ["1,1.5", "1:3:0.5", [1, 2.5]])
def test_lists_and_ranges_hold_whole_requests(batches: Any) -> None:
    with pytest.raises(BadInput, match=r"bs: .* is not a whole number"):
        tt.forecast("llama-3.1-8b", gpu="h100-sxm", mode="decode", bs=batches)
    with pytest.raises(BadInput, match=r"bs: .* is not a whole number"):
        tt.forecast("flux.1-dev", gpu="h100-sxm", steps=2, bs=1.5)


def test_absent_values_stay_absent() -> None:
    case = read_case({**GOOD, "bs": None, "isl": math.nan, "stack": "", "unknown": 3})
    assert (case.bs, case.isl, case.stack, case.mode) == (None, None, None, "serve")


def test_a_host_that_takes_no_time_may_be_stated() -> None:
    assert read_case({**GOOD, "host_us": 0}).host_us == 0.0


@pytest.mark.parametrize(
    ("asked", "gpus", "replicas"),
    [
        ({}, 1, 1),
        ({"tp": 4}, 4, 1),
        ({"tp": 2, "dp": 3}, 6, 3),  # replicas that share nothing
        ({"tp": 8, "ep": 8}, 8, 1),  # attention over eight, experts over eight
        ({"dp": 8, "ep": 8}, 8, 1),  # attention replicas of one expert-parallel group
        ({"ep": 8}, 8, 1),
        ({"tp": 2, "gpus": 8}, 8, 4),
        ({"tp": 2, "pp": 2, "cp": 2}, 8, 1),
    ],
)
def test_gpus_are_divided(asked: dict[str, int], gpus: int, replicas: int) -> None:
    division = divide(Case(**asked))
    assert (division.gpus, division.replicas) == (gpus, replicas)


@pytest.mark.parametrize(
    ("asked", "name"),
    [({"tp": 4, "gpus": 6}, "gpus"), ({"tp": 3, "ep": 8}, "ep"), ({"tp": 4, "ep": 3}, "ep")],
)
def test_gpus_that_cannot_be_divided_are_refused(asked: dict[str, int], name: str) -> None:
    with pytest.raises(BadInput, match=rf"^{name}: "):
        divide(Case(**asked))
