"""Tables and sentences fit the width there is, and hide the least important first."""

from __future__ import annotations

from io import StringIO
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tracetool.core.number_text import number
from tracetool.report.columns import show_columns
from tracetool.report.console import show_table
from tracetool.report.layout import Table, fit, rank_of
from tracetool.report.sentences import (
    compact,
    open_console,
    say,
    shorten_names,
    stated_width,
    with_short_names,
    wrapped,
)


def _printed(thing: Any, width: int) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=width, highlight=False, color_system=None)
    if isinstance(thing, pl.DataFrame):
        show_table(thing, console=console)
    else:
        console.print(thing)
    return out.getvalue().splitlines()


FRAME = pl.DataFrame(
    {
        "name": ["void at::native::kernel<float, " + "x" * 90 + ">(int)", "short", "(gap)"],
        "launches": [1, 20, 300],
        "time_ms": [1.5, 20.25, 300.0],
        "energy_j": [464.7, 20.1, 3.3],
        "energy_low_j": [430.0, 18.0, 2.9],
        "energy_high_j": [499.0, 22.0, 3.9],
        "share": [0.9, 0.08, 0.02],
        "agrees": ["yes", "inconclusive", ""],
        "power_w": [300.0, 200.0, 100.0],
        "basis": ["anchored", "anchored", "unanchored"],
    }
)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
def test_a_table_fits_and_its_first_columns_stay(width: int) -> None:
    lines = _printed(FRAME, width)
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    assert "energy [J]" in lines[0]
    assert len([line for line in lines if "(430..499)" in line]) == 1
    if width >= 60:
        assert "of run [%]" in lines[0]
    hidden = " ".join(" ".join(lines[4:]).split())
    for heading in ("time [ms]", "agrees", "power [W]", "launches", "basis"):
        assert heading in (lines[0] + hidden), "shown or named as hidden"
    if width >= 140:
        assert len(lines) == 4, "nothing is hidden"


def test_figures_are_right_aligned_and_names_left() -> None:
    lines = _printed(FRAME, 200)
    end = lines[0].index("power [W]") + len("power [W]")
    assert [line[end - 3 : end] for line in lines[1:]] == ["300", "200", "100"]
    assert all(not line.startswith(" ") for line in lines)


def test_the_name_gets_the_width_that_is_left() -> None:
    widths = [_printed(FRAME, w)[1].index("  ") for w in (80, 140, 240)]
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] == len(FRAME["name"][0])


def test_names_that_differ_stay_different() -> None:
    names = [f"ampere_bf16_s16816gemm_{'a' * 40}_stages_{i}_{'b' * 40}_tn" for i in range(9)]
    assert len(set(shorten_names(names, 20))) == 9
    far = [f"gemm_{'a' * 40}_{i}_{'b' * 40}_{j}_{'c' * 40}" for i in range(3) for j in range(3)]
    assert len(set(shorten_names(far, 20))) == 9, "some differ near the start, some near the end"
    told = with_short_names(f"{far[0]} became {far[1]}", far[:2], 20)
    assert len(set(told.split(" became "))) == 2 and len(told) <= 48


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=6), st.integers(4, 40))
def test_short_names_fit(names: list[str], width: int) -> None:
    names = ["".join(c for c in n if c.isprintable()) or "k" for n in names]
    assert all(cell_len(n) <= width for n in shorten_names(names, width))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(20, 120))
def test_columns_fit_or_are_hidden(lengths: list[int], width: int) -> None:
    table = Table("name")
    for i in range(len(lengths)):
        table.add_column(f"c{i}", justify="right" if i % 2 else "left")
    table.add_row("k" * 50, *("7" * n for n in lengths))
    shown, hidden = fit(table.columns, width)
    assert len(shown) + len(hidden) == len(table.columns)
    assert sum(w for _, w in shown) + 2 * (len(shown) - 1) <= width
    assert shown[0][0].heading == "name"


def test_a_name_loses_what_most_share() -> None:
    whole = "void at::native::(anonymous namespace)::norm_kernel<c10::BFloat16, float>(int, float*)"
    assert compact(whole) == "norm_kernel<c10::BFloat16, float>"
    assert shorten_names([whole], len(whole)) == [whole], "whole where it fits"
    assert compact("void f(int)").strip()
    assert compact("(gap)") == "(gap)"


def test_prose_is_never_cut() -> None:
    table = Table("format", "holds")
    table.add_column("made by", prose=True)
    command = "nsys export --type sqlite --output run.sqlite --force-overwrite true run.nsys-rep"
    table.add_row("Nsight", "trace", command)
    assert command in " ".join(" ".join(_printed(table, 60)).split())
    assert max(map(len, _printed(table, 60))) <= 60
    assert len(_printed(table, 140)) == 2


def test_a_column_without_entries_is_left_out() -> None:
    table = Table("goal")
    for heading in ("clock MHz", "cap W"):
        table.add_column(heading, justify="right")
    table.add_row("least energy", "900", "")
    assert _printed(table, 80)[0].split() == ["goal", "clock", "MHz"]


@pytest.mark.parametrize(("text", "width"), [("72", 72), ("5", 20), ("0", None), ("wide", None), ("", None)])
def test_columns_states_the_width(text: str, width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", text)
    assert stated_width(StringIO()) == width


def test_a_pipe_gets_sentences_whole_and_tables_of_100(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    sentence = "note: " + "word " * 40 + "end"
    say(open_console(), sentence)
    open_console().print(Table("x" * 300))
    first, second = capsys.readouterr().out.splitlines()
    assert first == sentence
    assert len(second) == 100
    assert wrapped(sentence, 100) != [sentence]


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1e-7, ">-0.000001"), (1e-7, "<0.000001"), (-0.0000006, "-0.000001"), (0.0, "0"), (-0.5, "-0.500000")],
)
def test_tiny_figures_are_below_the_last_decimal(value: float, text: str) -> None:
    assert number(value, places=6) == text


@pytest.mark.parametrize("unit", ["j", "pct", "ms"])
def test_rounding_errors_are_zero(unit: str) -> None:
    lines = _printed(pl.DataFrame({"name": ["a", "b"], f"change_{unit}": [-3e-15, 1.101]}), 80)
    assert lines[1].split()[-1] in ("0", "0.0")


def test_energy_ranks_before_share_and_time() -> None:
    order = ["energy [J]", "of run [%]", "time [ms]", "agrees", "power [W]", "basis"]
    assert sorted(order, key=rank_of) == order


def test_what_a_table_is_about_is_hidden_after_all_but_names_and_energy() -> None:
    table = Table("goal")
    for heading in ("share", "time ms", "energy J", "verdict", "slowdown"):
        table.add_column(heading, justify="right", about=heading == "slowdown")
    table.add_row("at most 5 % slower", *["1234567890"] * 5)
    for width, shown in ((46, "goal energy slowdown"), (34, "goal energy")):
        assert _printed(table, width)[0].replace(" J", "").split() == shown.split()
    out = StringIO()
    console = Console(file=out, width=70, highlight=False, color_system=None)
    show_table(FRAME, console=console, about=["power_w", "basis"])
    assert "power [W]  basis" in out.getvalue().splitlines()[0]
    assert "of run [%]" in out.getvalue().split("hidden columns")[1]


def test_energy_is_kept_before_share_and_time_where_little_fits() -> None:
    table = Table("part")
    for heading in ("energy J", "share", "time s"):
        table.add_column(heading, justify="right")
    table.add_row("idle: dependency", "0.0240 (0.0213..0.0266)", "93.6", "7.983")
    lines = _printed(table, 38)
    assert lines[0].split() == ["part", "energy", "J"]
    assert "(0.0213..0.0266)" in lines[1]


def test_the_text_that_names_rows_is_never_left_out() -> None:
    groups = pl.DataFrame({"clock_mhz": [1200.0], "family": ["gemm"], "energy_mj": [3.0], "bound": ["dram"]})
    ranks = {shown.heading: shown.rank for shown in show_columns(groups, {}, 30)}
    assert ranks["family"] == 0 < ranks["bound"]
    named = groups.with_columns(name=pl.lit("ampere_sgemm"))
    ranks = {shown.heading: shown.rank for shown in show_columns(named, {}, 30)}
    assert ranks["name"] == 0 < ranks["family"]


def test_a_heading_says_of_what_a_share_is() -> None:
    frame = pl.DataFrame({"name": ["a"], "share": [0.5], "time_share_pct": [2.0], "kernel_share_pct": [6.0]})
    headings = [column.heading for column in show_columns(frame, {}, 80)]
    assert headings == ["name", "of run [%]", "of time [%]", "of kernels [%]"]


def test_a_share_is_in_percent_beside_a_unit_of_work_too() -> None:
    """``attribute --by`` has a column of units of work: its shares read 0.3680 where 36.8 was printed."""
    frame = pl.DataFrame({"name": ["a"], "share": [0.368], "unit": ["token"], "work": [2.5]})
    share = next(column for column in show_columns(frame, {}, 80) if column.column == "share")
    assert (share.heading, share.cells) == ("of run [%]", ["36.8"])


def test_rates_have_their_unit_in_every_output() -> None:
    frame = pl.DataFrame({"tflops": [1.0], "tbps": [0.5], "flop_per_byte": [2.0], "roofline_share": [0.5]})
    headings = [column.heading for column in show_columns(frame, {}, 80)]
    assert headings == ["TFLOP/s", "TB/s", "FLOP/B", "of roof [%]"]


def test_a_figure_that_rounds_to_zero_has_no_interval_of_zeros() -> None:
    frame = pl.DataFrame(
        {"energy_j": [42000.0, 0.008], "energy_low_j": [41000.0, 0.007], "energy_high_j": [43000.0, 0.009]}
    )
    assert show_columns(frame, {}, 80)[0].cells == ["42.00 (41.0..43.0)", "<0.001"]
