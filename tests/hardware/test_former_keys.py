"""Calibration files written under former names of coefficients are read as files of today."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from tracetool.hardware.coefficient_files import calibrated_gpus, key_of_today, parse_calibration
from tracetool.hardware.load import load_gpu
from tracetool.model.time_files import merged

FORMER = {
    "k_step_cycles": "slab_clk",
    "transpose_cycles": "turn_clk",
    "launch_quantized": "launch_quantised",
    "quantize_factor": "quantise_factor",
    "[memory_efficiency]": "[reach]",
}


def delivered(name: str) -> str:
    return (resources.files("tracetool.hardware") / "calibrations" / name).read_text("utf-8")


def formerly(text: str) -> str:
    """Return a calibration as it was written before."""
    for today, before in FORMER.items():
        text = re.sub(rf"(?m)^{re.escape(today)}", before, text)
    return re.sub(r"(?m)^(\w+)_efficiency =", r"\1{} =".format("_reach"), text)


@pytest.mark.parametrize("kind", ["time", "power"])
def test_a_file_of_former_names_reads_as_the_one_of_today(kind: str) -> None:
    changed = 0
    for gpu in calibrated_gpus(kind):
        text = delivered(f"{gpu}.{kind}.toml")
        changed += formerly(text) != text
        assert parse_calibration("x", formerly(text)).numbers == parse_calibration("x", text).numbers
    assert changed >= 2


def test_coefficients_of_a_former_file_are_used() -> None:
    gpu = load_gpu("h100-sxm")
    text = delivered("h100-sxm.time.toml")
    today, before = (merged(gpu, parse_calibration("x", t), []) for t in (text, formerly(text)))
    assert today.coefficients == before.coefficients
    assert any("k_step_cycles" in law for law in today.coefficients.values())


def test_no_delivered_file_holds_a_former_name() -> None:
    for kind in ("time", "power"):
        for gpu in calibrated_gpus(kind):
            keys = re.findall(r"(?m)^(\w+) =", delivered(f"{gpu}.{kind}.toml"))
            assert keys
            for key in keys:
                assert key_of_today(key) == key, f"{gpu}.{kind}: {key}"
