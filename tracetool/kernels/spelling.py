"""One spelling of a kernel name for the many that profilers write.

Profilers write one kernel mangled (``_ZN2at6native...``), as ``c++filt`` or LLVM print it, as Nsight prints it
(``<(int)128, (bool)1>``, ``<unnamed>``, ``[lambda() (instance 1)]``), as nvprof does (``int=4``), cut short, or as the bare head symbol. Names
are brought to one form all at once, by an engine that is linear in their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
import pycxxfilt

from tracetool.kernels.mangled import sketch

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
