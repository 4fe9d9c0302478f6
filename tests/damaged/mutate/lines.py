"""Text files of another shape: columns gone or too many, odd cells, other encodings, headers twice."""

# ruff: noqa: E501

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.damaged.mutate.cells import word

_TOKEN = re.compile(r"[\w.+:/-]+")


def change_text(path: Path, draw: random.Random) -> str:
    """Change a text file in place."""
    text = path.read_bytes().decode("utf-8", "replace")
    if draw.random() < 0.1:
        return _encoded(path, text, draw)
    lines = text.split("\n")
    step = draw.choice(_CHANGES)(lines, draw)
    path.write_bytes("\n".join(lines).encode("utf-8", "replace"))
    return step


def _encoded(path: Path, text: str, draw: random.Random) -> str:
    how = draw.choice(("utf-8-sig", "utf-16", "utf-16-be", "latin-1", "crlf", "cr"))
    if how in ("crlf", "cr"):
        path.write_bytes(text.replace("\n", "\r\n" if how == "crlf" else "\r").encode())
    else:
        path.write_bytes(text.encode(how, "replace"))
    return f"as {how}"


def _split(line: str) -> list[str]:
    """Return cells; quotes are left where they are, as a wrong writer would."""
    return line.split(",")


def _at(lines: list[str], draw: random.Random) -> int:
    return draw.randrange(len(lines))


def _cell(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    cells = _split(lines[at])
    place, new = draw.randrange(len(cells)), word(draw)
    cells[place] = new
    lines[at] = ",".join(cells)
    return f"line {at + 1}, cell {place + 1} became {new!a:.60}"


def _token(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    tokens = list(_TOKEN.finditer(lines[at]))
    if not tokens:
        return "nothing"
    chosen, new = draw.choice(tokens), word(draw)
    lines[at] = lines[at][: chosen.start()] + new + lines[at][chosen.end() :]
    return f"line {at + 1}: {chosen.group():.40} became {new!a:.60}"


def _column(lines: list[str], draw: random.Random) -> str:
    place, new = draw.randrange(max(1, len(_split(lines[0])))), word(draw)
    drop = draw.random() < 0.5
    for at, line in enumerate(lines):
        cells = _split(line)
        if place >= len(cells) or (at == 0 and not drop):
            continue
        cells[place : place + 1] = [] if drop else [new]
        lines[at] = ",".join(cells)
    return f"column {place + 1} {'gone' if drop else f'all {new!a:.60}'}"


def _line_gone(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    del lines[at]
    return f"without line {at + 1}"


def _line_twice(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    to = draw.randrange(len(lines) + 1)
    lines.insert(to, lines[at])
    return f"line {at + 1} again before line {to + 1}"


def _line_new(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    lines.insert(at, draw.choice(("", ",,,,", '"', "# " + word(draw), word(draw), "\0\0\0", "{", "---")))
    return f"before line {at + 1}: {lines[at]!a:.60}"


def _backwards(lines: list[str], draw: random.Random) -> str:
    lines[1:] = lines[:0:-1]
    return "rows backwards"


def _separator(lines: list[str], draw: random.Random) -> str:
    new = draw.choice((";", "\t", "|", ", "))
    lines[:] = [line.replace(",", new) for line in lines]
    return f"separated by {new!r}"


def _quoted(lines: list[str], draw: random.Random) -> str:
    at = _at(lines, draw)
    cells = _split(lines[at])
    place = draw.randrange(len(cells))
    cells[place] = draw.choice(('"' + cells[place] + '\nmore"', '"' + cells[place], cells[place] + '"'))
    lines[at] = ",".join(cells)
    return f"line {at + 1}, cell {place + 1} quoted: {cells[place]!a:.60}"


_CHANGES = (
    _cell, _cell, _cell, _cell, _token, _token, _token, _token, _column, _column, _line_gone, _line_twice, _line_new,
    _backwards, _separator, _quoted, _quoted,
)  # fmt: skip
