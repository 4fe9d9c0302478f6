"""Which kernels may have run, of a few made up here: where each was measured, and what it is called."""

from __future__ import annotations

import pytest

from tracetool.families.implementations import FittedLaw, Implementation
from tracetool.model.candidates import candidates
from tracetool.model.kernel_projects import runs_on
from tracetool.model.other_versions import others_of_library

LAW = "prefill"


def _kernel(name: str, *gpus: str, words: tuple[str, ...] = (), law: str = LAW) -> Implementation:
    """A kernel of vLLM that was measured on some GPUs, ten rows on each."""
    fitted = FittedLaw({}, {}, dict.fromkeys(gpus, 10), frozenset(), (-0.1, 0.1), {})
    return Implementation(name, name, "vllm", frozenset({name}), words, {law: fitted})


@pytest.mark.parametrize(
    ("measured", "found"), [(("h100-sxm",), "kernel_b"), (("h100-sxm", "a100-sxm"), "kernel_a")]
)
def test_a_name_holds_on_other_instructions_where_it_ran_with_two_kinds(
    measured: tuple[str, ...], found: str
) -> None:
    """Kernel a, measured on Hopper alone, has its warpgroups: an Ada GPU runs what Ada GPUs ran."""
    every = (_kernel("kernel_a", *measured), _kernel("kernel_b", "l40s"))
    assert [one.name for one in candidates(LAW, "ada", "vllm 0.24.0", "kernel_a", every)] == [found]


def test_compiled_kernels_stand_beside_those_measured_near() -> None:
    """Of two kernels measured on Ada one is a compiler's; where none was, Hopper's compiled one is left."""
    every = (
        _kernel("plain", "l40s"), _kernel("compiled", "l40s", words=("triton",)),
        _kernel("other", "h100-sxm"), _kernel("compiled_there", "h100-sxm", words=("triton",)),
    )  # fmt: skip
    assert [one.name for one in candidates(LAW, "ada", available=every)] == ["plain", "compiled"]
    assert [one.name for one in candidates(LAW, "ada", available=every[2:])] == ["compiled_there"]


def test_a_kernel_measured_on_gpus_of_both_vendors_is_either_one_s() -> None:
    both, amd = _kernel("both", "h100-sxm", "mi300x"), _kernel("amd", "mi300x")
    told = {
        architecture: [
            one.name for one in others_of_library(LAW, architecture, "vllm 0.24.0", (), (both, amd))
        ]
        for architecture in ("hopper", "cdna3")
    }
    assert told == {"hopper": ["both"], "cdna3": ["both", "amd"]}


def test_other_versions_run_no_kernels_made_for_other_architectures() -> None:
    """TensorRT-LLM's binaries are for Blackwell's tensor memory: no version runs them on Hopper."""
    law, names = "moe_fp8", ("vllm_flashinfer_trtllm", "vllm_other")
    every = tuple(_kernel(name, "b200-sxm", law=law) for name in names)
    told = {
        architecture: len(others_of_library(law, architecture, "vllm 0.99.0", (), every))
        for architecture in ("hopper", "blackwell")
    }
    assert told == {"hopper": 1, "blackwell": 2}


@pytest.mark.parametrize(
    ("name", "law", "architecture", "runs"),
    [
        ("flashinfer_cutlass_x", "moe_fp8", "hopper", True),
        ("flashinfer_cutlass_x", "moe_fp8", "ada", False),
        ("flashinfer_cutlass_x", LAW, "ada", True),  # of experts alone is it known
        ("triton_x", "moe_fp8", "ada", True),
        ("torch_flow_cutlass", "moe_fp8", "ada", True),  # a project made for any architecture
    ],
)
def test_a_project_s_kernels_run_where_it_made_them(
    name: str, law: str, architecture: str, runs: bool
) -> None:
    assert runs_on(_kernel(name, "h100-sxm"), law, architecture) is runs
