"""One spelling of a kernel name for the many that profilers write.

Profilers write one kernel mangled (``_ZN2at6native...``), as ``c++filt`` or LLVM print it, as Nsight prints it
(``<(int)128, (bool)1>``, ``<unnamed>``, ``[lambda() (instance 1)]``), as nvprof does (``int=4``), cut short, or as the bare head symbol. Names
are brought to one form all at once, by an engine that is linear in their length.

Profilers cut names at 55, 90 or 100 characters; a mangled name cut inside its template arguments is no longer
valid and no demangler reads it. Its beginning still holds the head symbol, and its source names and literal
constants in order: :func:`sketch` reads those. Grammar: Itanium C++ ABI, section 5.1 "External Names"
(``<source-name> ::= <length> <identifier>``, ``L <type> <value> E``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl
import pycxxfilt

#: Longest name that is read; profilers cut far below it, hostile files do not.
LONGEST: Final = 16_384

_SUFFIXES: Final = (
    r"(?:\.kd| \(\.kd\)|\.intern\.[0-9a-f]+|\.cold|\.part\.\d+|\.isra\.\d+| \[clone [^\]]{0,80}\])+$"
)
#: A static kernel's name holds its file's: ``__nv_static_51__..._Z6kernelPf``.
_STATIC: Final = r"^__nv_static_[0-9]+_.*?_(_Z[0-9A-Za-z_]+)"
_MANGLED: Final = r"^_{1,3}Z"
#: Pattern and replacement, in order.
_SPELLINGS: Final = (
    (r"<unnamed>|\(anonymous namespace\)|_GLOBAL__N_?(?-u:\w)*|anonymous_namespace", "anon"),
    (r"\((?:unsigned |signed |long |short )*(?:int|char|long|short|size_t)\)(-?[0-9]+)", "$1"),
    (r"\(bool\)1|(?-u:\b)bool=1", "true"),
    (r"\(bool\)0|(?-u:\b)bool=0", "false"),
    # nvprof: int=4
    (r"(?-u:\b)(?:unsigned |signed |long )*(?:int|long|char|short)=(-?[0-9]+)", "$1"),
    # an enumerator: (library::Kind)2
    (r"([<, ])\((?:[A-Za-z_](?-u:\w)*(?:<[A-Za-z0-9_, :]*>)?::)*[A-Za-z_](?-u:\w)*\)(-?[0-9]+)", "$1$2"),
    (r"'lambda[0-9]*'|\{lambda|\[lambda|\{unnamed type", "lambda"),
    (r"#[0-9]+\}| \(instance [0-9]+\)\]", ""),
    (r"operator ?\(\)", "call"),
    (r"(?-u:\b)(?:THRUST|CUB|ROCPRIM|HIPCUB)_(?-u:\w)*NS::", ""),
    (r"(?-u:\b)([0-9]+)(?:ull|ul|ll|u|l|UL|U|L)(?-u:\b)", "$1"),
    # no size of a kernel: a hash or a time, too long for a column of integers
    (r"[0-9]{10,}", "n"),
)


def demangle(name: str) -> str:
    """Return the readable form of an Itanium name; a name cut short is read as far as it goes.

    >>> demangle("_Z4copyPfPKf")
    'copy(float*, float const*)'
    """
    plain = "_" + name.lstrip("_")
    try:
        return pycxxfilt.itanium_demangle(plain) or plain
    except ValueError:
        return sketch(plain)


def normalize_all(names: Sequence[str]) -> list[str]:
    """Return the one form of each name that all its spellings share as far as they can.

    >>> normalize_all(["void <unnamed>::f<(int)4, (bool)1>(float *)", "f.kd"])
    ['void anon::f<4, true>(float *)', 'f']
    """
    text = pl.Series("name", names, dtype=pl.String).str.slice(0, LONGEST).str.strip_chars()
    text = text.str.replace(_SUFFIXES, "").str.replace(_STATIC, "$1")
    mangled = text.str.contains(_MANGLED).arg_true()
    if mangled.len():
        readable = pl.Series([demangle(n) for n in text.gather(mangled)], dtype=pl.String)
        text = text.scatter(mangled, readable)
    frame = text.to_frame().lazy()
    normalized = pl.col("name")
    for pattern, replacement in _SPELLINGS:
        normalized = normalized.str.replace_all(pattern, replacement)
    return frame.select(normalized).collect()["name"].to_list()


def normalize(name: str) -> str:
    """Return the one form of one name.

    >>> normalize("void cub::CUB_200500_900_NS::f<8u>(int)")
    'void cub::f<8>(int)'
    """
    return normalize_all([name])[0]


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
