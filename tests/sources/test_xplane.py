"""JAX profiles: kernels, operators with shapes, modules and power, against the fields that were written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.sources.makers import (
    EPOCH_NS,
    LAUNCHES,
    _field,
    _hlo_instruction,
    _hlo_shape,
    _xplane,
    hlo_module,
    xplane,
)
from tests.varint import write_varint
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.format import ReadOptions
from tracetool.sources.xla.formats.xplane import read
from tracetool.sources.xla.hlo import operators
from tracetool.tables.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("xla")
    return Run.open(ingest([xplane(folder)], out=folder / "run"))


def _independent(raw: bytes) -> list[tuple[int, bytes | int]]:
    """Return the fields of a message: a second reader of the wire format, of varints and bytes alone."""
    listed: list[tuple[int, bytes | int]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value += (byte % 128) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(raw):
        key = number()
        if key % 8 == 1:
            at += 8
            continue
        value = number()
        if key % 8 == 2:
            listed.append((key // 8, raw[at : at + value]))
            at += value
        else:
            listed.append((key // 8, value))
    return listed


def test_times_are_those_of_an_independent_reader(run: Run, tmp_path: Path) -> None:
    gpu = [p for _, p in _independent(xplane(tmp_path).read_bytes()) if b"/device:GPU:0" in bytes(p)[:30]]
    stream = next(v for n, v in _independent(bytes(gpu[0])) if n == 3)
    events = [dict(_independent(bytes(e))) for n, e in _independent(bytes(stream)) if n == 4]
    expected = [(EPOCH_NS + int(e[2]) // 1000, int(e[3]) // 1000) for e in events]
    assert run.kernels.select("start_ns", "duration_ns").rows() == expected
    assert len(expected) == len(LAUNCHES) + 1
    assert run.info["clock"]["domain"] == "utc"


def test_operators_have_the_shapes_of_the_compiled_module(run: Run) -> None:
    kernels = run.kernels.filter(pl.col("kind") == "kernel").sort("start_ns")
    called = kernels.join(run.table("operators"), on="operator", maintain_order="left", suffix="_of")
    assert called["name_of"].to_list() == [
        "xla::dot_general", "xla::input_reduce_fusion", "xla::dot_general",
    ]  # fmt: skip
    assert called["operator"].n_unique() == 3
    assert called["input_dims"].to_list()[:2] == [[[1, 128, 64], [1, 64, 256]], [[128, 256]]]
    assert called["input_types"].to_list()[0] == ["bf16", "bf16"]
    classified = run.signatures.filter(pl.col("operator_name") == "xla::dot_general")
    assert classified["launches"].sum() == 2


def test_the_model_counts_the_work_of_xla_products() -> None:
    from tracetool.kernels.calls import read_call
    from tracetool.kernels.shapes import read_shapes

    stated = operators(memoryview(hlo_module()))["cublas-gemm.1.0"]
    import json

    call = read_call(stated.name, json.loads(stated.dims), None, json.loads(stated.types), [])
    assert read_shapes(call) == ("gemm", {"batch": 1, "m": 128, "n": 256, "k": 64})


def test_modules_are_the_compiled_one_and_the_scopes_of_the_program(run: Run) -> None:
    modules = run.table("modules").sort("module")
    assert modules.select("name", "depth").unique().sort("depth", "name").rows() == [
        ("jit_f", 0), ("Model", 1), ("Dense_0", 2),
    ]  # fmt: skip
    named = run.kernels.filter(pl.col("kind") == "kernel").sort("start_ns").join(
        modules, on="module", how="left", maintain_order="left", suffix="_of"
    )  # fmt: skip
    assert named["name_of"].to_list() == ["Dense_0", "Model", "Dense_0"]


def test_ranges_leave_the_interpreters_frames_out(run: Run) -> None:
    assert run.table("ranges")["name"].to_list() == ["step 1"]


def test_power_read_meanwhile_is_telemetry_in_watts(run: Run) -> None:
    power = run.table("telemetry").drop_nulls("power_w").sort("time_ns")
    assert power["power_w"].to_list() == pytest.approx([300.0, 300.001, 300.002, 300.003, 300.004])
    assert power["time_ns"][0] == EPOCH_NS + 1_000_000
    assert run.devices["name"].to_list() == ["NVIDIA A100-SXM4-80GB"]


def test_a_convolution_states_data_filters_and_steps() -> None:
    window = b"".join(_field(1, _field(1, 3) + _field(2, 2) + _field(3, 1)) for _ in range(2))
    # data NHWC, filters HWIO
    axes = (
        _field(7, 0)
        + _field(8, 3)
        + _field(11, b"\x01\x02")
        + _field(4, 3)
        + _field(3, 2)
        + _field(6, b"\x00\x01")
    )
    target = _field(28, "__cudnn$convForward")
    entry = [
        _hlo_instruction(1, "x", "parameter", _hlo_shape(16, 8, 56, 56, 64)),
        _hlo_instruction(2, "w", "parameter", _hlo_shape(16, 3, 3, 32, 128)),
        _hlo_instruction(3, "cudnn-conv.4", "custom-call", _hlo_shape(13), operands=(1, 2),
                         more=_field(15, window) + _field(16, axes) + target + _field(50, 2)),
    ]  # fmt: skip
    computation = _field(1, "main") + b"".join(_field(2, i) for i in entry) + _field(5, 1)
    stated = operators(memoryview(_field(1, _field(3, computation))))["cudnn-conv.4"]
    assert stated.name == "xla::conv_general_dilated"
    assert stated.dims == "[[8, 64, 56, 56], [128, 32, 3, 3], [], [], []]"
    assert stated.scalars == '["", "", "[2, 2]", "[1, 1]", "2"]'


def test_a_product_within_a_fusion_is_the_fusions_work() -> None:
    axes = _field(1, b"\x02") + _field(2, b"\x01") + _field(3, b"\x00") + _field(4, b"\x00")
    fused = [
        _hlo_instruction(1, "a", "parameter", _hlo_shape(10, 4, 32, 64)),
        _hlo_instruction(2, "b", "parameter", _hlo_shape(10, 4, 64, 16)),
        _hlo_instruction(
            3, "dot.1", "dot", _hlo_shape(10, 4, 32, 16), operands=(1, 2), more=_field(30, axes)
        ),
    ]
    entry = _hlo_instruction(
        9, "gemm_fusion_dot.7", "fusion", _hlo_shape(10, 4, 32, 16), more=_field(38, write_varint(2))
    )
    inner = b"".join(_field(2, i) for i in fused)
    module = _field(3, inner + _field(5, 2)) + _field(3, _field(2, entry) + _field(5, 1))
    stated = operators(memoryview(_field(1, module)))["gemm_fusion_dot.7"]
    assert (stated.name, stated.dims) == ("xla::dot_general", "[[4, 32, 64], [4, 64, 16]]")


def test_damaged_profiles_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = xplane(tmp_path).read_bytes()
    cut = tmp_path / "cut.xplane.pb"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        BadInput, match=r"cut\.xplane\.pb: is a cut or damaged XLA profile: .* reaches beyond the end"
    ):
        read(cut, ReadOptions())
    tpu = tmp_path / "tpu.xplane.pb"
    tpu.write_bytes(_field(1, _xplane(1, "/device:TPU:0", [], {}, {})))
    with pytest.raises(BadInput, match=r"XLA profile without a GPU \(of /device:TPU:0\)"):
        read(tpu, ReadOptions())


def test_a_damaged_module_leaves_its_operators_without_shapes(tmp_path: Path) -> None:
    path = xplane(tmp_path)
    raw = path.read_bytes()
    broken = hlo_module()
    path.write_bytes(raw.replace(broken, broken[:3] + b"\xff" * 3 + broken[6:]))
    trace = read(path, ReadOptions())
    assert trace.activities.height == 4
    assert trace.operators["input_dims"].null_count() == trace.operators.height
    assert any("compiled module" in w for w in trace.warnings)
    assert trace.rejected
