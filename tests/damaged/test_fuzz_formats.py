"""Every format, its samples changed in many ways that leave the file valid: a run, or one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damaged.counts import COUNTS
from tests.damaged.fuzz import (
    CASES,
    FIRST,
    Case,
    accounted,
    changed_sample,
    examples_of,
    numbers,
    read_changed,
)
from tracetool.sources.detect import all_formats


def test_every_format_is_changed_and_counted() -> None:
    """A new format is covered by its sample alone; its rows must be counted too."""
    assert {c.format for c in CASES} == set(all_formats()) - {"nsys_rep"}  # that one needs a program to read
    assert {n for n, f in all_formats().items() if f.holds == "trace"} - {"nsys_rep"} == set(COUNTS)


@pytest.mark.timeout(4000)
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_a_changed_file_is_a_run_or_one_line(case: Case, tmp_path: Path) -> None:
    faults: dict[str, str] = {}
    refused, number = 0, FIRST
    for number in numbers(examples_of(case)):
        path, steps = changed_sample(case, number, tmp_path / "sample")
        held = COUNTS[case.format](path) if case.holds == "trace" else None
        outcome = read_changed(case, path, steps, tmp_path / "run")
        refused += outcome.refused is not None
        fault = outcome.fault
        if not fault and outcome.run and held is not None:
            accepted, rejected, left_out = accounted(outcome.run)
            if not accepted <= held <= accepted + rejected and not left_out:
                fault = f"{held} activities in the file, {accepted} read, {rejected} rejected"
        if fault:  # one of a kind is enough to see it
            faults.setdefault(fault.split(": ")[0], f"example {number}: {steps}\n  {fault}")
    tried = f"{number - FIRST + 1} of {examples_of(case)} examples"
    print(f"{case.name}: {tried}, {refused} refused, {len(faults)} kinds of faults")
    assert not faults, "\n" + "\n".join(faults.values())
