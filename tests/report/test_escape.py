"""Names from untrusted input change nothing in any output."""

from __future__ import annotations

import html
import json
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.hostile import HOSTILE
from tracetool.core import escape

COMMAND_LINE = re.compile(r"^\s*::|##(?:vso)?\[", re.IGNORECASE | re.MULTILINE)
texts = st.text(max_size=80) | st.sampled_from(HOSTILE)
COMMAND = re.compile(r"^\s*::|##\[|::(error|warning|add-mask|stop-commands|set-output|group)", re.IGNORECASE)


@given(texts)
def test_one_name_is_one_printable_line_everywhere(text: str) -> None:
    for write in (
        escape.terminal,
        escape.markdown,
        escape.html,
        escape.csv,
        escape.command_value,
        escape.name,
    ):
        made = write(text)
        assert made.isprintable()


@given(texts)
def test_no_runner_takes_a_name_for_a_command(text: str) -> None:
    assert not COMMAND.search(escape.terminal(text))


@given(texts)
def test_markup_is_text(text: str) -> None:
    made = escape.html(text)
    assert not set(made) & set("<>\"'")
    assert html.unescape(made) == escape.visible(text)


@given(texts)
def test_json_in_a_script_is_the_same_json(text: str) -> None:
    made = escape.script(json.dumps({"name": text}, ensure_ascii=False))
    assert "<" not in made
    assert ">" not in made
    assert json.loads(made) == {"name": text}


@given(texts)
def test_a_markdown_cell_has_no_bare_bar_and_no_open_code_span(text: str) -> None:
    made = escape.markdown(text)
    assert not re.search(r"(?<!\\)\|", made)
    if made.startswith("`"):
        fence = re.match("`+", made)
        assert fence
        assert made.endswith(fence.group())
        assert fence.group() not in made[len(fence.group()) : -len(fence.group())].split("`")


@given(texts.filter(lambda text: "`" not in text))
def test_a_markdown_line_shows_the_text_itself(text: str) -> None:
    made = escape.markdown(text, cell=False)
    shown = escape.name(text)
    assert made in (shown, f"`{shown}`", f"` {shown} `") or "##" in shown


@given(texts)
def test_no_spreadsheet_runs_a_cell(text: str) -> None:
    made = escape.csv(text)
    assert (
        not made
        or made[0] not in "=+@\t\r\uff1d\uff0b\uff0d\uff20"
        or re.fullmatch(r"[+-]?[\d.eE+-]+", made)
        or len(made) == 1
    )


@given(texts)
def test_a_csv_cell_comes_back(text: str) -> None:
    shown = escape.visible(text)
    if not shown.startswith("'"):
        assert escape.from_csv(escape.csv(text)) == shown


@given(texts, st.booleans())
def test_lines_hold_nothing_a_runner_or_terminal_obeys(text: str, styled: bool) -> None:
    made = escape.lines(text, styled=styled)
    assert not COMMAND_LINE.search(re.sub(r"\x1b\[[0-9;]*m", "", made))
    if not styled:
        assert made.replace("\n", "").isprintable()


@given(texts)
def test_a_document_for_a_log_is_the_same_document(text: str) -> None:
    made = escape.json_log(json.dumps({"name": text}, ensure_ascii=False))
    assert json.loads(made) == {"name": text}
    assert made.isprintable()
    assert "##[" not in made


@given(st.text(max_size=400), st.integers(4, 200))
def test_shortened_text_keeps_head_and_tail(text: str, width: int) -> None:
    made = escape.shorten(text, width)
    assert len(made) <= width
    if len(text) > width:
        cuts = [place for place, letter in enumerate(made) if letter == "…"]  # the text may hold some itself
        assert any(text.startswith(made[:cut]) and text.endswith(made[cut + 1 :]) for cut in cuts)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_long_name_costs_little_room(text: str) -> None:
    assert len(escape.name(text)) <= escape.NAME_WIDTH


def test_each_distinct_name_is_escaped_once() -> None:
    seen: list[str] = []

    def change(text: str) -> str:
        seen.append(text)
        return text.upper()

    made = escape.map_distinct(pl.Series(["a", "b", "a", None] * 10), change)
    assert made.to_list() == ["A", "B", "A", None] * 10
    assert sorted(seen) == ["a", "b"]
