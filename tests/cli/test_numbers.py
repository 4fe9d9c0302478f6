"""Every option that takes a number, told numbers that are none."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tests.cli.test_every_command import LEAVES
from tests.damaged.small_run import small_run
from tracetool.cli.app import run as command

#: Options that take a number or a text in per cent.
_SHARES = ("--slowdown",)


def _numeric_options() -> Iterator[tuple[tuple[str, ...], str, bool]]:
    for words, leaf in LEAVES:
        annotations = get_type_hints(leaf.callback)  # type: ignore[attr-defined]
        for param in leaf.params:  # type: ignore[attr-defined]
            number_types = {int, float} & {
                annotations.get(param.name),
                *get_args(annotations.get(param.name)),
            }
            if number_types or (param.opts[0] in _SHARES and words != ("record",)):
                yield words, param.opts[0], float in number_types


OPTIONS = list(_numeric_options())
IDS = [" ".join([*words, option]) for words, option, _ in OPTIONS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("numbers"))


def test_the_options_are_met() -> None:
    """The list comes from the commands themselves: an empty one would prove nothing."""
    met = {(words[0], option) for words, option, _ in OPTIONS}
    assert met >= {
        ("predict", "--power-cap"),
        ("sweep", "--slowdown"),
        ("record", "--repeat"),
        ("report", "--clock"),
    }


def _arguments(words: tuple[str, ...], run: Path, place: Path) -> list[str]:
    given: dict[str, list[Any]] = {
        "baseline add": [place / "store", run],
        "baseline prune": [place],
        "record": ["-o", place / "r.tracetool", "--", "true"],
        "report": [run, "-o", place / "r.html"],
    }
    return [str(a) for a in given.get(" ".join(words), [run])]


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "-1e308", "1e308", "-1", "1e999", "1e5000", "", "\u0661\u0662e308"]
)
@pytest.mark.parametrize(("words", "option", "real"), OPTIONS, ids=IDS)
def test_a_number_that_is_none_is_one_line(
    words: tuple[str, ...], option: str, real: bool, value: str, run: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    if value == "-1" and option in ("--temperature", "--ambient"):
        pytest.skip("a cold machine hall")
    code = command([*words, f"{option}={value}", *_arguments(words, run, tmp_path)])
    out, err = capsys.readouterr()
    assert code == 2, (out, err)
    assert len(err.splitlines()) == 1, err
    assert err.startswith("error: ")
    assert "internal fault" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command_name", ["predict", "sweep"])
@pytest.mark.parametrize(
    ("option", "value"),
    [("--clock", v) for v in ("1", "0", "-1", "inf", "nan", "1e308", "600:1400:0", "600:1400:-15", "600:1400:1e-9",
                              "1400:600:15", "600:inf:15", "1:1400:1", "::", "600:1400:15:1", "1200,", "9" * 400)]
    + [("--power-cap", v) for v in ("inf", "nan", "-1", "0", "1e9", "1")]
    + [("--mem-clock", v) for v in ("inf", "nan", "-1", "0", "1", "1e5")],
)  # fmt: skip
def test_operating_points_no_gpu_has_are_refused(
    command_name: str, option: str, value: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command([command_name, str(run), f"{option}={value}"])
    out, err = capsys.readouterr()
    assert code == 2, (out, err)
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert "internal fault" not in err


@pytest.mark.parametrize("value", ["gemm=inf", "gemm=nan", "gemm=-1", "gemm=1e308", "gemm=", "gemm"])
def test_factors_that_are_none_are_refused(value: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["predict", str(run), "--scale", value]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
