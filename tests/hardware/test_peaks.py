"""Rates against what each GPU's maker publishes: an independent number, so that no rate drifts unseen."""

from __future__ import annotations

import math
import tomllib
from importlib import resources

import numpy as np
import pytest

from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import PIPES, Gpu
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.hardware.peaks import Peak, read_peaks

FOLDER = resources.files("tracetool.hardware")
REFERENCES = tomllib.loads((FOLDER / "references.toml").read_text("utf-8"))
MODELS = {n: load_gpu(n) for n in gpu_names() if load_gpu(n, part="sensor").scope == "model"}
RATES = {n: pipes for n, gpu in MODELS.items() if (pipes := [p for p in gpu.peaks if p in PIPES])}
#: How far units x rate x clock may be from the published peak. [1]
WITHIN = 0.03
#: Published figures of a whole card that a sheet leaves out, and why.
LEFT_OUT = {
    "a100-sxm-64gb": {"rate", "dram", "bus"},  # a custom part: its maker publishes none
    "b200-sxm": {"bus"},  # the driver's width contradicts the published bandwidth by 4 %
    "mi100": {"tdp"},  # the driver states 290 W, the vendor 300
    "mi250": {"tdp"},  # stated of the module, the sheet is of one of its two GPUs
    "mi250x": {"tdp"},
    "mi300a": {"tdp"},  # stated with the CPU dies
    "mi308x": {"rate", "dram", "bus", "tdp"},  # nothing published
}
#: GPUs no two documents agree on, or none states: all their matrix rates are priors.
UNPUBLISHED = {"mi308x"}


def _near(computed: float, peak: Peak) -> bool:
    return abs(computed - peak.value) <= max(WITHIN * peak.value, 0.5 * peak.step)


def _computed(gpu: Gpu, pipe: str) -> float:
    stated = gpu.peaks[pipe].clock_mhz
    clock = gpu.clock_rated_mhz if math.isnan(stated) else stated
    assert clock <= gpu.clock_max_mhz
    return float(gpu.peak_flops(pipe, clock)) * 1e-12


@pytest.mark.parametrize("name", RATES)
def test_units_times_rate_times_clock_is_the_published_peak(name: str) -> None:
    gpu = MODELS[name]
    computed = {pipe: _computed(gpu, pipe) for pipe in RATES[name]}
    assert not {p: (rate, gpu.peaks[p]) for p, rate in computed.items() if not _near(rate, gpu.peaks[p])}


@pytest.mark.parametrize("name", RATES)
def test_half_or_twice_the_rate_is_found(name: str) -> None:
    """A sparse rate, or one of half the width, is the fault that a sheet invites."""
    gpu = MODELS[name]
    for pipe in RATES[name]:
        peak = gpu.peaks[pipe]
        if peak.step < peak.value:
            assert not any(_near(factor * _computed(gpu, pipe), peak) for factor in (0.5, 2.0)), pipe


@pytest.mark.parametrize("name", [n for n, gpu in MODELS.items() if "dram" in gpu.peaks])
def test_bandwidth_is_the_published_one(name: str) -> None:
    assert _near(MODELS[name].dram_bytes_per_s * 1e-9, MODELS[name].peaks["dram"])


@pytest.mark.parametrize("name", [n for n, gpu in MODELS.items() if "bus" in gpu.peaks])
def test_bandwidth_is_bus_times_data_rate(name: str) -> None:
    gpu = MODELS[name]
    bus = gpu.peaks["bus"]
    rate = bus.value / 8 * bus.transfers * gpu.memory_clock_mhz * 1e6
    assert rate == pytest.approx(gpu.dram_bytes_per_s, rel=WITHIN)


def test_graphics_chips_of_an_architecture_have_l2_by_the_width_of_their_memory() -> None:
    """A slice of L2 stands beside each channel: an L4, of half an L40's width, once had all of its rate."""
    rates: dict[str, list[float]] = {}
    for gpu in MODELS.values():
        if gpu.memory_type.startswith("gddr") and "bus" in gpu.peaks:
            rates.setdefault(gpu.architecture, []).append(gpu.l2_bytes_per_clock / gpu.peaks["bus"].value)
    assert not {name: of for name, of in rates.items() if max(of) > 1.25 * min(of)}


def test_hopper_has_l2_by_its_stacks_of_memory() -> None:
    """10 MiB beside each stack that is on: an H20 of six once had the 50 MiB of an H100 of five."""
    hopper = [gpu for gpu in MODELS.values() if gpu.architecture == "hopper"]
    assert {(round(gpu.peaks["bus"].value / 1024), gpu.l2_bytes / 2**20 / 10) for gpu in hopper} == {
        (5, 5),
        (6, 6),
    }


@pytest.mark.parametrize("name", [n for n, gpu in MODELS.items() if "tdp" in gpu.peaks])
def test_the_power_limit_holds_the_published_power(name: str) -> None:
    gpu = MODELS[name]
    assert gpu.power_limit_min_w < gpu.peaks["tdp"].value <= gpu.power_limit_max_w * (1 + WITHIN)


@pytest.mark.parametrize("name", MODELS)
def test_a_sheet_states_what_its_maker_publishes(name: str) -> None:
    stated = {"rate" if key in PIPES else key for key in MODELS[name].peaks}
    assert {"rate", "dram", "bus", "tdp"} - stated == LEFT_OUT.get(name, set())


@pytest.mark.parametrize("name", MODELS)
def test_every_source_of_a_peak_is_listed(name: str) -> None:
    own = tomllib.loads((FOLDER / "gpus" / f"{name}.toml").read_text("utf-8")).get("references", {})
    assert {p.source for p in MODELS[name].peaks.values()} <= {*REFERENCES, *own}


@pytest.mark.parametrize("name", MODELS)
def test_a_matrix_rate_without_a_published_peak_is_a_prior_or_follows_from_one(name: str) -> None:
    gpu = MODELS[name]
    rates = {p for p in gpu.flops_per_clock_sm if p.startswith("tensor_")}
    published = {p for p in gpu.flops_per_clock_sm if p in gpu.peaks}
    if name in UNPUBLISHED:
        assert rates <= gpu.assumed
        return
    # half the width, twice the rate: a power of two of a published rate is supported by it, and so is the
    # rate a clock that another GPU of the same architecture has published
    alike = {
        (pipe, other.numbers[pipe])
        for other in MODELS.values()
        for pipe in other.peaks
        if pipe in other.numbers and other.architecture == gpu.architecture
    }
    for pipe in rates - published - gpu.assumed:
        if (pipe, gpu.numbers[pipe]) in alike:
            continue
        ratios = [gpu.flops_per_clock_sm[pipe] / gpu.flops_per_clock_sm[p] for p in published]
        assert any(math.log2(r).is_integer() and 0.25 <= r <= 4 for r in ratios), pipe


def test_the_matrix_rates_of_cut_parts_are_cut() -> None:
    """H20 and A10G once had the rates of H100 and A10: 4 and 2 times too fast."""
    assert MODELS["h20"].peak_flops("tensor_bf16", 1830.0) < 0.16 * MODELS["h100-sxm"].peak_flops(
        "tensor_bf16", 1830.0
    )
    ratio = MODELS["a10g"].rate("tensor_bf16") / MODELS["a10"].rate("tensor_bf16")
    assert ratio == pytest.approx(0.5)
    assert MODELS["h800-sxm"].peak_flops("fp64", 1980.0) < 1.6e12


def test_a_wrong_peak_is_named() -> None:
    fine = {"value": 312, "unit": "TFLOP/s", "source": "x"}
    assert read_peaks("a.toml", {"tensor_bf16": fine}, PIPES)["tensor_bf16"].value == 312
    assert read_peaks("a.toml", {}, PIPES) == {}
    for table, word in (
        ({"tensor_b16": fine}, "tensor_b16"),
        ({"fp32": {**fine, "unit": "GB/s"}}, "TFLOP/s"),
        ({"fp32": {**fine, "value": -1}}, "positive"),
        ({"fp32": {**fine, "value": np.inf, "clock_mhz": "fast"}}, "clock_mhz"),
        ({"dram": {"value": 5}}, "source"),
        ({"fp32": 3}, "fp32"),
    ):
        with pytest.raises(BadInput) as fault:
            read_peaks("a.toml", table, PIPES)
        assert word in fault.value.line() and "a.toml" in fault.value.line()
