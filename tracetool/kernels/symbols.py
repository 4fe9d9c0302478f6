"""Parsed kernel names: namespaces, head symbol, template arguments.

Grammars read a :class:`Symbol` and need not know how a profiler spelled it.
"""

from __future__ import annotations

import re
from functools import cached_property

from tracetool.kernels.name_normalization import normalize

#: Longest head symbol that is read: generated names reach 1,500 characters.
LONGEST_HEAD = 2_048

_MARK = re.compile(r"[<>()\[\]{} ]|::")
_BRACKET = re.compile(r"[()\[\]{}]")
_SPLIT = re.compile(r"[<>()\[\]{},]")
_PLAIN = re.compile(r"[\w.$@+-]+")
_CLOSES = {">": "<", ")": "(", "]": "[", "}": "{"}


def split_arguments(text: str) -> tuple[str, ...]:
    """Split at the commas outside brackets.

    >>> split_arguments("int, pair<a, b>, 4")
    ('int', 'pair<a, b>', '4')
    """
    out: list[str] = []
    stack: list[str] = []
    start = 0
    for mark in _SPLIT.finditer(text):
        c = mark[0]
        if c == ",":
            if not stack:
                out.append(text[start : mark.start()].strip())
                start = mark.end()
        elif c in "<([{":
            stack.append(c)
        elif stack and stack[-1] == _CLOSES[c]:
            stack.pop()
    last = text[start:].strip()
    if last or out:
        out.append(last)
    return tuple(out)


class Symbol:
    """A parsed kernel name.

    Attributes
    ----------
    raw : str
        The name as given.
    text : str
        Its one form (:func:`tracetool.kernels.name_normalization.normalize`); made here unless given.
    path : tuple of str
        Namespaces and, last, the head symbol, without template arguments.
    head : str
        The function's own name: what grammars match first.
    scope : str
        Namespaces and head joined by ``::``.
    inside : str
        The template arguments of the head as one text.
    """

    def __init__(self, raw: str, text: str | None = None) -> None:
        self.raw = raw
        self.text = text = normalize(raw) if text is None else text
        self.inside = ""
        if _PLAIN.fullmatch(text):
            self.path: tuple[str, ...] = (text,)
            self.head = self.scope = text[:LONGEST_HEAD]
        else:
            self.path, self.inside = _split(text)
            self.head = self.path[-1][:LONGEST_HEAD]
            self.scope = "::".join(self.path)[-LONGEST_HEAD:]

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Template arguments of the head symbol."""
        return split_arguments(self.inside) if self.inside else ()

    def part(self, where: str) -> str:
        """Return ``head``, ``scope`` or ``text``."""
        return self.head if where == "head" else self.scope if where == "scope" else self.text


def _split(text: str) -> tuple[tuple[str, ...], str]:
    path: list[str] = []
    stack: list[str] = []
    start = 0  # where the current name part starts
    name_end = -1  # where it ended, once its template arguments opened
    inside = (0, 0)
    end = len(text)
    skip = 0  # inside the brackets of a function's local kernel
    for mark in _MARK.finditer(text):
        c, at = mark[0], mark.start()
        if at < skip:
            continue
        if c in _CLOSES:
            if stack and stack[-1] == _CLOSES[c]:
                stack.pop()
                if not stack and c == ">":
                    inside = (inside[0], at)
            continue
        if stack:
            if c in "<([{":
                stack.append(c)
            continue
        if c == "<":
            name_end = at if name_end < 0 else name_end
            inside = (mark.end(), end)
            stack.append(c)
        elif c in "([{":
            if not path and at == start and c != "(":
                stack.append(c)
                continue
            closed = _local_scope(text, at)
            if closed:
                skip = closed
                name_end = at if name_end < 0 else name_end
                continue
            end = at
            break
        elif c == " ":
            start, name_end, inside = mark.end(), -1, (0, 0)
            path.clear()
        else:
            path.append(text[start : name_end if name_end >= 0 else at])
            start, name_end, inside = mark.end(), -1, (0, 0)
    path.append(text[start : name_end if name_end >= 0 else end].strip())
    cleaned = tuple(p for p in path if p) or (text.strip(),)
    return cleaned, text[inside[0] : min(inside[1], len(text))] if inside[0] else ""


def _local_scope(text: str, opened: int) -> int:
    """Return where the bracket opened here closes if a ``::`` follows: a function's local kernel, not its parameters."""
    if "::" not in text[opened:].rpartition(")")[2] and ")::" not in text and ") const::" not in text:
        return 0
    depth = 0
    for mark in _BRACKET.finditer(text, opened):
        if mark[0] in "([{":
            depth += 1
        else:
            depth -= 1
            if depth <= 0:
                following = text[mark.end() : mark.end() + 9]
                return mark.end() if following.startswith(("::", " const::")) else 0
    return 0
