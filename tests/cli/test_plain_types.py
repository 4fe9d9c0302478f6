"""Plain arguments are taken as they are, and as Typer would take them."""

# ruff: noqa: B008 - how Typer declares arguments

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tracetool.cli.plain_types import plain_value, spare


def _app(seen: list[Any]) -> typer.Typer:
    app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})

    @app.command()
    def one(
        files: list[Path] = typer.Argument(...),
        out: Path | None = typer.Option(None, "--out", "-o"),
        there: Path | None = typer.Option(None, "--there", exists=True),
        name: str = typer.Option("x", "--name"),
        many: list[str] = typer.Option([], "--many"),
        clock: float | None = typer.Option(None, "--clock"),
        count: int = typer.Option(3, "--count", min=1, max=5),
        quiet: bool = typer.Option(False, "--quiet", "-q"),
    ) -> None:
        seen.append((files, out, there, name, many, clock, count, quiet))

    return app


@pytest.mark.parametrize(
    "given",
    [
        ["a", "b c"],
        ["a", "-o", "", "--name", "", "-q"],
        ["a", "--many", "1", "--many", "2", "--clock", "1.5", "--count", "5"],
        ["a", "--there", "."],
        ["a", "--there", "no such"],
        ["a", "--count", "6"],
        ["a", "--clock", "fast"],
        ["--out"],
        [],
        ["-h"],
    ],
)
def test_values_and_messages_are_typers(given: list[str]) -> None:
    told = []
    for spared in (False, True):
        seen: list[Any] = []
        command = typer.main.get_command(_app(seen))
        if spared:
            spare(command)
        try:
            command.main(args=given, prog_name="one", standalone_mode=False)
            said = ""
        except Exception as error:  # noqa: BLE001 - what is raised is compared
            said = f"{type(error).__name__} {getattr(error, 'format_message', str)()}"
        told.append((seen, said))
    assert told[0] == told[1]


def test_only_what_needs_no_look_is_plain(tmp_path: Path) -> None:
    info = typer.Option(None)
    assert plain_value("a", str, info) == "a"
    assert plain_value(["a"], list[Path], info) == [Path("a")]
    assert plain_value("1", int, info) is None
    assert plain_value("1", list[int], info) is None
    assert plain_value(str(tmp_path), Path, typer.Option(None, exists=True)) is None
    assert plain_value(5, int, typer.Option(1, max=5)) == 5
    assert plain_value(6, int, typer.Option(1, max=5)) is None


def test_another_release_is_left_alone() -> None:
    class Changed:
        params = (object(),)

    spare(Changed())
    program = (
        "import sys; sys.modules['typer._coercion'] = None\n"
        "from tracetool.cli.plain_types import spare; spare(object())"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_release_that_calls_it_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    coercion = pytest.importorskip("typer._coercion")
    command = typer.main.get_command(_app([]))
    monkeypatch.setattr(coercion.RuntimeParam, "_coerce_value", lambda self, value, *, context: value)
    spare(command)
    assert all(getattr(p, "_runtime_param", None) is None for p in command.params)
    monkeypatch.delattr(coercion.RuntimeParam, "_coerce_value")
    spare(command)


def test_the_runner_of_typer_still_works() -> None:
    seen: list[Any] = []
    assert CliRunner().invoke(_app(seen), ["a"]).exit_code == 0
    assert seen[0][0] == [Path("a")]
