"""Modules of PyTorch traces: names and kernel time equal those of events read one by one, to the ns."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.sources.makers import kineto_document

ENGINE = "autograd::engine::evaluate_function"
Span = tuple[int, int, dict[str, Any]]


def _ns(us: Any) -> int:
    return int((Decimal(us) * 1000).to_integral_value())


def _text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _events(path: Path) -> list[dict[str, Any]]:
    document = json.loads(_text(path), parse_float=Decimal)
    listed = document["traceEvents"] if isinstance(document, dict) else document
    return [e for e in listed if e.get("ph") == "X"]


def _spans(events: list[dict[str, Any]]) -> dict[Any, list[Span]]:
    spans: dict[Any, list[Span]] = defaultdict(list)
    for e in events:
        start = _ns(e["ts"])
        spans[e["pid"], e["tid"]].append((start, start + _ns(e.get("dur", 0)), e))
    return spans


def _innermost(spans: list[Span], at: int) -> Span | None:
    around = [s for s in spans if s[0] <= at <= s[1]]
    return max(around, key=lambda s: (s[0], -s[1])) if around else None


def _walk(events: list[dict[str, Any]]) -> Counter[str | None]:
    """Return the kernel time of each module, one event after another. [ns]"""
    modules = _spans([e for e in events if str(e["name"]).startswith("nn.Module: ")])
    operators = [e for e in events if e.get("cat") == "cpu_op"]
    nodes = _spans([e for e in operators if e["name"].startswith(ENGINE)])
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and e.get("args", {}).get("correlation")
    }
    makers: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for e in sorted(operators, key=lambda e: _ns(e["ts"])):
        number = e.get("args", {}).get("Sequence number")
        if number is not None and not _innermost(nodes[e["pid"], e["tid"]], _ns(e["ts"])):
            makers[number].append(e)
    spent: Counter[str | None] = Counter()
    for e in events:
        if e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        call = calls.get(e["args"].get("correlation"))
        module = None
        if call is not None:
            where, at = (call["pid"], call["tid"]), _ns(call["ts"])
            module, node = _innermost(modules[where], at), _innermost(nodes[where], at)
            if node and not (module and module[0] >= node[0]):
                made = makers.get(node[2].get("args", {}).get("Sequence number"), [])
                module = None
                if len({m["tid"] for m in made}) == 1:
                    module = _innermost(modules[made[-1]["pid"], made[-1]["tid"]], _ns(made[-1]["ts"]))
        spent[module[2]["name"].removeprefix("nn.Module: ") if module else None] += _ns(e["dur"])
    return spent


def _of_run(run: tt.Run) -> dict[str | None, int]:
    kernels = run.table("kernels", ["module", "duration_ns"])
    named = kernels.join(run.table("modules", ["module", "name"]), on="module", how="left")
    return dict(named.group_by("name").agg(pl.col("duration_ns").sum()).iter_rows())


@pytest.mark.data
def test_module_time_equals_a_walk_of_every_trace(data: Path, tmp_path: Path) -> None:
    walked = 0
    for path in sorted((data / "traces" / "kineto").iterdir()):
        if b"nn.Module: " not in _text(path):
            continue
        events = _events(path)
        run = tt.ingest(path, out=tmp_path / f"{walked}.tracetool")
        assert _of_run(run) == dict(_walk(events)), path.name
        calls = Counter(
            str(e["name"]).removeprefix("nn.Module: ") for e in events if "nn.Module: " in e["name"]
        )
        assert Counter(run.table("modules")["name"].to_list()) == calls
        walked += 1
    assert walked >= 5


def _event(cat: str, name: str, tid: int, start: float, length: float, **args: Any) -> dict[str, Any]:
    pid = 0 if cat == "kernel" else 9
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": length,
        "args": args,
    }


def _launch(number: int, tid: int, at: float, length: float) -> list[dict[str, Any]]:
    shape = {"grid": [64, 1, 1], "block": [128, 1, 1], "device": 0, "stream": 7}
    return [
        _event("cuda_runtime", "cudaLaunchKernel", tid, at, 2.0, correlation=number),
        _event("kernel", f"kernel_{number}", 7, at + 10.0, length, correlation=number, **shape),
    ]


def planted() -> list[dict[str, Any]]:
    """Two layers of two linears each, a backward pass of another thread, and work outside."""
    events = [_event("python_function", "nn.Module: Model_0", 1, 100.0, 800.0)]
    number = 1
    for layer in range(2):
        begin = 120.0 + 300.0 * layer
        events.append(_event("python_function", f"nn.Module: Layer_{layer}", 1, begin, 250.0))
        for part in range(2):
            at = begin + 20.0 + 100.0 * part
            name = f"nn.Module: Linear_{2 * layer + part}"
            events.append(_event("python_function", name, 1, at, 80.0))
            operator = {"Sequence number": number, "External id": number}
            events.append(_event("cpu_op", "aten::linear", 1, at + 5.0, 60.0, **operator))
            events += _launch(number, 1, at + 10.0, 3.0 + 0.125 * number)
            number += 1
    events += _launch(50, 1, 850.0, 2.0)  # by the model itself
    events += _launch(60, 1, 950.0, 4.0)  # outside any module
    for i, sequence in enumerate((4, 3, 2, 1, 77)):  # the last has no forward operator
        at = 1000.0 + 100.0 * i
        operator = {"Sequence number": sequence, "External id": 100 + i}
        events.append(_event("cpu_op", f"{ENGINE}: AddmmBackward0", 2, at, 80.0, **operator))
        events += _launch(70 + i, 2, at + 10.0, 5.0 + 0.5 * i)
    events.append(_event("python_function", "main.py(3): train", 1, 0.0, 2000.0))
    return events


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "t.json").write_text(json.dumps(kineto_document(planted())))
    return tt.ingest(folder / "t.json", out=folder / "run.tracetool")


def test_planted_modules_hold_their_kernels(run: tt.Run) -> None:
    assert _of_run(run) == {
        "Linear_0": 3125 + 6500, "Linear_1": 3250 + 6000, "Linear_2": 3375 + 5500, "Linear_3": 3500 + 5000,
        "Model_0": 2000, None: 4000 + 7000,
    }  # fmt: skip
    assert run.table("modules").filter(name="Linear_2")["depth"].to_list() == [2]


def test_every_kernel_is_in_one_path_and_paths_sum_to_the_run(run: tt.Run) -> None:
    groups = tt.energy_by(run, ["module"]).groups
    launches = dict(groups.select("name", "launches").iter_rows())
    assert launches.pop("run") == sum(launches.values()) == run.kernels.height
    launches.pop("(idle)", None)
    layer = "Model_0.Layer_*.Linear_*"
    linears = dict.fromkeys((f"{layer}[{i}]{end}" for i in range(2) for end in ("", " backward")), 2)
    assert launches == {"Model_0": 1, "(no module)": 1, "(backward)": 1, **linears}
    assert groups["energy_j"][:-1].sum() == pytest.approx(groups["energy_j"][-1], rel=1e-9)
    flat = tt.energy_by(run, ["module"], depth=1).groups
    assert dict(flat.select("name", "launches").iter_rows())["Model_0"] == 5
    assert flat["energy_j"][-1] == pytest.approx(groups["energy_j"][-1], rel=1e-9)


def test_a_run_without_modules_is_one_line(samples: Path, run: tt.Run, tmp_path: Path) -> None:
    other = tt.ingest(samples / "mi300x_kernel_trace.csv", gpu="mi300x", out=tmp_path / "other.tracetool")
    assert other.table("modules").height == 0
    assert other.table("kernels", ["module"])["module"].null_count() == other.kernels.height
    with pytest.raises(tt.BadInput, match="holds no modules"):
        tt.energy_by(other, ["module"])
    with pytest.raises(tt.BadInput, match="--depth"):
        tt.energy_by(run, ["family"], depth=2)


def test_an_id_that_repeats_the_correlation_names_no_operator(tmp_path: Path) -> None:
    """A later operator has, by accident, the number that a kernel repeats of its launch."""
    events = [
        _event("cpu_op", "aten::mm", 1, 100.0, 50.0, **{"External id": 10}),
        *_launch(282, 1, 110.0, 17.0),
        _event("cpu_op", "aten::empty", 1, 900.0, 5.0, **{"External id": 282}),
    ]
    for event in events[1:3]:
        event["args"]["External id"] = 282
    (tmp_path / "t.json").write_text(json.dumps(kineto_document(events)))
    run = tt.ingest(tmp_path / "t.json", out=tmp_path / "run.tracetool")
    operators = run.table("operators", ["operator", "name"])
    assert run.kernels.join(operators, on="operator")["name_right"].to_list() == ["aten::mm"]
