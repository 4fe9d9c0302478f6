"""Write ``commands.md``: every command with its arguments and options, from the command line itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tracetool.cli.app import build

PAGE = Path(__file__).with_name("commands.md")
#: Options that mean the same in every command, said once.
USUAL = ("help", "as_json", "quiet", "verbose")
HEAD = """# Commands and options

Every command with all it takes: what `tracetool COMMAND --help` prints, on one page, written by
`python docs/commands_page.py`.

| option of every command | meaning |
|---|---|
| `-h`, `--help` | Print the help of the command, with an example. |
| `--json` | Print one JSON document on standard output and nothing else; an error is one too ([schemas](agents.md)). |
| `-q`, `--quiet` | Print errors only. |
| `-v`, `--verbose` | Print steps, their times and peak memory on standard error. |

`NO_COLOR` in the environment turns colors off, `COLUMNS` states the width of the output. `tracetool --version` prints the version,
`tracetool --install-completion` makes the shell complete commands and options. `TRACETOOL_DEBUG=1` prints the traceback of an internal fault.

Exit codes: 0 done, 1 a check that was asked for failed, 2 bad input or usage, 3 a part is missing on this machine, 130 interrupted,
143 terminated, 129 hung up; `record` ends with the program's own."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its words."""
    inner = getattr(command, "commands", None)
    if not inner:
        yield " ".join(path), command
        return
    for name, one in sorted(inner.items()):
        yield from commands(one, (*path, name))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _usage(name: str, command: Any) -> str:
    arguments = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
    return " ".join(["tracetool", name, "[OPTIONS]", *arguments])


def _rows(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield f"| `{_cell(parameter.metavar or parameter.name.upper())}` | {_cell(parameter.help)} |"
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name not in USUAL and not parameter.hidden:
            named = ", ".join(f"`{flag}`" for flag in sorted(parameter.opts, key=len))
            value = f" `{_cell(parameter.metavar)}`" if parameter.metavar else ""
            yield f"| {named}{value} | {_cell(parameter.help)} |"


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, command in commands(typer.main.get_command(build())):
        parts.append(f"\n## {name}\n")
        parts.append(" ".join(command.help.split()) + "\n")
        parts.append(f"```text\n{_usage(name, command)}\n```\n")
        if rows := list(_rows(command)):
            parts += ["| takes | meaning |\n|---|---|", *rows, ""]
        parts.append(f"{command.epilog.partition(': ')[0]}: `{command.epilog.partition(': ')[2]}`")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
