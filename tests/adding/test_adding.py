"""What CONTRIBUTING says of adding a part, replayed: a toy of each in one copy, and the tests over all members.

Each folder of ``toys/`` is one addition: the files it adds, where they stand in the checkout, and in
``edits.toml`` the lines it adds to files that are there and the pages that a generator then writes.
"""

# ruff: noqa: E501 - names of tests are long

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOYS = Path(__file__).with_name("toys")
#: Each addition: how CONTRIBUTING calls it, and the tests over all members that must run over its toy, with how
#: the toy's case begins ("" for a test over the whole list).
ADDITIONS: dict[str, tuple[str, dict[str, str]]] = {
    "gpu": (
        "GPU",
        {
            "hardware/test_gpu_files.py::test_every_number_names_a_known_source": "[toy]",
            "hardware/test_gpu_files.py::test_a_model_is_plausible": "[toy]",
            "hardware/test_gpu_files.py::test_aliases_lead_back": "[toy]",
            "hardware/test_peaks.py::test_units_times_rate_times_clock_is_the_published_peak": "[toy]",
            "hardware/test_architectures.py::test_a_gpu_does_not_repeat_its_architecture": "[toy]",
            "model/test_timing.py::test_every_gpu_times_every_family": "[toy]",
        },
    ),
    "architecture": (
        "GPU architecture",
        {"hardware/test_architectures.py::test_an_architecture_is_sourced_and_plausible": "[toy_chip]"},
    ),
    "family": (
        "kernel family",
        {
            "families/test_needs.py::test_a_trace_states_a_shape_exactly_where_the_counter_can_count": "[toy]",
            "families/test_needs.py::test_a_table_row_of_the_columns_it_needs_can_be_counted": "[toy]",
            "families/test_laws.py::test_a_family_chooses_among_its_laws": "[toy]",
            "families/test_laws.py::test_a_law_is_used_and_its_parent_is_a_law": "[toy]",
            "families/test_count.py::test_counts_are_finite_and_useful_work_is_issued": "[toy]",
            "families/test_count.py::test_shares_of_unknown_shapes_are_a_whole": "[toy]",
            "model/test_residency.py::test_no_more_is_missed_than_is_moved": "[toy]",
            "model/test_timing.py::test_priors_lie_within_their_bounds": "[toy]",
            "kernels/test_grammars.py::test_families_are_the_closed_list": "",
            "kernels/test_grammars.py::test_the_page_on_names_covers_every_grammar_and_column": "",
            "docs/test_families.py::test_a_law_links_its_page_and_the_page_its_code": "[toy]",
            "docs/test_families.py::test_every_law_has_a_page": "",
            "docs/test_families.py::test_a_page_states_every_gpu_and_coefficient": "[streams.md-",
        },
    ),
    "implementation": (
        "kernel of a library",
        {
            "families/test_implementations.py::test_a_file_states_coefficients_of_its_laws_in_their_bounds_and_units": "[toylib-toy-gemm]",
            "docs/test_families.py::test_a_page_states_every_gpu_and_coefficient": "[gemm.md-",
            "docs/test_pages.py::test_the_page_of_calibrations_is_what_the_files_of_the_fits_state": "",
        },
    ),
    "grammar": (
        "kernel-name grammar",
        {
            "kernels/test_grammars.py::test_examples_prove_the_grammar": "[Toy library",
            "kernels/test_grammars.py::test_states_its_source_and_tokens": "[Toy library",
            "kernels/test_grammars.py::test_rules_name_families_and_no_whole_kernel": "[Toy library",
            "kernels/test_grammars.py::test_the_page_on_names_covers_every_grammar_and_column": "",
        },
    ),
    "trace_format": (
        "trace format",
        {
            "sources/test_every_format.py::test_every_format_is_described_and_has_a_sample": "",
            "sources/test_every_format.py::test_the_page_of_formats_is_the_formats": "",
            "sources/test_every_format.py::test_a_trace_is_told_by_content_alone": "[toy-",
            "sources/test_every_format.py::test_a_trace_gives_its_kernels_to_the_nanosecond": "[toy-",
            "sources/test_every_format.py::test_every_prefix_gives_a_run_or_one_line": "[toy-",
            "damaged/test_fuzz_formats.py::test_every_format_is_changed_and_counted": "",
            "damaged/test_fuzz_formats.py::test_a_changed_file_is_a_run_or_one_line": "[toy-",
        },
    ),
    "telemetry_format": (
        "telemetry format",
        {
            "sources/test_every_format.py::test_every_format_is_described_and_has_a_sample": "",
            "sources/test_every_format.py::test_the_page_of_formats_is_the_formats": "",
            "sources/test_every_format.py::test_a_log_gives_watts_clocks_and_counters_at_their_times": "[toy_log-",
            "sources/test_every_format.py::test_a_damaged_log_gives_readings_or_one_line": "[toy_log-",
            "damaged/test_fuzz_formats.py::test_every_format_is_changed_and_counted": "",
            "damaged/test_fuzz_formats.py::test_a_changed_file_is_a_run_or_one_line": "[toy_log-",
        },
    ),
    "renderer": (
        "renderer",
        {"report/test_save.py::test_every_output_takes_hostile_names_and_odd_numbers": "[.toy]"},
    ),
    "model_architecture": (
        "model architecture",
        {
            "forecast/test_architectures.py::test_an_architecture_claims_types_of_its_own": "[toy_decoder]",
            "forecast/test_architectures.py::test_a_configuration_without_sizes_is_a_model_or_names_the_first": "[toy_decoder]",
        },
    ),
    "command": (
        "command",
        {
            "cli/test_every_command.py::test_help_has_an_example": "[toys]",
            "cli/test_every_command.py::test_every_option_is_explained": "[toys]",
            "cli/test_every_command.py::test_every_command_has_the_usual_options": "[toys]",
            "cli/test_every_command.py::test_an_unknown_option_is_usage": "[toys]",
            "cli/test_documents.py::test_every_command_has_a_schema": "[toys]",
            "cli/test_every_command.py::test_help_of_the_whole_names_every_command": "",
            "api/test_same_document.py::test_a_command_prints_the_document_of_its_function": "[toys]",
            "api/test_same_document.py::test_every_public_name_is_typed_and_loads": "",
        },
    ),
}  # fmt: skip


def _copy(root: Path) -> Path:
    """Copy what the tests over all members read into a folder and return it."""
    skipped = shutil.ignore_patterns("*.tracetool", "samples", "adding")  # what is compiled goes along
    for folder in ("tracetool", "tests", "schemas", "docs", "sample_traces"):
        shutil.copytree(ROOT / folder, root / folder, ignore=skipped)
    for name in ("pyproject.toml", "conftest.py", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / name, root)
    shutil.copy(TOYS / "in_use.py", root / "tests/test_toys_in_use.py")
    return root


def _add(addition: str, root: Path) -> set[str]:
    """Add a toy to a copy; return the files that are new or have changed, but for those a generator will write."""
    touched = set()
    for source in (p for p in sorted((TOYS / addition).rglob("*")) if p.is_file() and p.name != "edits.toml"):
        file = source.relative_to(TOYS / addition).as_posix()
        assert not (root / file).exists(), f"{file} is there already"
        (root / file).parent.mkdir(exist_ok=True)
        shutil.copy(source, root / file)
        touched.add(file)
    for edit in _edits(addition).get("edit", []):
        text, place = (root / edit["file"]).read_text("utf-8"), edit.get("after", "")
        assert text.count(place) == 1 or not place, f"{edit['file']} no longer says {place!r} once"
        parts = text.partition(place) if place else (text, "", "")
        (root / edit["file"]).write_text(parts[0] + parts[1] + edit["text"] + parts[2], "utf-8")
        touched.add(edit["file"])
    return touched


def _edits(addition: str) -> dict[str, list[dict[str, str]]]:
    file = TOYS / addition / "edits.toml"
    return tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}


def _run(copy: Path, *arguments: str, check: bool = True) -> str:
    """Run Python in the copy, which stands before the checkout that is installed; return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "TRACETOOL_FUZZ": "10",
    }
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0 or not check, ended.stdout[-2000:] + ended.stderr[-2000:]
    return ended.stdout


def _state(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, set[str]], str]:
    """Return the files that each toy touched in one copy of the package, and the lines of the tests over all members."""
    copy = _copy(tmp_path_factory.mktemp("copy"))
    touched = {addition: _add(addition, copy) for addition in ADDITIONS}
    generators = {w["by"] for addition in ADDITIONS for w in _edits(addition).get("written", [])}
    before = _state(copy / "docs")
    _run(
        copy,
        "-c",
        "\n".join(f"import runpy; runpy.run_path({g!r}, run_name='__main__')" for g in sorted(generators)),
    )
    after = _state(copy / "docs")
    rewritten = {f"docs/{name}" for name, text in after.items() if before.get(name) != text}
    for addition in ADDITIONS:
        written = {w["file"] for w in _edits(addition).get("written", [])}
        assert written <= rewritten, f"{addition}: nothing was written to {written - rewritten}"
        touched[addition] |= written
    assert rewritten <= set().union(*touched.values())

    tests = {test: case for _, covered in ADDITIONS.values() for test, case in covered.items()}
    files = sorted({f"tests/{test.split('::')[0]}" for test in tests})
    whole = [test.split("::")[1] for test, case in tests.items() if not case or "toy" not in case.lower()]
    keep = " or ".join(["toy", *whole])
    options = ("-m", "pytest", "-vv", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", keep)
    return touched, _run(copy, *options, "tests/test_toys_in_use.py", *files, check=False)


@pytest.mark.parametrize("addition", ADDITIONS)
def test_every_test_over_all_members_covers_the_toy(
    addition: str, replayed: tuple[dict[str, set[str]], str]
) -> None:
    lines = replayed[1].splitlines()
    for test, case in ADDITIONS[addition][1].items():
        ran = [line for line in lines if line.startswith(f"tests/{test}{case}")]
        assert ran, f"{test} did not run over the toy\n{replayed[1][-3000:]}"
        assert all("PASSED" in line for line in ran), replayed[1][-5000:]


def test_the_rest_of_the_program_uses_every_toy(replayed: tuple[dict[str, set[str]], str]) -> None:
    ran = re.findall(r"^tests/test_toys_in_use.py::(\w+) (\w+)", replayed[1], re.MULTILINE)
    assert len(ran) == (TOYS / "in_use.py").read_text("utf-8").count("\ndef test_")
    assert {state for _, state in ran} == {"PASSED"}, replayed[1][-5000:]
    assert re.search(r"\d+ passed", replayed[1].splitlines()[-1])
    assert "failed" not in replayed[1].splitlines()[-1]


def _stated() -> dict[str, list[str]]:
    """Return the files that CONTRIBUTING states for each addition, as it writes them."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = re.findall(r"^\| an? ([\w -]+) \| ((?:`[^`]+`(?:, )?)+) \|$", text, re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", files) for name, files in rows}


def test_contributing_states_the_files_of_each(replayed: tuple[dict[str, set[str]], str]) -> None:
    stated = _stated()
    assert set(stated) == {name for name, _ in ADDITIONS.values()}
    for addition, (name, _) in ADDITIONS.items():
        patterns = [re.sub(r"<\w+>", "[^/]+", re.escape(file).replace(r"\<", "<").replace(r"\>", ">"))
                    for file in stated[name]]  # fmt: skip
        touched = replayed[0][addition]
        unstated = {file for file in touched if not any(re.fullmatch(p, file) for p in patterns)}
        assert not unstated, f"CONTRIBUTING does not state {unstated} for a {name}"
        unneeded = [p for p in patterns if not any(re.fullmatch(p, file) for file in touched)]
        assert not unneeded, f"a {name} did not need {unneeded}"


def test_the_worked_example_is_one_file() -> None:
    """The RTX 5090 is named by its own file alone; files of GPUs that are called after it are their own."""
    named = {
        path.name
        for path in (ROOT / "tracetool").rglob("*")
        if path.suffix in (".py", ".toml") and "5090" in path.read_text("utf-8")
    }
    assert {name for name in named if not name.startswith("rtx-5090-")} == {"rtx-5090.toml"}
