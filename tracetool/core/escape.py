r"""Make text that others wrote harmless in every output.

Kernel, range and file names are untrusted input: they may hold line breaks, NULs, terminal escapes,
markup, table separators, spreadsheet formulas and lines that a CI runner takes for commands. Every
function here takes raw text and returns text for one place; nothing is escaped twice.

References
----------
.. [1] GitHub, "Workflow commands for GitHub Actions": ``::name key=value::message`` at the start of a
   line (after blanks), and the older ``##[name]`` anywhere in it.
.. [2] OWASP, "CSV Injection": cells that begin with ``= + - @``, their full-width forms, tab or carriage
   return.
.. [3] Microsoft, "Logging commands" of Azure Pipelines: ``##vso[area.action]`` and ``##[name]``.
"""

from __future__ import annotations

import html as _html
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

#: Longest name any output shows; the whole name is in the Parquet, CSV and JSON outputs.
NAME_WIDTH: Final = 120

_ELLIPSIS = "…"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_COMMAND = re.compile(
    r"::(?=(?:error|warning|notice|debug|group|endgroup|add-mask|stop-commands|set-output|save-state"
    r"|set-env|add-path|add-matcher|remove-matcher|echo|internal-[a-z-]+)\b)",
    re.IGNORECASE,
)
#: Text that no Markdown dialect takes for anything but text.
_PLAIN_MARKDOWN = re.compile(
    r"[\w .,()/%+=:;\u00b7\u00b1\u2026\u2212\u00b5\u2192\u00d7\u2013°?'-]*(?: \[[\w%°/·]{1,8}\])?", re.UNICODE
)
_LOOSE = re.compile(
    r"(?:^|[^A-Za-z0-9])_|_(?:[^A-Za-z0-9]|$)|^\s*(?:[-+]|\d+[.)])(?:\s|$)|^\s*[-=]{2}|www\.|://|:[\w+-]+:|^\s|\s$"
)
_FORMULA = re.compile(r"^[=+@\t\r\uff1d\uff0b\uff0d\uff20-](?=.)")
_LOG_COMMAND = re.compile(r"##(?=(?:vso)?\[)", re.IGNORECASE)
#: What a library may write to color a line; nothing else of a terminal's language.
_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_LINE_COMMAND = re.compile(r"^((?:\s|\x1b\[[0-9;]*m)*)::", re.MULTILINE)
_NUMBER = re.compile(r"^[+-]?[\d.]+(?:[eE][+-]?\d+)?$")


def _mark(c: str) -> str:
    if c.isprintable():
        return c
    if c in _SHORT:
        return _SHORT[c]
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    r"""Return the text with every character that does not print written out.

    Controls, terminal escapes, NULs, line and paragraph separators, zero-width and
    direction-changing characters become backslash escapes, so one name is always one line.

    >>> visible("gemm\x1b[31m\nnext\x00")
    'gemm\\x1b[31m\\nnext\\x00'
    """
    return text if text.isprintable() else "".join(map(_mark, text))


def shorten(text: str, width: int = NAME_WIDTH) -> str:
    """Return the text cut in the middle to at most ``width`` characters, head and tail kept.

    The head says which kernel it is, the tail which variant.

    >>> shorten("void kernel<float, 128, 128, 64>(Params)", 22)
    'void kernel<fl…Params)'
    >>> len(shorten("x" * 100_000))
    120
    """
    if len(text) <= width:
        return text
    if width < 4:
        return text[: max(width, 0)]
    tail = min((width - 1) // 3, 60)
    return text[: width - 1 - tail] + _ELLIPSIS + text[-tail:]


def name(text: str | None, width: int = NAME_WIDTH) -> str:
    """Return a name for people: printable, one line, at most ``width`` characters; not yet escaped."""
    if text is None:
        return ""
    # cutting first keeps a 100 kB name cheap; escapes may lengthen it, hence twice
    return shorten(visible(shorten(text, 4 * width)), width)


def html(text: str | None, width: int | None = None) -> str:
    """Return text for an HTML element or a quoted attribute.

    >>> html("</script><b a='1'>")
    '&lt;/script&gt;&lt;b a=&#x27;1&#x27;&gt;'
    """
    shown = "" if text is None else visible(text) if width is None else name(text, width)
    return _html.escape(shown, quote=True)


def script(json_text: str) -> str:
    r"""Return JSON that is safe inside a ``<script>`` element.

    >>> script('{"a": "</script><!--"}')
    '{"a": "\\u003c/script\\u003e\\u003c!--"}'
    """
    swaps: dict[str, str | int | None] = {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
    return json_text.translate(str.maketrans(swaps))


def markdown(text: str | None, width: int = NAME_WIDTH, *, cell: bool = True) -> str:
    r"""Return text for a cell of a Markdown table, or for a line without ``cell``.

    Plain words stay as they are; anything a Markdown dialect could act on (links, tags, mentions,
    issue numbers, emphasis) becomes a code span, in which nothing acts.

    >>> markdown("longer duration")
    'longer duration'
    >>> markdown("gemm<half> | [x](http://e) @me #1")
    '`gemm<half> \\| [x](http://e) @me #1`'
    >>> markdown("a | b", cell=False)
    '`a | b`'
    >>> markdown("a`b")
    '``a`b``'
    """
    shown = name(text, width)
    if _PLAIN_MARKDOWN.fullmatch(shown) and not _LOOSE.search(shown):
        return shown
    return code(shown, width, cell=cell)


def markdown_line(text: str) -> str:
    """Return a sentence of ours for Markdown; words that a dialect could act on become code spans.

    >>> markdown_line("unmatched: a<b> and @me, a|b")
    'unmatched: `a<b>` and `@me,` `a|b`'
    """
    return " ".join(markdown(word, 2000, cell=False) if word else "" for word in visible(text).split(" "))


def code(text: str | None, width: int = NAME_WIDTH, *, cell: bool = True) -> str:
    """Return a Markdown code span of exactly the shown text, in a table with ``cell``: bars escaped there."""
    shown = _LOG_COMMAND.sub("## ", name(text, width))
    if not shown:
        return ""
    runs = [len(run) for run in re.findall("`+", shown)]
    fence = "`" * next(n for n in range(1, len(shown) + 2) if n not in runs)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    if not cell:  # outside a table a backslash in a code span is a backslash
        return f"{fence}{pad}{shown}{pad}{fence}"
    # a backslash before a bar would turn the escape around: put the bar's own escape after an even run
    safe = re.sub(r"\\*\|", lambda m: m.group()[:-1].replace("\\", "\u2216") + "\\|", shown)
    return f"{fence}{pad}{safe}{pad}{fence}"


def terminal(text: str | None, width: int = NAME_WIDTH) -> str:
    r"""Return text for a terminal or a CI log: one printable line that no runner takes for a command.

    For rich, pass it through :class:`rich.text.Text` (no markup is read there).

    >>> terminal("x\n::error file=a::b")
    'x\\n: :error file=a::b'
    >>> terminal("cub::DeviceRadixSort")
    'cub::DeviceRadixSort'
    """
    shown = _LOG_COMMAND.sub("## ", _COMMAND.sub(": :", name(text, width)))
    bare = shown.lstrip()
    return shown.replace("::", ": :", 1) if bare.startswith("::") else shown


def lines(text: str, *, at_start: bool = True, styled: bool = False) -> str:
    r"""Return text of several lines, already laid out, without anything a terminal or a CI runner obeys.

    Parameters
    ----------
    text : str
        What is about to be written.
    at_start : bool
        Whether it begins a line.
    styled : bool
        Whether it may hold colors.

    >>> lines("a\n  ::set-output name=x::y\x1b]0;t\x07\n")
    'a\n  : :set-output name=x::y\\x1b]0;t\\x07\n'
    """
    if styled:
        pieces = _STYLE.split(text)
        text = "".join(p if i % 2 else _visible_lines(p) for i, p in enumerate(pieces))
    else:
        text = _visible_lines(text)
    # without the start of its line the first one is text in any case
    head, between, remainder = ("", "", text) if at_start else text.partition("\n")
    return _LOG_COMMAND.sub("## ", head + between + _LINE_COMMAND.sub(r"\1: :", remainder))


def _visible_lines(text: str) -> str:
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(visible(line) for line in text.split("\n"))


def csv(text: str) -> str:
    r"""Return a CSV cell that no spreadsheet runs and no reader trips over.

    Control characters are written out; a text that begins like a formula gets a leading apostrophe.

    >>> csv("=cmd()"), csv("-1.5"), csv("a\x00b")
    ("'=cmd()", '-1.5', 'a\\x00b')
    """
    shown = visible(text)
    return "'" + shown if _FORMULA.match(shown) and not _NUMBER.match(shown) else shown


def from_csv(cell: str) -> str:
    """Return the text of a cell that :func:`csv` wrote with an apostrophe.

    >>> from_csv(csv("=cmd()")), from_csv("'quoted'")
    ('=cmd()', "'quoted'")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell


def command_value(text: str) -> str:
    """Return the message of a GitHub workflow command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """Return a property (``title``, ``file``) of a GitHub workflow command."""
    return command_value(text).replace(":", "%3A").replace(",", "%2C")


def xml(text: str | None, width: int | None = None) -> str:
    r"""Return text for an XML 1.0 element or attribute; characters XML does not allow are written out."""
    return html(text, width).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def json_log(text: str) -> str:
    r"""Return a JSON document that a terminal or a CI log may show, with the same strings.

    Commands of a runner (``##[``) and characters that do not print stand as JSON's own escapes.

    >>> json_log('{"name": "##[error]\u2066"}')
    '{"name": "\\u0023\\u0023[error]\\u2066"}'
    """
    text = _LOG_COMMAND.sub(r"\\u0023\\u0023", text)
    # outside its strings a document holds no such character but line breaks
    return text if text.replace("\n", "").isprintable() else "".join(map(_json_mark, text))


def _json_mark(c: str) -> str:
    if c == "\n" or c.isprintable():
        return c
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def map_distinct(column: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """Return a text column with ``change`` applied once per distinct text. Shape (n,) to (n,)."""
    import polars as pl  # the command line escapes its help's and errors' texts before any table is loaded

    distinct = column.unique().drop_nulls()
    escaped = [change(t) for t in distinct.to_list()]
    if escaped == distinct.to_list():
        return column
    return column.replace_strict(
        distinct, pl.Series(escaped, dtype=pl.String), default=None, return_dtype=pl.String
    )
