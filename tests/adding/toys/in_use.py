"""What the rest of the program must know of each toy without a line of its own; runs in the copy."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.api.gpus import list_gpus, show_gpu
from tracetool.cli.app import command_names, run
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.kernels.classify import NAMES, classify_names
from tracetool.kernels.structure import describe
from tracetool.replay.predict import predict_table
from tracetool.report.save import output_suffixes, save_view
from tracetool.report.view import View
from tracetool.sources.detect import all_formats, detect


def test_use_of_the_toy_gpu_and_architecture() -> None:
    assert match_gpu("NVIDIA Toy 64GB") == "toy"
    gpu = load_gpu("toy")
    assert (gpu.vendor, gpu.warp_size, gpu.numbers["warp_size"].kind) == ("nvidia", 32, "measured")
    assert gpu.sensor().window_s == 1.0
    assert "toy" in list_gpus()["name"]
    assert show_gpu("toy").architecture.targets == ("sm_999",)
    table = pl.DataFrame({"op": ["gemm"], "dtype": ["bf16"], "m": [8192], "n": [8192], "k": [8192]})
    frame = predict_table(table, "toy", [1900]).frame
    least_us = 2 * 8192**3 / (100 * 2048 * 1900.0)
    assert least_us < frame["duration_us"][0] < 2 * least_us
    assert 50 < frame["power_w"][0] < 600


def test_use_of_the_toy_family() -> None:
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


def test_use_of_the_toy_implementation() -> None:
    product = {"op": "gemm", "dtype": "bf16", "m": 64, "n": 4096, "k": 4096}
    stated = [{"stack": "toylib 1.0", "implementation": "toy_gemm"}, {"stack": "toylib 1.0"}, {"stack": "vllm 0.24.0"}]
    frame = predict_table(pl.DataFrame([product | one for one in stated]), "h100-sxm", [1755]).frame
    named, by_stack, of_another = frame["duration_us"]
    assert named == by_stack > of_another + 2.0
    assert frame["duration_high_us"][0] < 1.3 * named
    assert "### toylib" in Path("docs/calibrations.md").read_text("utf-8")


def test_use_of_the_toy_grammar() -> None:
    read = classify_names(["toylib_shift_f16", "toylib_other"])
    assert (read["family"][0], read["op"][0], read["library"][0]) == ("elementwise", "toy_map", "toylib")
    assert read["op"][1] != "toy_map"


def test_use_of_the_toy_formats(tmp_path: Path) -> None:
    assert {"toy", "toy_log"} <= set(all_formats())
    trace, log = tmp_path / "a", tmp_path / "b"
    trace.write_text("TOYTRACE 1\n10 20 k\n", "utf-8")
    log.write_text("TOYLOG 1\n1767589200.5 100\n", "utf-8")
    assert (detect(trace)[0], detect(log, "telemetry")[0]) == ("toy", "toy_log")


def test_use_of_the_toy_renderer(tmp_path: Path) -> None:
    assert ".toy" in output_suffixes()
    file = save_view(View("t", pl.DataFrame({"a": [1], "b": ["x"]})), tmp_path / "t.toy")
    assert file.read_text("utf-8") == "a;b\n1;x\n"


def test_use_of_the_toy_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "toys" in command_names()
    assert run(["toys", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == tt.toys().to_dict()


def test_the_model_is_read_from_its_configuration() -> None:
    model = read_model(
        {"model_type": "toy_decoder", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3, "vocab_size": 10}
    )
    assert model.parameters == 2 * 10 * 8 + 8 + 3 * (8 + 3 * 8 * 16)
    assert {row["op"] for row in model.operators(Forward(2, 4), Parallel())} >= {"gemm", "norm"}
