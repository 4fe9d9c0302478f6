"""Library of a row's collective: the one the table states, or its stack's usual."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns, distinct_texts

#: Libraries by number, and their names. [1] By definition.
NCCL, VLLM, SGLANG, TRTLLM, OTHER = range(5)
LIBRARIES: Final = ("nccl", "vllm", "sglang", "trtllm")
#: Those that reduce with kernels of their own.
CUSTOM: Final = (VLLM, SGLANG, TRTLLM)
#: Libraries whose own all-reduce a name states, by the start of the name (of an implementation or a stack).
_CUSTOM_NAMES: Final = {"vllm": VLLM, "sglang": SGLANG, "trtllm": TRTLLM, "tensorrt": TRTLLM}
#: Names of NCCL: its own, and what calls it.
_NCCL: Final = ("nccl", "torch", "pytorch")
#: How each library's all-reduces are named in tables, with how likely a row that names none is of it:
#: libraries alike, and half of what Python also launches one by one. [1] A prior.
_POSSIBLE: Final = (
    ("NCCL", 1.0), ("TRTLLM", 1.0), ("vLLM_graph", 0.5), ("SGLang_graph", 0.5), ("vLLM_eager", 0.5),
    ("SGLang_eager", 0.5),
)  # fmt: skip
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
    """Return the library of each row as it states it.

    ``implementation`` (or ``backend``) names the kernel: ``NCCL``, ``vLLM_custom_graph``,
    ``SGLang_CustomAllReduce_eager``, ``TRTLLM``. Without one, the ``stack`` names the library. A row that
    states neither is taken for NCCL's, one that states another library for one with kernels of its own.
    """
    implementation, backend = rows.text("implementation"), rows.text("backend")
    names, name = distinct_texts(np.where(implementation == "", backend, implementation))
    stacks, stack = rows.distinct("stack")
    pairs, pair = np.unique(name * len(stacks) + stack, return_inverse=True)
    implementations = [
        _implementation(names[p // len(stacks)], stacks[p % len(stacks)]) for p in pairs.tolist()
    ]
    library, eager, stated, early = np.array(implementations, dtype=np.int64).reshape(-1, 4)[pair].T
    return Implementations(library, eager > 0, stated > 0, early > 0)


def as_each_library(rows: OperatorColumns) -> list[tuple[OperatorColumns, Floats]]:
    """Return rows that state no library as each would state them, and how likely each is, shape (n,).

    All but all-reduces are NCCL's in every library. None where rows state theirs.
    """
    if bool(implementations_of(rows).stated.any()):
        return []
    kinds, place = rows.distinct("kind")
    reduces_all = np.array(["allreduce" in kind.lower().replace("_", "") for kind in kinds])[place]
    possible = []
    for name, weight in _POSSIBLE:
        column = np.full(len(rows), name, dtype=object)
        named = OperatorColumns(rows.family, {**rows.columns, "implementation": column})
        likely = reduces_all | name.lower().startswith(_NCCL)
        possible.append((named, np.where(likely, weight, 0.0)))
    return possible


def _implementation(name: str, stack: str) -> tuple[int, bool, bool, bool]:
    """Return the library, and whether it is launched from Python, stated, and a version before today's."""
    name, stack = name.lower(), stack.lower()
    library, eager = name or stack, name.endswith("eager")
    if not library or library.startswith(_NCCL):
        return NCCL, eager, bool(library), False
    number = next((n for start, n in _CUSTOM_NAMES.items() if library.startswith(start)), OTHER)
    version, first = _version(stack), _FIRST_OF_TODAY.get(number)
    return number, eager, True, bool(version and first and version < first)


def _version(stack: str) -> tuple[int, ...]:
    """Return the numbers of "sglang 0.5.10"; none where no version is stated.

    >>> _version("trtllm 1.3.0rc20"), _version("vllm")
    ((1, 3), ())
    """
    fields = stack.partition(" ")[2].split(".")
    return tuple(int(field) for field in itertools.takewhile(str.isdecimal, fields))
