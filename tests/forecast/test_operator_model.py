"""Models given as their operators: tables, ONNX files, exported programs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tracetool as tt
from tracetool.cli.app import run as command_line
from tracetool.forecast import torch_graph
from tracetool.forecast.exported import Call, rows_of

TABLE = "op,dtype,m,n,k,elements,count\ngemm,bf16,1024,4096,4096,,32\nelementwise,bf16,,,,4194304,64\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "operators.csv"
    path.write_text(TABLE, "utf-8")
    return path


def test_a_table_takes_the_time_that_predict_gives_it(table: Path) -> None:
    result = tt.forecast(table, gpu="h100-sxm")
    row = result.frame.to_dicts()[0]
    totals = tt.predict(table, gpu="h100-sxm").to_dict()["totals"][0]
    assert row["mode"] == "pass"
    assert row["step_ms"] == pytest.approx(totals["makespan_ms"], rel=0.1)
    assert row["step_ms_low"] < row["step_ms"] < row["step_ms_high"]
    assert row["energy_per_item_j"] == pytest.approx(row["power_w"] * row["step_ms"] * 1e-3)
    kernels = sum(p["time_ms"] for p in result.parts.to_dicts() if p["module"] != "(idle)")
    assert kernels == pytest.approx(totals["kernel_time_ms"], rel=0.25)  # each row alone under the cap there


def test_a_table_is_swept_over_clocks(table: Path) -> None:
    grid = tt.forecast(table, gpu="h100-sxm", clock_mhz="1200:1980:390", host_us=0)
    assert grid.frame["step_ms"].is_sorted(descending=True)
    assert set(grid.best["goal"]) >= {"least energy", "least energy x step time"}


@pytest.mark.parametrize(("words", "name"), [("--mode serve --tp 2", "gpus"), ("--mode train", "mode")])
def test_a_table_is_of_one_gpu_and_one_pass(
    words: str, name: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["forecast", str(table), "--gpu", "h100-sxm", *words.split()]) == 2
    assert name in capsys.readouterr().err


def test_one_pass_of_a_configuration_is_a_line_not_a_fault() -> None:
    with pytest.raises(tt.BadInput, match="pass is for operators"):
        tt.forecast("llama-3.1-8b", gpu="h100-sxm", mode="pass")


def test_calls_become_rows() -> None:
    calls = [
        Call("matmul", "scores", ((2, 8, 64, 32), (2, 8, 32, 64)), ((2, 8, 64, 64),), "fp16"),
        Call("linear", "up", ((2, 64, 256), (1024, 256)), ((2, 64, 1024),), "bf16"),
        Call("addmm", "down", ((256,), (128, 1024), (1024, 256)), ((128, 256),), "bf16"),
        Call("conv", "stem", ((1, 3, 224, 224), (64, 3, 7, 7)), ((1, 64, 112, 112),), "fp32",
             {"stride": 2, "groups": 1, "padding": 3}),
        Call("softmax", "softmax", ((16, 64, 64),), ((16, 64, 64),)),
        Call("layernormalization", "norm", ((128, 256), (256,), (256,)), ((128, 256),)),
        Call("add", "add", ((128, 256), (128, 256)), ((128, 256),)),
        Call("gather", "embedding", ((50000, 256), (128,)), ((128, 256),)),
        Call("reshape", "view", ((128, 256),), ((256, 128),)),
    ]  # fmt: skip
    rows = {str(row["module"]): row for row in rows_of(calls)}
    product = ("batch", "m", "n", "k")
    assert [rows["scores"][c] for c in product] == [16, 64, 64, 32]
    assert [rows["up"][c] for c in product] == [1, 128, 1024, 256]
    assert [rows["down"][c] for c in product] == [1, 128, 256, 1024]
    assert [rows["stem"][c] for c in ("channels", "filters", "stride", "padding")] == [3, 64, 2, 3]
    assert (rows["softmax"]["rows"], rows["softmax"]["cols"]) == (1024, 64)
    assert (rows["norm"]["rows"], rows["norm"]["cols"]) == (128, 256)
    assert (rows["add"]["elements"], rows["add"]["reads"], rows["add"]["writes"]) == (32768, 2, 1)
    assert rows["embedding"]["elements"] == 32768  # the table is not read whole
    assert "view" not in rows


def test_an_exported_program_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The graph of ``torch.export``: nodes with targets, arguments and fake tensors in ``meta["val"]``."""

    def node(name: str, target: str, shape: tuple[Any, ...], inputs: tuple[Any, ...] = ()) -> Any:
        value = SimpleNamespace(shape=shape, dtype="torch.bfloat16")
        op = "call_function" if target else "placeholder"
        return SimpleNamespace(
            name=name, op=op, target=SimpleNamespace(__name__=target), meta={"val": value}, args=inputs,
            kwargs={}, all_input_nodes=list(inputs),
        )  # fmt: skip

    x, weight = node("x", "", ("s0", 64, 256)), node("w", "", (1024, 256))
    up = node("up", "linear.default", ("s0", 64, 1024), (x, weight))
    act = node("act", "relu.default", ("s0", 64, 1024), (up,))
    tensor = SimpleNamespace(numel=lambda: 1024 * 256, element_size=lambda: 2)
    program = SimpleNamespace(graph=SimpleNamespace(nodes=[x, weight, up, act]), state_dict={"w": tensor})
    fake = SimpleNamespace(export=SimpleNamespace(load=lambda path: program))
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert [c.kind for c in torch_graph.calls_of(program, 8, 64)] == ["linear", "relu"]
    path = tmp_path / "model.pt2"
    path.write_bytes(b"")
    result = tt.forecast(path, gpu="h100-sxm", bs=8)
    assert result.parts.filter(family="gemm")["shape"].to_list() == ["m 512, n 1024, k 256"]


@pytest.mark.parametrize(("name", "package"), [("model.onnx", "onnx"), ("model.pt2", "torch")])
def test_a_missing_package_is_named_with_its_command(
    name: str,
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"")
    assert command_line(["forecast", str(tmp_path / name), "--gpu", "h100-sxm"]) == 3
    assert "pip install" in capsys.readouterr().err


def test_an_onnx_file_is_read_with_its_open_dimensions(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, half = onnx.helper, onnx.TensorProto.FLOAT16
    weight = make.make_tensor("w", half, [512, 2048], bytes(2 * 512 * 2048), raw=True)
    sides = [
        [make.make_tensor_value_info(name, half, ["batch", "length", width])]
        for name, width in (("x", 512), ("y", 2048))
    ]
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["a"], name="/up"),
        make.make_node("Relu", ["a"], ["y"], name="/act"),
    ]
    path = tmp_path / "model.onnx"
    onnx.save(make.make_model(make.make_graph(nodes, "graph", *sides, [weight])), str(path))
    result = tt.forecast(path, gpu="h100-sxm", bs=8, isl=100)
    shapes = dict(result.parts.select("module", "shape").iter_rows())
    assert shapes["up"] == "m 800, n 2048, k 512"
    assert shapes["act"] == "elements 1638400"
    path.write_bytes(b"no graph")
    with pytest.raises(tt.BadInput, match=r"model\.onnx"):
        tt.forecast(path, gpu="h100-sxm")
