"""Every architecture file: sourced, plausible, and the only home of what it states."""

from __future__ import annotations

import ast
import copy
import tomllib
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracetool
from tracetool.core.errors import BadInput
from tracetool.hardware.architecture import architecture_names, build_architecture, load_architecture
from tracetool.hardware.gpu import PIPES
from tracetool.hardware.load import build_gpu, gpu_names, load_gpu
from tracetool.hardware.sensors import FIELDS, sensor_of, unnamed_sensors
from tracetool.model.time_files import time_calibration_of

FOLDER = resources.files("tracetool.hardware")
REFERENCES = tomllib.loads((FOLDER / "references.toml").read_text("utf-8"))
SENSOR_CLASSES = tomllib.loads((FOLDER / "sensors.toml").read_text("utf-8"))["class"]
PACKAGE = Path(tracetool.__file__).parent
#: Rules over kernels' names may state the architecture a name says.
NAME_RULES = "kernels/grammars/"


def _document(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / "architectures" / f"{name}.toml").read_text("utf-8"))


def _gpu_document(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / "gpus" / f"{name}.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", architecture_names())
def test_an_architecture_is_sourced_and_plausible(name: str) -> None:
    architecture = load_architecture(name)
    assert {n.source for n in architecture.numbers()} <= set(REFERENCES)
    assert {row.source for row in architecture.sensors.values()} <= set(REFERENCES)
    assert {row.sensor_class for row in architecture.sensors.values()} <= set(SENSOR_CLASSES)
    assert set(architecture.sensors) <= {*FIELDS.values(), "draw_530"}
    assert architecture.vendor in ("nvidia", "amd")
    compiled = "sm_" if architecture.vendor == "nvidia" else "gfx"
    assert architecture.targets and all(t.startswith(compiled) for t in architecture.targets)
    rates = {k: n.value for k, n in architecture.shared["compute"].items() if k in PIPES}
    assert all(rate > 0 for rate in rates.values())


@pytest.mark.parametrize("name", architecture_names())
def test_a_power_field_has_a_sensor(name: str) -> None:
    assert sensor_of(name).update_s > 0


@pytest.mark.parametrize("name", architecture_names())
def test_kernels_of_another_architecture_name_one_that_is_older(name: str) -> None:
    other = load_architecture(name).other_kernels
    if other is not None:
        assert (
            load_architecture(other.architecture).generation.value < load_architecture(name).generation.value
        )
        assert 0 < other.rate_share.value < 1


def test_no_two_architectures_share_a_target() -> None:
    for a, b in combinations(architecture_names(), 2):
        assert not set(load_architecture(a).targets) & set(load_architecture(b).targets)


@pytest.mark.parametrize("name", gpu_names())
def test_a_gpu_has_the_numbers_of_its_architecture(name: str) -> None:
    gpu = load_gpu(name, part="sensor")
    architecture = load_architecture(gpu.architecture)
    assert gpu.vendor == architecture.vendor
    own = _gpu_document(name)
    segment = architecture.of_segment(name, own.get("segment", ""))
    for section, numbers in architecture.shared.items():
        for key, number in numbers.items():
            if gpu.scope == "model" and key not in own.get(section, {}):
                assert gpu.numbers[key] == segment.get(key, number)


@pytest.mark.parametrize("name", gpu_names())
def test_a_gpu_does_not_repeat_its_architecture(name: str) -> None:
    own, shared = _gpu_document(name), _document(load_gpu(name, part="sensor").architecture)
    repeated = [
        f"{section}.{key}"
        for section, entries in own.items()
        if isinstance(entries, dict)
        for key, entry in entries.items()
        if entry == shared.get(section, {}).get(key)
    ]
    assert not repeated, "stated by the architecture's file already"
    assert "vendor" not in own


@pytest.mark.parametrize(
    "name", [n for n in gpu_names() if "geforce" in load_gpu(n, part="sensor").title.lower()]
)
def test_a_geforce_accumulates_in_fp32_at_half_rate(name: str) -> None:
    gpu = load_gpu(name)
    architecture = load_architecture(gpu.architecture)
    halved = architecture.segments.get("geforce", {})
    if "tensor_fp16" not in halved or _gpu_document(name).get("segment") is None:
        assert gpu.rate("tensor_fp16") <= gpu.rate("fp16"), "no tensor cores"
        return
    rates = {key: number for key, number in halved.items() if number.unit == "FLOP/clk/SM"}
    assert rates.keys() == {"tensor_fp16", "tensor_bf16", "tensor_tf32", "tensor_fp8"} & halved.keys()
    for pipe, number in rates.items():
        professional = architecture.shared["compute"][pipe].value
        assert gpu.rate(pipe) == number.value == professional / 2
    # integers and FP4 are not halved
    assert gpu.rate("tensor_int8") == 4 * gpu.rate("tensor_fp16")


def test_a_segment_that_the_architecture_does_not_state_is_refused() -> None:
    document = {**_gpu_document("h100-sxm"), "segment": "geforce"}
    with pytest.raises(BadInput, match="segment 'geforce' is unknown"):
        build_gpu("made-up", document)


def test_a_number_of_the_gpu_takes_the_place_of_the_architectures() -> None:
    document = copy.deepcopy(_gpu_document("h100-sxm"))
    number = {"value": 64, "unit": "FLOP/clk/SM", "kind": "derived", "source": "derived-here"}
    document["compute"]["tensor_fp16"] = number
    assert build_gpu("cut", document).rate("tensor_fp16") == 64.0
    assert build_gpu("cut", document).rate("tensor_bf16") == load_gpu("h100-sxm").rate("tensor_bf16")


def test_a_geforce_blackwell_is_no_small_b200() -> None:
    geforce, server = load_gpu("rtx-5090"), load_gpu("b200-sxm")
    assert load_architecture(geforce.architecture).targets == ("sm_120", "sm_121")
    assert load_architecture(server.architecture).targets == ("sm_100", "sm_103")
    assert (
        geforce.rate("tensor_bf16")
        == load_gpu("rtx-4090").rate("tensor_bf16")
        < server.rate("tensor_bf16") / 8
    )
    assert geforce.shared_bytes_per_sm < server.shared_bytes_per_sm / 2
    # it runs the kernels of Ada
    ada = time_calibration_of(load_gpu("rtx-4090"))
    assert time_calibration_of(geforce).coefficients == ada.coefficients
    assert time_calibration_of(server).coefficients["gemm"] != ada.coefficients["gemm"]


def test_only_the_data_center_blackwell_and_its_small_sister_have_tensor_memory() -> None:
    have = {
        n
        for n in architecture_names()
        if "tensor_memory_bytes_per_sm" in load_architecture(n).shared["onchip"]
    }
    small_sister = load_gpu("jetson-agx-thor").architecture
    assert have - {small_sister} == {load_gpu("b200-sxm").architecture} == {load_gpu("gb300").architecture}
    assert small_sister in have
    assert load_gpu("b200-sxm").numbers["tensor_memory_bytes_per_sm"].value == 2**18


def test_only_the_blackwell_of_warps_scales_in_their_instructions() -> None:
    nvidia = [one for one in map(load_architecture, architecture_names()) if one.vendor == "nvidia"]
    have = {one.name for one in nvidia if one.scales_in_warps}
    assert have == {load_gpu("rtx-pro-6000-bw-server").architecture}


def test_blackwell_ultra_doubles_the_special_functions() -> None:
    assert load_gpu("gb300").sfu_per_clock_sm == 2 * load_gpu("gb200").sfu_per_clock_sm == 32
    assert load_gpu("b300-sxm").sfu_per_clock_sm == 2 * load_gpu("h100-sxm").sfu_per_clock_sm


def test_memory_that_is_cached_beside_shared_memory_is_counted_apart() -> None:
    assert load_gpu("h100-sxm").first_cache_bytes_per_sm == load_gpu("h100-sxm").shared_bytes_per_sm
    assert load_gpu("p100-pcie").first_cache_bytes_per_sm < load_gpu("p100-pcie").shared_bytes_per_sm


def test_a_log_of_an_unnamed_gpu_may_be_of_any_measured_class() -> None:
    used = {
        (row.sensor_class, SENSOR_CLASSES[row.sensor_class]["kind"])
        for name in architecture_names()
        for row in load_architecture(name).sensors.values()
        if row.kind == "measured"
    }
    candidates = unnamed_sensors("draw")
    for sensor_class, kind in used:
        update_s = SENSOR_CLASSES[sensor_class]["update_ms"] / 1e3
        assert any(s.kind == kind and np.isclose(s.update_s, update_s) for s in candidates), sensor_class


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"title": None}, "title missing"),
        ({"lineage": {}}, "lineage.generation is not a table"),
        ({"sensor": {"draw": {"class": "second", "kind": "measured"}}}, "sensor.draw is not a table"),
        ({"sensor": {"draw": {"class": "second", "kind": "guess", "source": "x"}}}, "of kind 'guess'"),
        ({"other_kernels": {}}, "names no architecture"),
        (
            {"compute": {"fp32": {"value": 1, "unit": "FLOP/clk/SM", "kind": "prior", "source": "x"}}},
            "low and high",
        ),
    ],
)
def test_a_broken_architecture_is_refused(change: dict[str, Any], fault: str) -> None:
    document = {k: v for k, v in {**_document("hopper"), **change}.items() if v is not None}
    with pytest.raises(BadInput, match=fault):
        build_architecture("toy", document)


def test_an_unknown_architecture_lists_the_known() -> None:
    with pytest.raises(BadInput) as fault:
        load_architecture("hoper")
    assert "'hoper'" in fault.value.line() and "hopper" in fault.value.line()


def test_no_code_decides_by_the_name_of_an_architecture() -> None:
    names = {*architecture_names(), *(t for n in architecture_names() for t in load_architecture(n).targets)}
    files = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    breaches = [
        f"{inside}:{node.lineno}: {node.value!r}"
        for inside, path in files.items()
        if not inside.startswith(NAME_RULES)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert len(files) > 500
    assert not breaches, "what an architecture is stands in hardware/architectures"
