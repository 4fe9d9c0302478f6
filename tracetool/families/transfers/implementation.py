"""Which library's collective a row is: what the table states of it, or its stack's usual."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Ints, Texts
from tracetool.core.operators import OperatorColumns

#: Libraries by number, and their names. [1] By definition.
NCCL, VLLM, SGLANG, TRTLLM, OTHER = range(5)
LIBRARIES: Final = ("nccl", "vllm", "sglang", "trtllm")
#: Those that reduce with kernels of their own.
CUSTOM: Final = (VLLM, SGLANG, TRTLLM)
#: Libraries whose own all-reduce a name states, by the start of the name (of an implementation or a stack).
_CUSTOM_NAMES: Final = {"vllm": VLLM, "sglang": SGLANG, "trtllm": TRTLLM, "tensorrt": TRTLLM}
#: Names of NCCL: its own, and what calls it.
_NCCL: Final = ("nccl", "torch", "pytorch")
#: First versions with today's kernels, by library: SGLang's were vLLM's before custom_all_reduce_v2.py took
#: their place, TensorRT-LLM left messages of 2 MB to NCCL. [1] As measured: 0.5.10 and 0.5.14, 1.0 and 1.3.
_FIRST_OF_TODAY: Final = {SGLANG: (0, 5, 11), TRTLLM: (1, 1)}


@dataclass(frozen=True)
class Implementations:
    """Library of each row; shape (n,) each."""

    library: Ints
    eager: Bools  # launched one by one from Python, not replayed as a graph
    stated: Bools  # whether the row names any
    early: Bools  # a version before the library's present kernels


def implementations_of(rows: OperatorColumns) -> Implementations:
    """Return what each row states.

    ``implementation`` (or ``backend``) names the kernel: ``NCCL``, ``vLLM_custom_graph``,
    ``SGLang_CustomAllReduce_eager``, ``TRTLLM``. Without one, the ``stack`` names the library. A row that
    states neither is taken for NCCL's, one that states another library for one with kernels of its own.
    """
    implementation = _lower(rows.text("implementation"))
    implementation = np.where(implementation == "", _lower(rows.text("backend")), implementation)
    stack = _lower(rows.text("stack"))
    name = np.where(implementation == "", stack, implementation)
    stated = name != ""
    library = np.where(stated & ~_starts(name, _NCCL), OTHER, NCCL)
    for start, number in _CUSTOM_NAMES.items():
        library[_starts(name, (start,))] = number
    return Implementations(library, np.char.endswith(implementation, "eager"), stated, _early(library, stack))


def _lower(column: Texts) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.char.lower(column.astype(str))


def _starts(name: np.ndarray[tuple[int], np.dtype[np.str_]], starts: tuple[str, ...]) -> Bools:
    return np.asarray(np.any([np.char.startswith(name, start) for start in starts], axis=0))


def _early(library: Ints, stack: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Bools:
    """Return which rows state a version before the kernels of today. Shape (n,)."""
    early = np.zeros(len(library), dtype=np.bool_)
    if not np.any(stack != ""):
        return early
    distinct, places = np.unique(stack, return_inverse=True)
    versions = [_version(text) for text in distinct.tolist()]
    for number, first in _FIRST_OF_TODAY.items():
        before = np.array([bool(version) and version < first for version in versions])
        early |= (library == number) & before[places]
    return early


def _version(stack: str) -> tuple[int, ...]:
    """Return the numbers of "sglang 0.5.10"; none where no version is stated.

    >>> _version("trtllm 1.3.0rc20"), _version("vllm")
    ((1, 3), ())
    """
    parts = stack.partition(" ")[2].split(".")
    return tuple(int(part) for part in itertools.takewhile(str.isdecimal, parts))
