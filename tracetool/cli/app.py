"""The one place where commands are found, errors become exit codes, and nothing prints a traceback."""

from __future__ import annotations

import contextlib
import copy
import errno
import functools
import importlib
import inspect
import os
import pkgutil
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from tracetool.cli.options import VERBOSE_OPTION
from tracetool.cli.output import Printed, print_json
from tracetool.cli.progress import Verbose, verbose_end, verbose_step
from tracetool.cli.safe_output import guarded_streams
from tracetool.core.errors import TracetoolError
from tracetool.core.stop_signals import Terminated, manner_of
from tracetool.core.version import __version__
from tracetool.sources.misplaced_files import TAKES_TRACES, ingest_first
from tracetool.tables.scratch import put_in_place
from tracetool.tables.stopping import outcome

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

#: What needs the names of the commands and none of their options.
_LISTING = ("-h", "--help", "--version")

#: What the loader says of a library that a limit on memory (ulimit -v, a job's) does not admit.
_UNMAPPED = "failed to map segment"

#: Typer carries its own copy of click in newer releases and uses the installed one in older ones.
UsageFault: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def command_names() -> list[str]:
    """Return the commands: the files of ``cli/commands``, underscores written as hyphens."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent / "commands")])
    return sorted(m.name.replace("_", "-") for m in modules)


def _without_options(callback: Callable[..., Any]) -> Callable[[], None]:
    """Return a callable with a command's help and none of its options, which a list of commands needs not."""

    def listed() -> None:
        pass

    listed.__doc__ = callback.__doc__
    return listed


def _with_verbose(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command's function with ``--verbose`` after its own options."""

    @functools.wraps(callback)
    def traced(*arguments: Any, verbose: bool = False, **options: Any) -> Any:
        Verbose.asked = verbose
        verbose_step(f"tracetool {__version__}, Python {platform.python_version()}, {platform.machine()}")
        result = callback(*arguments, **options)
        verbose_end()
        return result

    signature = inspect.signature(callback)
    added = inspect.Parameter(
        "verbose", inspect.Parameter.KEYWORD_ONLY, default=VERBOSE_OPTION, annotation=bool
    )
    traced.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])  # type: ignore[attr-defined]
    traced.__annotations__ = {**callback.__annotations__, "verbose": bool}
    return traced


def _group_with_verbose(app: typer.Typer) -> typer.Typer:
    """Return a group whose every command takes ``--verbose``."""
    group = copy.copy(app)
    group.registered_commands = [copy.copy(command) for command in app.registered_commands]
    for command in group.registered_commands:
        assert command.callback is not None
        command.callback = _with_verbose(command.callback)
    return group


def build(only: str | None = None, *, listing: bool = False) -> typer.Typer:
    """Return the command line with every command of ``cli/commands``.

    A command file ``name.py`` defines ``app``: a :class:`typer.Typer` with one command (or, for a
    group such as ``baseline``, several). Its docstring is its help.

    Parameters
    ----------
    only : str, optional
        The one command to load: what the others import and declare is a tenth of a second.
    listing : bool, default: False
        Name the commands without their options: to inspect those of all takes another tenth.
    """
    root = typer.Typer(
        name="tracetool",
        help="Energy of a GPU job, kernel by kernel: measured, and predicted at other clocks.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    for name in [only] if only else command_names():
        app = importlib.import_module(f"tracetool.cli.commands.{name.replace('-', '_')}").app
        if (
            len(app.registered_commands) == 1
            and not app.registered_groups
            and app.registered_callback is None
        ):
            command = app.registered_commands[0]
            assert command.callback is not None
            made = _without_options if listing else _with_verbose
            callback = made(command.callback)
            root.command(name, help=command.help, short_help=command.short_help, epilog=command.epilog)(
                callback
            )
        else:
            root.add_typer(
                typer.Typer(help=app.info.help) if listing else _group_with_verbose(app), name=name
            )
    return root


def _version(asked: bool) -> None:
    if asked:
        print(f"tracetool {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version.", callback=_version, is_eager=True
    ),
) -> None:
    """Energy of a GPU job, kernel by kernel: measured, and predicted at other clocks."""


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk or nobody reading: the exit code says it too
        print(f"error: {line}", file=sys.stderr)


def _fail(
    as_json: bool, code: int, message: str, fix: str = "", line: str = "", file: str | None = None
) -> int:
    """Print an error in one line on standard error, as a document too with ``--json``; return its code."""
    if as_json and not Printed.document:
        with contextlib.suppress(OSError):
            print_json({"error": {"file": file, "message": message, "fix": fix, "exit_code": code}})
            sys.stdout.flush()
    _say(" ".join((line or (f"{message} ({fix})" if fix else message)).splitlines()))
    return code


def _usage(error: Exception, as_json: bool) -> int:
    text = " ".join(getattr(error, "format_message", lambda: str(error))().split())
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context else text)
        return EXIT_USAGE
    return _fail(as_json, EXIT_USAGE, text, f"see: {context.command_path} --help" if context else "")


def _described(error: Exception) -> str:
    """Return one line about what no command foresaw."""
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _UNMAPPED in str(error)):
        return "out of memory; give a smaller input or a machine with more"
    if isinstance(error, EOFError) and "marshal" in str(error):  # Python writes these and heeds no full disk
        return "a compiled file of this installation is cut short: remove its __pycache__ folders"
    if isinstance(error, OSError):
        # What names no file failed at the output, but for a folder that was looked for and is not there.
        place = error.filename or ("" if error.errno == errno.ENOENT else "standard output")
        return f"{place}: {error.strerror or error}".removeprefix(": ")
    fault = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"internal fault: {fault} (set TRACETOOL_DEBUG=1 for the traceback and report it)"


def _command_named(arguments: Sequence[str]) -> str | None:
    """Return the command to be run, None where all must be known: for help, completion and misspellings."""
    completing = "_TRACETOOL_COMPLETE" in os.environ
    return arguments[0] if arguments and not completing and arguments[0] in command_names() else None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (0, 1, 2, 3, 129, 130 or 143)."""
    with guarded_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(arguments) if arguments is not None else sys.argv[1:]
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    Printed.document = False
    Verbose.asked, Verbose.start_s = False, time.monotonic()
    put_in_place.clear()
    listing = not words or words[0] in _LISTING
    command = typer.main.get_command(build(_command_named(words), listing=listing))
    try:
        code = command.main(
            args=words,
            prog_name="tracetool",
            standalone_mode=False,
        )
    except TracetoolError as error:
        if error.file and words[0] not in TAKES_TRACES and (fix := ingest_first(error.file)):
            error.fix = fix
        return _fail(as_json, error.exit_code, error.message, error.fix, error.line(), error.file)
    except UsageFault as error:
        return _usage(error, as_json)
    except (typer.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # typer takes the end of any file for one of the keyboard
            return _fail(as_json, EXIT_USAGE, _described(error.__cause__))
        return _stopped(as_json, signal.SIGINT)
    except Terminated as error:
        return _stopped(as_json, error.number)
    except Exception as error:
        if os.environ.get("TRACETOOL_DEBUG"):
            raise
        return _fail(as_json, EXIT_USAGE, _described(error))
    if code == EXIT_INTERRUPTED:  # newer typer turns an interrupt into this code
        _stopped(as_json, signal.SIGINT)
    return int(code or 0)


def _stopped(as_json: bool, number: int) -> int:
    return _fail(as_json, 128 + number, f"{manner_of(number)}; {outcome()}")
