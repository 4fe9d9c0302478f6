"""Read a GPU by the name a user types or the string a profiler wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import tomli

from tracetool.core.errors import BadInput
from tracetool.hardware.architecture import SHARED_SECTIONS, load_architecture
from tracetool.hardware.gpu import PIPES, Gpu
from tracetool.hardware.names import asked_gpu, gpu_names, match_gpu, nearest_gpus
from tracetool.hardware.number import Number, read_number
from tracetool.hardware.peaks import read_peaks
from tracetool.hardware.priors import prior_number
from tracetool.hardware.voltage import VoltageCurve

__all__ = ["SECTIONS", "build_gpu", "gpu_document", "gpu_names", "load_gpu", "match_gpu"]

#: Sections of a GPU's file that hold numbers.
SECTIONS = ("compute", "clocks", "memory", "onchip", "link", "power", "voltage", "sensor")


def load_gpu(name: str, *, part: str = "model") -> Gpu:
    """Return a GPU by name or alias.

    Parameters
    ----------
    name : str
        Name as in ``gpu_names()``, or a device string a profiler writes.
    part : {"model", "sensor"}
        What is needed of it. With "sensor", GPUs known only by their power sensor are
        returned too, their other numbers NaN or 0.

    Raises
    ------
    BadInput
        If no GPU is called so (naming the nearest ones), or too little of it is known.

    Examples
    --------
    >>> load_gpu("NVIDIA H100 80GB HBM3").name
    'h100-sxm'
    """
    gpu_name = asked_gpu(name)
    if gpu_name is None:
        near = nearest_gpus(name)
        nearest = f"nearest: {', '.join(near)}; " if near else ""
        raise BadInput(f"no GPU called {name!r}", f"{nearest}all: tracetool gpus")
    gpu = _read(gpu_name)
    if part == "model":
        gpu.require_model()
    return gpu


@cache
def gpu_document(name: str) -> dict[str, Any]:
    """Return the file of a GPU, parsed; not to be changed."""
    return tomli.loads((resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8"))


@cache
def _read(name: str) -> Gpu:
    return build_gpu(name, gpu_document(name))


def _link_ranks(numbers: Mapping[str, Number]) -> int:
    """Return the number of GPUs that peer links connect: one where the stated link is PCIe."""
    if "link_ranks" in numbers:
        return int(numbers["link_ranks"].value)
    links = [numbers[key].value for key in ("link_bytes_per_s", "pcie_bytes_per_s") if key in numbers]
    return int(prior_number("link.ranks")) if len(links) == 2 and links[0] > links[1] else 1


def build_gpu(name: str, document: Mapping[str, Any]) -> Gpu:
    """Return the GPU a parsed TOML describes, with the numbers its architecture shares.

    A number of the GPU's own takes the place of the architecture's. BadInput says which number is missing
    or wrong, or that there is no such architecture.
    """
    where = f"{name}.toml"
    if "architecture" not in document:
        raise BadInput.in_file(where, "missing key architecture")
    architecture = load_architecture(str(document["architecture"]))
    scope = document.get("scope", "model")
    segment = architecture.of_segment(where, str(document.get("segment", "")))
    numbers: dict[str, Number] = {}
    for section in SECTIONS:
        for key, entry in document.get(section, {}).items():
            numbers[key] = read_number(where, f"{section}.{key}", entry)
        if scope == "model" and section in SHARED_SECTIONS:
            shared = architecture.shared[section]
            numbers = {**numbers, **{k: segment.get(k, n) for k, n in shared.items() if k not in numbers}}

    def value(key: str) -> float:
        if key in numbers:
            return numbers[key].value
        if scope == "model":
            raise BadInput.in_file(where, f"missing key {key}, here and in {architecture.name}.toml")
        return float("nan")

    def whole(key: str) -> int:
        stated = value(key)
        return 0 if math.isnan(stated) else int(stated)

    overrides = {k[7:]: n.value for k, n in numbers.items() if k.startswith("sensor_")}
    return Gpu(
        name=name,
        title=str(document.get("title", name)),
        vendor=architecture.vendor,
        architecture=architecture.name,
        scope=scope,
        note=str(document.get("note", "")),
        aliases=tuple(document.get("aliases", ())),
        node_nm=value("node_nm"),
        memory_type=str(document.get("memory_type", "")),
        sm_count=whole("sm_count"),
        clock_min_mhz=value("clock_min_mhz"),
        clock_max_mhz=value("clock_max_mhz"),
        clock_boost_mhz=value("clock_boost_mhz"),
        clock_step_mhz=value("clock_step_mhz"),
        memory_clock_mhz=value("memory_clock_mhz"),
        memory_bytes=value("memory_bytes"),
        dram_bytes_per_s=value("dram_bytes_per_s"),
        dram_efficiency=value("dram_efficiency"),
        l2_bytes=value("l2_bytes"),
        l2_bytes_per_clock=value("l2_bytes_per_clock"),
        shared_bytes_per_clock_sm=value("shared_bytes_per_clock_sm"),
        shared_bytes_per_sm=value("shared_bytes_per_sm"),
        # since Volta the first-level cache and shared memory are one
        first_cache_bytes_per_sm=value(
            "first_cache_bytes_per_sm" if "first_cache_bytes_per_sm" in numbers else "shared_bytes_per_sm"
        ),
        l2_port_bytes_per_clock_sm=value("l2_port_bytes_per_clock_sm"),
        translated_bytes=value("translated_bytes"),
        registers_per_sm=whole("registers_per_sm"),
        max_threads_per_sm=whole("max_threads_per_sm"),
        max_blocks_per_sm=whole("max_blocks_per_sm"),
        warp_size=whole("warp_size"),
        schedulers_per_sm=whole("schedulers_per_sm"),
        lanes_per_clock_sm=value("lanes_per_clock_sm"),
        sfu_per_clock_sm=value("sfu_per_clock_sm"),
        conversions_per_clock_sm=value("conversions_per_clock_sm"),
        flops_per_clock_sm={p: numbers[p].value for p in PIPES if p in numbers},
        matrix_fp32=numbers["matrix_fp32"].value if "matrix_fp32" in numbers else 0.0,
        link_bytes_per_s=value("link_bytes_per_s"),
        link_ranks=_link_ranks(numbers),
        link_peers=int(numbers["link_peers"].value) if "link_peers" in numbers else 0,
        link_reduces=bool(numbers["link_reduces"].value) if "link_reduces" in numbers else False,
        graph_step_us=numbers["graph_step_us"].value if "graph_step_us" in numbers else 0.0,
        peer_latency_us=(
            numbers["peer_latency_us"].value if "peer_latency_us" in numbers else prior_number("link.latency")
        ),
        pcie_bytes_per_s=value("pcie_bytes_per_s"),
        nic_bytes_per_s=numbers["nic_bytes_per_s"].value if "nic_bytes_per_s" in numbers else 0.0,
        power_limit_w=value("power_limit_w"),
        power_limit_min_w=value("power_limit_min_w"),
        power_limit_max_w=value("power_limit_max_w"),
        idle_w=value("idle_w"),
        voltage=VoltageCurve(
            floor_v=value("floor_v"),
            knee_mhz=value("knee_mhz"),
            slope_v_per_ghz=value("slope_v_per_ghz"),
            curve_v_per_ghz2=value("curve_v_per_ghz2"),
            max_v=value("max_v"),
            measured="knee_mhz" in numbers and numbers["knee_mhz"].kind in ("measured", "fitted"),
        ),
        sensor_override=overrides,
        numbers=numbers,
        assumed=frozenset(k for k, n in numbers.items() if n.kind == "prior"),
        peaks=read_peaks(where, document.get("peaks", {}), PIPES),
    )
