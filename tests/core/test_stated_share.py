"""A share is a fraction or a text in per cent, in every command; what may be either is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetool as tt
from tests.cli.test_every_command import LEAVES
from tracetool.cli.app import run as command
from tracetool.core.stated_share import stated_share


@pytest.mark.parametrize(
    ("value", "share"),
    [(0.03, 0.03), ("0.03", 0.03), ("3%", 0.03), (" 3 % ", 0.03), (0, 0.0), ("0%", 0.0), ("150%", 1.5)],
)
def test_a_fraction_and_per_cent_state_the_same(value: float | str, share: float) -> None:
    assert stated_share(value, "--slowdown") == pytest.approx(share)


@pytest.mark.parametrize("value", [3, 1.0, "3", "x", "", "%", "nan%", "-1%", -0.1, "1001%", float("nan")])
def test_what_is_no_share_or_may_be_per_cent_is_refused(value: float | str) -> None:
    with pytest.raises(tt.BadInput, match="--slowdown"):
        stated_share(value, "--slowdown")


@pytest.mark.parametrize(
    "words",
    [
        " ".join(words)
        for words, leaf in LEAVES
        if any(p.name == "slowdown" and not p.is_flag for p in leaf.params)  # type: ignore[attr-defined]
    ],
)
def test_every_command_names_the_fix(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command([*words.split(), str(tmp_path), "--slowdown", "3"]) == 2
    assert "write --slowdown 3% for 3 %" in capsys.readouterr().err


def test_functions_take_both(tmp_path: Path) -> None:
    for ask in (
        lambda: tt.sweep(tmp_path, slowdown=3),
        lambda: tt.forecast("llama-3.1-8b", gpu="h100-sxm", slowdown=3),
        lambda: tt.fleet_ask("savings", tmp_path, slowdown=3),
    ):
        with pytest.raises(tt.BadInput) as raised:
            ask()
        assert "3% for 3 %" in raised.value.line()
