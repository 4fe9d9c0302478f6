"""Every GPU file: complete, sourced, plausible."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

import numpy as np
import pytest

from tracetool.core.errors import BadInput
from tracetool.hardware.coefficient_files import calibrated_gpus, own_calibration, parse_calibration
from tracetool.hardware.gpu import PIPES
from tracetool.hardware.listing import parse_listed, read_listed
from tracetool.hardware.load import build_gpu, gpu_names, load_gpu, match_gpu
from tracetool.hardware.names import asked_gpu, variant_notes
from tracetool.hardware.number import read_number
from tracetool.hardware.trace_figures import differing_figures
from tracetool.model.power_files import power_basis, power_calibration_of
from tracetool.report import gpu_sheet

FOLDER = resources.files("tracetool.hardware")
REFERENCES = tomllib.loads((FOLDER / "references.toml").read_text("utf-8"))
MODELS = [n for n in gpu_names() if load_gpu(n, part="sensor").scope == "model"]


@pytest.mark.parametrize("name", gpu_names())
def test_every_number_names_a_known_source(name: str) -> None:
    gpu = load_gpu(name, part="sensor")
    own = tomllib.loads((FOLDER / "gpus" / f"{name}.toml").read_text("utf-8")).get("references", {})
    unknown = {n.source for n in gpu.numbers.values()} - set(REFERENCES) - set(own)
    assert not unknown
    used = {n.source for n in gpu.numbers.values()} | {p.source for p in gpu.peaks.values()}
    assert set(own) <= used
    assert not set(own) & set(REFERENCES)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_plausible(name: str) -> None:
    gpu = load_gpu(name)
    clocks = gpu.supported_clocks_mhz()
    assert (np.diff(clocks) > 0).all()
    assert clocks[-1] == gpu.clock_max_mhz
    assert gpu.clock_min_mhz <= gpu.clock_rated_mhz <= gpu.clock_boost_mhz <= gpu.clock_max_mhz
    assert gpu.power_limit_min_w <= gpu.power_limit_w <= gpu.power_limit_max_w
    assert 0 < gpu.idle_w < gpu.power_limit_w
    assert 0.35 < gpu.dram_efficiency <= 1.0
    assert set(gpu.flops_per_clock_sm) <= set(PIPES)
    assert all(gpu.rate(p) > 0 for p in PIPES)
    volt = gpu.voltage_v(clocks)
    assert (np.diff(volt) >= 0).all()
    assert 0.5 < volt[0] <= volt[-1] < 1.4


@pytest.mark.parametrize("name", gpu_names())
def test_aliases_lead_back(name: str) -> None:
    gpu = load_gpu(name, part="sensor")
    for alias in (name, *gpu.aliases):
        assert match_gpu(alias) == name, alias
        assert asked_gpu(alias) == name, alias


@pytest.mark.parametrize("name", calibrated_gpus("power"))
def test_a_delivered_calibration_reads_and_is_sourced(name: str) -> None:
    file = own_calibration(name, "power")
    assert file is not None
    assert name in gpu_names()
    for section in file.numbers.values():
        assert {n.source for n in section.values()} <= set(REFERENCES)


@pytest.mark.parametrize("name", gpu_names())
def test_a_list_shows_what_the_whole_file_states(name: str) -> None:
    gpu, listed = load_gpu(name, part="sensor"), read_listed(name)
    assert (gpu.title, gpu.vendor, gpu.architecture, gpu.memory_type) == (
        listed.title,
        listed.vendor,
        listed.architecture,
        listed.memory_type,
    )
    assert all(gpu.numbers[key] == number for key, number in listed.numbers.items())
    assert bool(listed.numbers) == (gpu.scope == "model")
    if gpu.scope == "model":
        assert power_basis(name, gpu.vendor) == power_calibration_of(gpu).basis


def test_a_list_says_which_gpu_is_known_only_by_its_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'title = "Tesla K20"\narchitecture = "kepler"\nscope = "sensor"\naliases = ["K20"]\n'
    monkeypatch.setattr(gpu_sheet, "gpu_names", lambda: ("a10", "tesla-k20"))
    monkeypatch.setattr(
        gpu_sheet,
        "read_listed",
        lambda name: parse_listed(name, text) if name == "tesla-k20" else read_listed(name),
    )
    complete, sensor = gpu_sheet.list_gpus().to_dicts()
    assert (sensor["power"], sensor["sm_count"], sensor["power_limit_w"]) == ("sensor only", None, None)
    assert complete["sm_count"] == 72 and complete["power"] != "sensor only"


def test_an_unknown_gpu_lists_the_nearest() -> None:
    with pytest.raises(BadInput) as fault:
        load_gpu("a100-pci-40gb")
    assert "a100-pcie-40gb" in fault.value.line()


@pytest.mark.parametrize(
    ("device", "memory_gib", "name"),
    [
        ("Tesla V100-DGXS-32GB", 31.7, "v100-sxm2-32gb"),
        ("Tesla V100-DGXS-32GB", None, "v100-sxm2-32gb"),
        ("Tesla V100-DGXS-16GB", 15.8, "v100-sxm2-16gb"),
        ("Tesla V100-SXM2", 31.7, "v100-sxm2-32gb"),
        ("Tesla V100-SXM2", None, "v100-sxm2-16gb"),
        ("A100-SXM4", 39.5, "a100-sxm-40gb"),
        ("A100-SXM4", 79.2, "a100-sxm"),
        ("A100-80-PCIe", None, "a100-pcie-80gb"),
        ("NVIDIA GeForce RTX 3080", 9.8, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", 11.8, "rtx-3080-12gb"),
        ("NVIDIA GeForce GTX 1050", 2.93, "gtx-1050-3gb"),
        ("NVIDIA GH200 480GB", 94.5, "gh200"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", 15.7, "rtx-3080-laptop-16gb"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", 7.8, "rtx-3080-laptop"),
        ("AMD Radeon RX 9060 XT", 15.9, "rx-9060-xt-16gb"),
        ("AMD Radeon RX 9060 XT", 7.95, "rx-9060-xt"),
        ("AMD Radeon Pro W7800", 44.98, "radeon-pro-w7800-48gb"),
        ("NVIDIA RTX PRO 5000 Blackwell", 71.0, "rtx-pro-5000-bw-72gb"),
        ("NVIDIA RTX A2000 12GB", None, "rtx-a2000-12gb"),
        ("Orin", 29.8, "jetson-agx-orin-32gb"),
        ("Orin", 61.4, "jetson-agx-orin"),
        # a slice of a GPU states its own memory; the alias with the whole GPU's size decides
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39.5, "a100-sxm"),
    ],
)
def test_of_variants_the_nearest_in_memory_is_taken(device: str, memory_gib: float | None, name: str) -> None:
    assert match_gpu(device, memory_gib and memory_gib * 2**30) == name


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla P100-SXM2...", "p100-sxm2"),
        ("Tesla V100-SXM3-32GB", "v100-sxm2-32gb"),
        ("RTX3090", "rtx-3090"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA H800 PCIe", "h800-pcie"),
        ("NVIDIA H20-3e", "h20-141gb"),
        # as names of systems are spelled elsewhere
        ("gb300", "gb300"),
        ("gb300-nvl72", "gb300"),
        ("gb200_nvl72", "gb200"),
        ("b300_sxm", "b300-sxm"),
        ("h100_pcie", "h100-pcie"),
        ("h200-nvl", "h200-nvl"),
        ("l40", "l40"),
        ("l20", "l20"),
        ("rtx-pro-6000", "rtx-pro-6000-bw-ws"),
        ("rtx_pro_6000_server", "rtx-pro-6000-bw-server"),
        # of a laptop and of a desktop
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"),
        ("AD103M / GN21-X11 [GeForce RTX 4090 Laptop GPU]", "rtx-4090-laptop"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090-d"),
        ("NVIDIA GeForce RTX 5070 Ti Laptop GPU", "rtx-5070-ti-laptop"),
        ("NVIDIA GeForce RTX 5070 Laptop GPU", "rtx-5070-laptop"),
        ("GeForce RTX 3070 Laptop GPU", "rtx-3070-laptop"),
        ("RTX 4080 Mobile", "rtx-4080-laptop"),
        # parts of one series
        ("NVIDIA GeForce RTX 5090 D", "rtx-5090-d"),
        ("NVIDIA GeForce RTX 5090 D v2", "rtx-5090-d-v2"),
        ("NVIDIA RTX PRO 4000 Blackwell", "rtx-pro-4000-bw"),
        ("NVIDIA RTX PRO 4000 Blackwell SFF Edition", "rtx-pro-4000-bw-sff"),
        ("NVIDIA RTX PRO 5000 72GB Blackwell", "rtx-pro-5000-bw-72gb"),
        ("NVIDIA RTX A5500", "rtx-a5500"),
        ("NVIDIA T1000 8GB", "t1000-8gb"),
        ("AMD Radeon RX 7900 XT", "rx-7900-xt"),
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"),
        ("Radeon RX 7900 GRE", "rx-7900-gre"),
        ("AMD Radeon RX 9070", "rx-9070"),
        ("AMD Radeon RX 9070 XT", "rx-9070-xt"),
        ("AMD Radeon AI PRO R9700", "radeon-ai-pro-r9700"),
        ("AMD Radeon Pro W7900 Dual Slot", "radeon-pro-w7900"),
        # a GPU and a CPU of one chip
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "radeon-8060s"),
        ("AMD RYZEN AI MAX+ PRO 395 w/ Radeon 8060S", "radeon-8060s"),
        ("Radeon 8060S Graphics", "radeon-8060s"),
        ("AMD Radeon(TM) 8060S Graphics", "radeon-8060s"),
        ("Radeon 8050S Graphics", "radeon-8050s"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA Thor", "jetson-agx-thor"),
        ("Orin (nvgpu)", "jetson-agx-orin"),
        # another model or another mount is another GPU
        ("NVIDIA GeForce RTX 2060 Laptop GPU", None),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", None),
        ("NVIDIA RTX A1000 Laptop GPU", None),
        ("NVIDIA RTX A2000 8GB Laptop GPU", "rtx-a2000-laptop"),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "rtx-5000-ada-laptop"),
        ("NVIDIA RTX 1000 Ada Generation Laptop GPU", None),
        ("NVIDIA RTX 4000 SFF Ada Generation", "rtx-4000-sff-ada"),
        ("NVIDIA L2", "l2"),
        ("NVIDIA A100X", "a100x"),
        ("NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", None),
        ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", None),
        ("Navi 48 [Radeon RX 9070/9070 XT/9070 GRE]", None),
        ("Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", None),
        ("AMD Radeon RX 6800M", None),
        ("AMD Radeon Graphics", None),
        ("Strix Halo [Radeon Graphics / Radeon 8050S Graphics / Radeon 8060S Graphics]", None),
        ("Jetson Orin Nano", "jetson-orin-nano-8gb"),
        ("Jetson Orin Nano 4GB", "jetson-orin-nano-4gb"),
        ("Jetson Orin Nano Super", "jetson-orin-nano-super"),
        ("Jetson Orin NX", "jetson-orin-nx-16gb"),
        ("Jetson Orin NX 8GB", "jetson-orin-nx-8gb"),
        ("NVIDIA B200 PCIe", None),
        ("nothing known", None),
        ("", None),
    ],
)
def test_device_strings(device: str, name: str | None) -> None:
    assert match_gpu(device) == name


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("h100-pci", "h100-pcie"),
        ("h100-foo", "h100-sxm"),
        ("h200-foo", "h200-sxm"),
        ("mi300x-foo", "mi300x"),
        ("t4-x", "t4"),
        ("h100-mig", "h100-sxm"),
        ("NVIDIA A30 MIG 2g.12gb", "a30"),
    ],
)
def test_a_mistyped_gpu_is_refused_with_the_nearest_names(typed: str, nearest: str) -> None:
    with pytest.raises(BadInput, match="no GPU called") as refused:
        load_gpu(typed)
    assert re.match(f"nearest: {nearest}[,;].* all: tracetool gpus$", refused.value.fix)


def test_another_memory_size_is_another_gpu() -> None:
    with pytest.raises(BadInput, match="no GPU called") as refused:
        load_gpu("h200-80gb")
    assert "h200-sxm" in refused.value.fix


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("V100-DGXS-32GB", "v100-sxm2-32gb"),
        ("v100-32gb", "v100-sxm2-32gb"),
        ("A100-80-PCIe", "a100-pcie-80gb"),
        ("A100-SXM-64GB", "a100-sxm-64gb"),
        ("Tesla P100-SXM2...", "p100-sxm2"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("AMD INSTINCT MI250 (MCM) OAM AC MBA", "mi250"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("h100_pcie", "h100-pcie"),
        ("gb300-nvl72", "gb300"),
        # divided otherwise, or without the series of a GeForce
        ("mi-300x", "mi300x"),
        ("mi 300x", "mi300x"),
        ("L-40S", "l40s"),
        ("h-100-sxm", "h100-sxm"),
        ("4090", "rtx-4090"),
        ("4070 Ti", "rtx-4070-ti"),
        ("A100", "a100-sxm"),
        ("a-100", "a100-sxm"),
        ("A100-80GB", "a100-sxm"),
        ("A100 40GB", "a100-sxm-40gb"),
        ("A100 PCIe 80GB", "a100-pcie-80gb"),
    ],
)
def test_whole_device_strings_may_be_typed(typed: str, name: str) -> None:
    assert load_gpu(typed).name == name


@pytest.mark.parametrize("typed", ["A100", "a-100"])
def test_a_name_of_several_gpus_is_noted_however_it_is_written(typed: str) -> None:
    others = "a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-64gb"
    assert variant_notes(typed) == [f"gpu: {typed} taken as a100-sxm (others: {others})"]


@pytest.mark.parametrize("typed", ["6000", "40", "3"])
def test_a_number_of_several_series_is_no_name(typed: str) -> None:
    with pytest.raises(BadInput, match="no GPU called"):
        load_gpu(typed)


@pytest.mark.parametrize("name", ["radeon-8060s", "gb10", "jetson-agx-thor"])
def test_memory_of_the_cpu_too_is_as_large_as_its_owner_bought(name: str) -> None:
    """A Ryzen AI Max of 32 GB would have been noted as another model, or a slice of one."""
    gpu = load_gpu(name)
    assert gpu.shares_host_memory
    assert differing_figures(gpu, 30 * 2**30, gpu.sm_count) == []
    assert differing_figures(gpu, 30 * 2**30, gpu.sm_count / 2)
    assert differing_figures(load_gpu("rtx-4090"), 30 * 2**30, 128)


def test_a_gpu_known_only_by_its_sensor_cannot_predict() -> None:
    gpu = build_gpu("made-up", {"architecture": "kepler", "scope": "sensor", "title": "Tesla K20"})
    with pytest.raises(BadInput, match="only by its power sensor"):
        gpu.require_model()
    assert gpu.sensor().kind


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (3.0, "not a table"),
        ({"value": 1.0, "unit": "W"}, "is missing kind, source"),
        ({"value": "much", "unit": "W", "kind": "fitted", "source": "x"}, "not a number"),
        ({"value": 1.0, "unit": "stone", "kind": "fitted", "source": "x"}, "not in the closed list"),
        ({"value": 1.0, "unit": "W", "kind": "guess", "source": "x"}, "of kind"),
        ({"value": 1.0, "unit": "W", "kind": "prior", "source": "x"}, "without low and high"),
    ],
)
def test_a_number_without_its_evidence_is_refused(entry: object, fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        read_number("some.toml", "power.idle_w", entry)


def test_a_gpu_file_that_lacks_a_number_is_refused() -> None:
    with pytest.raises(BadInput, match="missing key sm_count"):
        build_gpu("made-up", {"architecture": "hopper", "scope": "model"})
    with pytest.raises(BadInput, match="missing key architecture"):
        build_gpu("made-up", {"scope": "model"})
    with pytest.raises(BadInput, match="no architecture called 'x'"):
        build_gpu("made-up", {"architecture": "x", "scope": "model"})


@pytest.mark.parametrize("text", ["[power", "x = 3", "[power]\nboard_w = 3"])
def test_a_broken_calibration_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_calibration("mine.toml", text)
