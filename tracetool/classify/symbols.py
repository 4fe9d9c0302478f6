"""Kernel names brought to one form: demangled, one spelling of constants and lambdas, split at the head.

Profilers write one kernel in many ways: mangled (``_ZN2at6native...``), as ``c++filt`` or LLVM print it,
as Nsight prints it (``<(int)128, (bool)1>``, ``<unnamed>``, ``[lambda() (instance 1)]``), cut short, or as
the bare head symbol. Grammars read a :class:`Symbol` and need not know which it was.
"""

from __future__ import annotations

import re
from functools import cached_property

import pycxxfilt

from tracetool.classify.mangled import sketch

#: Longest name that is read; profilers cut far below it, hostile files do not.
LONGEST = 16_384
#: Longest head symbol that is read: generated names reach 1,500 characters.
LONGEST_HEAD = 2_048

_SUFFIX = re.compile(
    r"(?:\.kd| \(\.kd\)|\.intern\.[0-9a-f]+|\.cold|\.part\.\d+|\.isra\.\d+| \[clone [^\]]{0,80}\])$"
)
_ENDS = (".kd", "]", ".cold", "(.kd)")
_CAST = re.compile(r"\)-?\d")
_CONSTANT = re.compile(r"\((?:unsigned |signed |long |short )*(?:int|char|long|short|size_t)\)(-?\d+)")
_BOOL = re.compile(r"\(bool\)([01])")
_ENUM = re.compile(r"(?<=[<, ])\((?:[A-Za-z_]\w*(?:<[\w, :]*>)?::)*[A-Za-z_]\w*\)(-?\d+)")
_SUFFIXED = re.compile(r"\b(\d+)(?:ul|ull|u|l|ll|UL|U|L)\b")
_LAMBDA = re.compile(r"'lambda\d*'|\{lambda|\[lambda|\{unnamed type")
_LAMBDA_END = re.compile(r"#\d+\}| \(instance \d+\)\]")
_ANONYMOUS = re.compile(r"<unnamed>|\(anonymous namespace\)|_GLOBAL__N_?\w*|anonymous_namespace")
_VERSION = re.compile(r"\b(?:THRUST|CUB|ROCPRIM|HIPCUB)_[\w]*?_?NS::")
_MARK = re.compile(r"[<>()\[\]{} ]|::")
_BRACKET = re.compile(r"[()\[\]{}]")
_SPLIT = re.compile(r"[<>()\[\]{},]")
_PLAIN = re.compile(r"[\w.$@+-]+")
_CLOSES = {">": "<", ")": "(", "]": "[", "}": "{"}


def demangle(name: str) -> str:
    """Return the readable form of an Itanium name; a name cut short is read as far as it goes.

    >>> demangle("_Z4copyPfPKf")
    'copy(float*, float const*)'
    """
    try:
        return pycxxfilt.itanium_demangle(name) or name
    except ValueError:
        return sketch(name)


def normalize(name: str) -> str:
    """Return the one form of a kernel name that all spellings of it share as far as they can.

    >>> normalize("void <unnamed>::f<(int)4, (bool)1>(float *)")
    'void anon::f<4, true>(float *)'
    """
    text = name[:LONGEST].strip()
    if text.endswith(_ENDS) or ".intern." in text[-80:] or ".part." in text[-20:] or ".isra." in text[-20:]:
        for _ in range(3):
            cut = _SUFFIX.sub("", text)
            if cut == text:
                break
            text = cut
    if text.startswith(("_Z", "__Z", "___Z")):
        text = demangle("_" + text.lstrip("_"))
    if _PLAIN.fullmatch(text):
        return text
    if "<unnamed>" in text or "anonymous" in text or "_GLOBAL__N" in text:
        text = _ANONYMOUS.sub("anon", text)
    if _CAST.search(text):
        text = _CONSTANT.sub(r"\1", text)
        text = _BOOL.sub(lambda m: "true" if m[1] == "1" else "false", text)
        text = _ENUM.sub(r"\1", text)
    if "lambda" in text or "unnamed type" in text:
        text = _LAMBDA_END.sub("", _LAMBDA.sub("lambda", text))
    if "operator" in text:
        text = text.replace("operator ()", "call").replace("operator()", "call")
    if "_NS::" in text:
        text = _VERSION.sub("", text)
    return _SUFFIXED.sub(r"\1", text)


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
    """A kernel name taken apart.

    Attributes
    ----------
    raw : str
        The name as given.
    text : str
        Its one form (:func:`normalize`).
    path : tuple of str
        Namespaces and, last, the head symbol, without template arguments.
    head : str
        The function's own name: what grammars match first.
    """

    __slots__ = ("__dict__", "_inside", "head", "path", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = text = normalize(raw)
        self._inside = ""
        if _PLAIN.fullmatch(text):
            self.path: tuple[str, ...] = (text,)
        else:
            self.path, self._inside = _take_apart(text)
        self.head = self.path[-1][:LONGEST_HEAD]

    @cached_property
    def scope(self) -> str:
        """Namespaces and head joined by ``::``."""
        return "::".join(self.path)[-LONGEST_HEAD:]

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Template arguments of the head symbol."""
        return split_arguments(self._inside) if self._inside else ()

    def part(self, where: str) -> str:
        """Return ``head``, ``scope`` or ``text``."""
        return self.head if where == "head" else self.scope if where == "scope" else self.text

    @property
    def inside(self) -> str:
        """The template arguments as one text."""
        return self._inside


def _take_apart(text: str) -> tuple[tuple[str, ...], str]:
    path: list[str] = []
    stack: list[str] = []
    part = 0  # where the current name part starts
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
            if not path and at == part and c != "(":
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
            part, name_end, inside = mark.end(), -1, (0, 0)
            path.clear()
        else:
            path.append(text[part : name_end if name_end >= 0 else at])
            part, name_end, inside = mark.end(), -1, (0, 0)
    path.append(text[part : name_end if name_end >= 0 else end].strip())
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
                rest = text[mark.end() : mark.end() + 9]
                return mark.end() if rest.startswith(("::", " const::")) else 0
    return 0
