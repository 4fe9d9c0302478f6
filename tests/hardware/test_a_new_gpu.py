"""One file adds a GPU, one more its architecture: toys in a copy are found, predicted and tested."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.package_copy import ROOT, check_covered, check_use, copy_package, run_tests

TOY = Path(__file__).with_name("toy")
#: What the rest of the program must know of it without a line of its own.
USE = """
import polars as pl
from tracetool.hardware.load import load_gpu, match_gpu
from tracetool.api.gpus import list_gpus, show_gpu
from tracetool.replay.predict import predict_table

assert match_gpu("NVIDIA Toy One 64GB") == "toy-one"
gpu = load_gpu("toy-one")
assert (gpu.vendor, gpu.warp_size, gpu.numbers["warp_size"].kind) == ("nvidia", 32, "measured")
assert gpu.sensor().window_s == 1.0
assert "toy-one" in list_gpus()["name"]
assert show_gpu("toy-one").architecture.targets == ("sm_999",)
table = pl.DataFrame({"op": ["gemm"], "dtype": ["bf16"], "m": [8192], "n": [8192], "k": [8192]})
frame = predict_table(table, "toy-one", [1900]).frame
least_us = 2 * 8192**3 / (100 * 2048 * 1900.0)
assert least_us < frame["duration_us"][0] < 2 * least_us
assert 50 < frame["power_w"][0] < 600
"""
#: Tests over every GPU or architecture.
OVER_ALL = (
    "tests/hardware/test_gpu_files.py",
    "tests/hardware/test_peaks.py",
    "tests/hardware/test_architectures.py",
    "tests/model/test_timing.py",
    "tests/model/test_launch_limits.py",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of package and tests with a toy GPU and its architecture in it."""
    root = copy_package(tmp_path_factory.mktemp("copy"))
    shutil.copy(TOY / "architecture.toml", root / "tracetool/hardware/architectures/toy.toml")
    shutil.copy(TOY / "gpu.toml", root / "tracetool/hardware/gpus/toy-one.toml")
    return root


def test_a_toy_gpu_is_found_and_predicted(copy: Path) -> None:
    check_use(copy, USE)


def test_the_tests_over_every_gpu_cover_it(copy: Path) -> None:
    done = run_tests(copy, *OVER_ALL)
    assert done.returncode == 0, done.stdout[-3000:]
    for test, toy in (
        ("test_every_number_names_a_known_source", "toy-one"),
        ("test_a_model_is_plausible", "toy-one"),
        ("test_aliases_lead_back", "toy-one"),
        ("test_units_times_rate_times_clock_is_the_published_peak", "toy-one"),
        ("test_a_gpu_does_not_repeat_its_architecture", "toy-one"),
        ("test_an_architecture_is_sourced_and_plausible", "toy"),
    ):
        check_covered(done, f"{test}[{toy}", "")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('unit = "MHz"', 'unit = "stone"', "not in the closed list"),
        ("value = 48.6", "value = 97.2", "test_units_times_rate_times_clock_is_the_published_peak"),
    ],
)
def test_a_fault_in_the_file_is_found(copy: Path, old: str, new: str, fault: str) -> None:
    file = copy / "tracetool/hardware/gpus/toy-one.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace(old, new, 1), "utf-8")
    try:
        done = run_tests(copy, *OVER_ALL[:2])
    finally:
        file.write_text(text, "utf-8")
    assert done.returncode != 0
    assert fault in done.stdout + done.stderr


def test_the_worked_example_is_one_file() -> None:
    """The RTX 5090 is named by its own file alone."""
    named = {
        path.name
        for path in (ROOT / "tracetool").rglob("*")
        if path.suffix in (".py", ".toml") and "5090" in path.read_text("utf-8")
    }
    assert named == {"rtx-5090.toml"}
