"""Lists and ranges of values: the cases they make, the fronts and the best of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.forecast.test_forecast import CONFIG
from tracetool.cli.app import run as command_line
from tracetool.core.number_text import number
from tracetool.forecast.grid import expand, several

ASKED: dict[str, Any] = {
    "gpu": "h100-sxm",
    "isl": 400,
    "osl": 400,
    "bs": "1,8,64",
    "clock_mhz": "900:1980:540",
}


@pytest.fixture(scope="module")
def grid() -> tt.ForecastResult:
    return tt.forecast(CONFIG, tp=[1, 2], **ASKED)


@pytest.mark.parametrize(
    ("text", "values"),
    [("4", ["4"]), ("1,8", ["1", "8"]), ("900:1000:50", [900, 950, 1000]), ("0.1:0.5:0.2", [0.1, 0.3, 0.5]),
     ("1,2:4:2", ["1", 2, 4]), ("1,1", ["1"])],
)  # fmt: skip
def test_texts_are_taken_apart(text: str, values: list[Any]) -> None:
    assert several("bs", text) == pytest.approx(values) if ":" in text and "," not in text else values


@pytest.mark.parametrize(
    "text", ["", "1,,2", "5:1:1", "1:5:0", "1:5", "1:2:3:4", "a:b:c", "1:1e9:1", "nan:2:1"]
)
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(tt.BadInput, match=r"^bs: "):
        several("bs", text)


def test_too_many_cases_are_refused() -> None:
    with pytest.raises(tt.BadInput, match=r"1000 x clock_mhz 1000 are 1000000 cases"):
        expand({"bs": "1:1000:1", "clock_mhz": "1001:2000:1"})


def test_every_combination_is_forecast_as_it_is_alone(grid: tt.ForecastResult) -> None:
    assert grid.frame.height == 2 * 3 * 3
    row = grid.frame.filter(tp=2, bs=8.0, clock_mhz=1440.0).to_dicts()[0]
    alone = tt.forecast(CONFIG, **{**ASKED, "tp": 2, "bs": 8, "clock_mhz": 1440}).frame.to_dicts()[0]
    for name in ("itl_ms", "power_w", "energy_per_token_j", "energy_per_token_j_high", "memory_gib"):
        assert row[name] == pytest.approx(alone[name], rel=1e-9), name
    assert row["throughput_per_gpu"] == pytest.approx(row["tokens_per_s"] / 2)


def test_no_case_beats_one_on_a_front(grid: tt.ForecastResult) -> None:
    frame = grid.frame
    energy = frame["energy_per_token_j"].to_numpy()
    for mark, cost in (
        ("pareto_latency", frame["itl_ms"].to_numpy()),
        ("pareto_throughput", 1 / frame["throughput_per_gpu"].to_numpy()),
    ):
        beaten = [bool(np.any((cost < c) & (energy < e))) for c, e in zip(cost, energy, strict=True)]
        on_front = frame[mark].to_numpy()
        assert on_front.any()
        assert not np.any(on_front & beaten)


def test_goals_are_the_least_of_their_kind(grid: tt.ForecastResult) -> None:
    frame = grid.frame.with_columns(edp=pl.col("energy_per_token_j") * pl.col("itl_ms"))
    best = {row["goal"]: row for row in grid.best.to_dicts()}
    tie = 1.005  # no sensor separates them
    assert best["least energy"]["energy_per_token_j"] <= tie * frame["energy_per_token_j"].min()
    one = best["least energy x ITL"]
    assert one["energy_per_token_j"] * one["itl_ms"] <= tie * frame["edp"].min()
    quick = frame.filter(pl.col("itl_ms") <= 1.05 * frame["itl_ms"].min())
    one = best["least energy, ITL within 5 %"]
    assert one["energy_per_token_j"] <= tie * quick["energy_per_token_j"].min()
    assert one["itl_ms"] <= 1.05 * frame["itl_ms"].min()


def test_a_case_that_cannot_run_spoils_no_other() -> None:
    result = tt.forecast(CONFIG, gpu="h100-sxm", tp="1,5", bs=8)
    assert result.frame["error"].is_null().to_list() == [True, False]
    assert result.frame["pareto_latency"].to_list() == [True, False]
    assert "1 of 2 cases" in result.notes[0]
    with pytest.raises(tt.BadInput, match="none of 2 cases"):
        tt.forecast(CONFIG, gpu="h100-sxm", tp="5,7", bs=8)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({"mode": "serve", "isl": 32768, "osl": 512, "bs": [10, 13, 18]}, [True, True, False]),
        ({"mode": "train", "gpus": 8, "gbs": 128, "seq": 8192, "bs": 1, "zero": [1, 3]}, [False, True]),
    ],
)
def test_no_batch_beyond_the_memory_is_best(asked: dict[str, Any], fits: list[bool]) -> None:
    result = tt.forecast(CONFIG, gpu="h100-sxm", **asked)
    marked = pl.any_horizontal("pareto_latency", "pareto_throughput", pl.col("goals") != "")
    assert (
        result.frame.select((pl.col("bs") <= pl.col("largest_batch")).alias("fits"))["fits"].to_list() == fits
    )
    assert not result.frame.filter(marked & (pl.col("bs") > pl.col("largest_batch"))).height
    assert f"1 of {len(fits)} cases do not fit the memory" in result.notes[-1]


def test_where_no_batch_fits_the_cases_are_compared_all_the_same() -> None:
    result = tt.forecast(CONFIG, gpu="h100-sxm", mode="train", gpus=8, gbs=128, seq=8192, bs=[4, 8])
    assert result.best.height
    assert "compared all the same" in result.notes[-1]


@pytest.mark.parametrize(
    ("words", "name"),
    [("--bs 1,x", "bs"), ("--bs 1 --clock 5:1:1", "clock_mhz"), ("--gpu h100-sxm,gtx-9999", "gtx-9999"),
     ("--mode prefill,serve", "mode"), ("--bs=", "--bs"), ("--bs 1,8 --slowdown -1", "--slowdown")],
)  # fmt: skip
def test_a_slip_of_the_pen_is_one_line(
    words: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), "utf-8")
    assert command_line(["forecast", str(config), "--gpu", "h100-sxm", *words.split()]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert name in printed.err


def test_the_table_fits_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    # a short path: the line that names the written file is as long as its path
    monkeypatch.chdir(tmp_path)
    config, out = Path("config.json"), Path("points.parquet")
    config.write_text(json.dumps(CONFIG), "utf-8")
    words = [
        "--gpu",
        "h100-sxm,b200-sxm",
        "--tp",
        "1,2",
        "--clock",
        "900:1980:15",
        "--bs",
        "64",
        "-o",
        str(out),
    ]
    assert command_line(["forecast", str(config), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 80
    assert any("J/token (90 %)" in line for line in lines)
    assert pl.read_parquet(out).height == 2 * 2 * 73


def test_notes_of_all_cases_are_stated_once() -> None:
    notes = tt.forecast(CONFIG, gpu="h100-sxm", bs=[1, 8], seq=64).notes
    assert notes.count("without effect on --mode serve: seq") == 1


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_pages_state_every_interval_and_no_empty_column(
    suffix: str, grid: tt.ForecastResult, tmp_path: Path
) -> None:
    text = grid.save(tmp_path / f"cases{suffix}").read_text("utf-8")
    row = grid.frame.row(0, named=True)
    for name in ("ttft_ms", "itl_ms", "power_w", "memory_gib"):
        ends = f"({number(row[f'{name}_low'], 3)}..{number(row[f'{name}_high'], 3)})"
        assert ends in text, name
    assert "step [ms]" not in text
    assert "time to first token [ms]" in text
    assert "throughput of one GPU [1/s]" in text


def test_a_page_names_the_one_model_once_and_each_goal_in_one_piece(tmp_path: Path) -> None:
    cases = tt.forecast("llama-3.1-8b", gpu="h100-sxm,b200-sxm", isl=400, osl=400, bs="16,64")
    text = cases.save(tmp_path / "cases.md").read_text("utf-8")
    assert text.count("llama-3.1-8b") == 1
    assert "| ITL within 5 %" in text
    assert "least energy, ITL" not in text


@pytest.mark.parametrize(("width", "explained"), [("60", None), ("80", "alone"), ("110", "in the title")])
def test_marks_are_explained_where_they_are_shown(
    width: str, explained: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    words = ["--gpu", "h100-sxm,b200-sxm", "--bs", "16,64"]
    assert command_line(["forecast", "llama-3.1-8b", *words]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    marks = "L: unbeaten in energy and ITL, T: in energy and throughput, *: best of a goal"
    assert (marks in first) == (explained == "in the title")
    assert (marks in others) == (explained == "alone")
    assert any("L *" in line for line in others) == (explained is not None)


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_the_page_of_one_case_states_what_its_console_does(suffix: str, tmp_path: Path) -> None:
    one = tt.forecast("llama-3.1-8b", gpu="h100-sxm", isl=400, osl=400, bs=16)
    text = one.save(tmp_path / f"one{suffix}").read_text("utf-8")
    for said in (
        "energy per output token",
        "time between tokens",
        "90 % interval",
        "mlp.gate_up_proj",
        "covered",
    ):
        assert (said in text) == (said != "covered"), said


def test_a_table_of_models_shows_intervals_of_energy_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    cases = pl.DataFrame(
        {"model": ["llama-3.1-8b", "qwen3-8b"], "gpu": ["h100-sxm", "b200-sxm"], "bs": [16, 16]}
    )
    tt.forecast(cases, isl=400, osl=400).show()
    head, row = capsys.readouterr().out.splitlines()[1:3]
    assert head.index("energy per token") < head.index("ttft")
    assert re.search(r"llama-3.1-8b +h100-sxm +\d+\.\d \(\d+\.\.\d+\)", row)


def test_a_case_that_is_best_for_several_goals_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    tt.forecast("llama-3.1-8b", gpu="h100-sxm", mode="decode", isl=400, osl=100, bs="8,64").show()
    said = capsys.readouterr().out
    assert "the same case is best for least energy" in " ".join(said.split())
    assert said.count("the same case is best for") == 1
