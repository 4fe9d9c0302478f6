"""Every failure has an exit code and prints as one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracetool.core.errors import BadInput, CheckFailed, MissingPart, TracetoolError


def test_exit_codes_are_the_promised_ones() -> None:
    assert (CheckFailed.exit_code, BadInput.exit_code, MissingPart.exit_code) == (1, 2, 3)
    assert all(issubclass(e, TracetoolError) for e in (CheckFailed, BadInput, MissingPart))


def test_the_line_names_the_file_the_fault_and_the_mend() -> None:
    assert BadInput.in_file("a.csv", "no rows", "log longer").line() == "a.csv: no rows (log longer)"
    assert BadInput("broken").line() == "broken"


@given(st.text(), st.text())
def test_a_line_is_one_line_of_printable_characters(message: str, fix: str) -> None:
    line = BadInput(message, fix).line()
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


def test_a_terminal_is_not_steered_by_a_file_name() -> None:
    assert "\x1b" not in BadInput.in_file("\x1b[2J\x07evil.csv", "bad").line()
