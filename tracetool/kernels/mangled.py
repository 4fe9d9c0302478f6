"""What can be read of an Itanium name that was cut short.

Profilers cut names at 55, 90 or 100 characters; a mangled name cut inside its template arguments is no
longer valid and no demangler reads it. Its beginning still holds the head symbol, and its source names
and literal constants in order. Grammar: Itanium C++ ABI, section 5.1 "External Names" (``<source-name> ::=
<length> <identifier>``, ``L <type> <value> E``).
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<cut>L(?:[a-z]n?\d*)?$)|(?P<length>\d+)|L(?P<literal>[a-z])(?P<value>n?\d+)E|D(?P<half>F16b|F16_|h)|S(?P<seq>[0-9A-Z]*_|[tabsiod])"
    r"|(?P<open>[IJ])|(?P<nested>N[KVr]*)|(?P<end>E)|(?P<built>[a-z])|(?P<other>.)",
    re.DOTALL,
)
_BUILTIN = {
    "f": "float", "d": "double", "i": "int", "l": "long", "j": "unsigned int", "m": "unsigned long",
    "a": "signed char", "h": "unsigned char", "b": "bool", "s": "short", "t": "unsigned short", "c": "char",
    "x": "long long", "y": "unsigned long long",
}  # fmt: skip
_HALF = {"F16b": "bf16", "F16_": "half", "h": "half"}
_BOOLS = {"0": "false", "1": "true"}


def sketch(name: str) -> str:
    """Return ``scope::head<names and constants in order>`` of a mangled name cut short.

    Substitutions (``S1_``) are not followed, so a list of arguments is what the text still spells out.

    >>> sketch("_ZN7cutlass13device_kernelIN4gemmILi64ELi")
    'cutlass::device_kernel<gemm, 64'
    """
    if not name.startswith("_Z"):
        return name
    scope: list[str] = []
    inside: list[str] = []
    at, nested, opened = 2, False, False
    while at < len(name):
        token = _TOKEN.match(name, at)
        if token is None or token["cut"] is not None:
            break
        at = token.end()
        if token["length"]:
            size = int(token["length"][:4])
            word = name[at : at + size]
            at += size
            if word:
                (inside if opened else scope).append(_anonymous(word))
            if not nested and not opened and not name.startswith("I", at):
                break
        elif token["open"] and scope:
            opened = True
        elif opened:
            _argument(token, inside)
        elif token["nested"]:
            nested = True
        elif token["end"]:
            break
    if not scope:
        return name
    head = "::".join(scope)
    return f"{head}<{', '.join(inside)}" if inside else head


def _anonymous(word: str) -> str:
    return "anon" if word.startswith("_GLOBAL__N_") else word


def _argument(token: re.Match[str], inside: list[str]) -> None:
    if token["literal"]:
        value = token["value"].replace("n", "-")
        inside.append(_BOOLS.get(value, value) if token["literal"] == "b" else value)
    elif token["half"]:
        inside.append(_HALF[token["half"]])
    elif token["built"] and token["built"] in _BUILTIN:
        inside.append(_BUILTIN[token["built"]])
