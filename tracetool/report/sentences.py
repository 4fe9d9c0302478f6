"""Width of the terminal, and sentences that fit it."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from tracetool.core import escape
from tracetool.core.escape import visible

if TYPE_CHECKING:
    from rich.console import Console

_ANONYMOUS: Final = re.compile(r"(<unnamed>|\(anonymous namespace\)|\{anonymous\}|at::native|at::cuda)::")
_ARGUMENTS: Final = re.compile(r"\((?!anonymous)[^()]*(\([^()]*\)[^()]*)*\)$")


def cell_width(text: str) -> int:
    """Return the columns of a terminal a text takes."""
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def compact(name: str) -> str:
    """Return a kernel's name without what most names share: return type, arguments, common namespaces.

    >>> compact("void at::native::<unnamed>::fill<at::native::Op<int>, 4>(int*, Op<int>)")
    'fill<Op<int>, 4>'
    """
    bare = name.lstrip()
    shorter = _ANONYMOUS.sub("", _ARGUMENTS.sub("", bare.removeprefix("void ")))
    return name[: len(name) - len(bare)] + (shorter or bare)


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Return names of at most ``width`` columns, different ones different where the width allows it.

    >>> shorten_names(["gemm_a_128x128_stage_3_tn_bf16", "gemm_a_128x128_stage_4_tn_bf16"], 16)
    ['gemm…3_tn_bf16', 'gemm…4_tn_bf16']
    """
    shortened = {
        n: n if cell_width(n) <= width else cut_middle(compact(n), width) for n in dict.fromkeys(names)
    }
    for group in _alike(shortened):
        full_names = {name: compact(name) for name in group}
        if len(set(full_names.values())) < len(group):  # they differ in what is left out
            full_names = {name: name for name in group}
        shortened.update(_told_apart(full_names, max(width // 4, 1), width))
    return [shortened[n] for n in names]


def _alike(shortened: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of names that are shortened to one."""
    groups: dict[str, list[str]] = {}
    for name, short in shortened.items():
        groups.setdefault(short, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _told_apart(full_names: Mapping[str, str], kept: int, width: int, begin: str = "") -> dict[str, str]:
    """Return the short names of a group: how all begin, and what follows where the first of them differ.

    Those still alike show the first few letters there, then what follows where they differ in turn.

    Parameters
    ----------
    full_names : dict of str to str
        What is left of each name after ``begin``, alike in all.
    kept : int
        Letters of it that are kept whether or not they differ.
    """
    rests = sorted(full_names.values())
    same = next(
        (i for i, (a, b) in enumerate(zip(rests[0], rests[-1], strict=False)) if a != b), len(rests[0])
    )
    start = max(same, kept)
    told = {}
    for name, rest in full_names.items():
        short = begin + rest[:kept] + "…"
        told[name] = short + cut_middle(rest[start:], width - cell_width(short))
    few = max(width // 8, 1)
    for group in _alike(told):
        shared = begin + full_names[group[0]][:kept] + "…"
        if len(group) < len(full_names) and width - cell_width(shared) > few + 2:
            further = {name: full_names[name][start:] for name in group}
            told.update(_told_apart(further, few, width, shared))
    return told


def with_short_names(text: str, names: Iterable[str], width: int) -> str:
    """Return a sentence with the names in it of at most ``width`` columns, different ones still different.

    >>> two = ["a_kernel_of_60_rows", "a_kernel_of_61_rows"]
    >>> with_short_names("a_kernel_of_60_rows for a_kernel_of_61_rows", two, 12)
    'a_k…0_rows for a_k…1_rows'
    """
    distinct = sorted(sorted(set(names)), key=len, reverse=True)  # a name may hold a shorter one
    for name, short in zip(distinct, shorten_names(distinct, width), strict=True):
        text = text.replace(name, short)
    return text


def cut_middle(text: str, width: int) -> str:
    """Return text cut in the middle to at most ``width`` columns of the terminal."""
    size = max(width, 1)
    short = escape.shorten(text, size)
    while cell_width(short) > width and size > 1:  # characters two columns wide
        size -= 1
        short = escape.shorten(text, size)
    return short


#: Columns of a pipe that states none.
PIPE_WIDTH: Final = 100
_NARROWEST: Final = 20


def stated_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of ``COLUMNS``, else of the terminal behind ``stream``; None without either."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text) > 0:
        return max(int(text), _NARROWEST)
    target = stream or sys.stdout
    try:
        if not target.isatty():
            return None
        columns = os.get_terminal_size(target.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return None
    return max(columns, _NARROWEST) if columns else None


def open_console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, ``COLUMNS`` or else 100; plain where ``NO_COLOR`` is set."""
    from rich.console import Console, ConsoleOptions, RenderableType  # a tenth of the start of a command that
    from rich.segment import Segment  # prints nothing

    class Screen(Console):
        """Shows every character of a text; only its own styles reach the terminal."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for part in super().render(renderable, options):
                text = part.text
                if part.control or text.replace("\n", "").isprintable():
                    yield part
                else:
                    yield part._replace(text="\n".join(map(visible, text.split("\n"))))

    width = stated_width(sys.stderr if stderr else sys.stdout)
    return Screen(
        stderr=stderr,
        highlight=False,
        width=width or PIPE_WIDTH,
        soft_wrap=width is None,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def wrapped(text: str, width: int, console: Console | None = None) -> list[str]:
    """Return a sentence as lines of at most ``width``, the later ones indented; no word is cut.

    A console with ``soft_wrap`` (a pipe that states no width) gets it as one line: a search finds it whole.
    """
    if (console is not None and console.soft_wrap) or cell_width(text) <= width:
        return [text]
    return textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    ) or [""]


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence, wrapped where the console states its width."""
    from rich.text import Text

    for line in wrapped(text, console.width, console):
        console.print(Text(line, style=style), soft_wrap=True)


def write_line(text: str) -> None:
    """Write one line as it is on standard output: paths and lists that other programs read."""
    sys.stdout.write(f"{text}\n")


#: The words of each kind of source, by its key in a ``coverage`` document.
_WORDS: Final = {
    "shapes_pct": "shapes",
    "anchored_only_pct": "anchored only",
    "family_rate_pct": "a family's usual rate",
    "not_at_all_pct": "not at all",
}


def coverage_line(coverage: Mapping[str, float]) -> str:
    """Return the share of the kernels' time predicted from each kind of source.

    Examples
    --------
    >>> coverage_line({"shapes_pct": 82.2, "anchored_only_pct": 17.6, "family_rate_pct": 0.2})
    "predicted from: shapes 82 % of the kernels' time, anchored only 18 %, a family's usual rate <1 %"
    """
    shares = {words: coverage.get(key, 0.0) for key, words in _WORDS.items()}
    if not any(shares.values()):
        return "predicted from: nothing, there are no kernels"
    first, *further = (f"{words} {_share(share)}" for words, share in shares.items() if share > 0)
    return ", ".join([f"predicted from: {first} of the kernels' time", *further])


def _share(percent: float) -> str:
    return "<1 %" if 0.0 < percent < 0.5 else f"{percent:.0f} %"
