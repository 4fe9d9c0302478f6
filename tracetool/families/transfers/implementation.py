"""Which library's collective a row is: what the table states of it, or its stack's usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.operators import OperatorColumns

#: Libraries by number, and their names.
NCCL, VLLM, SGLANG, TRTLLM, OTHER = range(5)
LIBRARIES: Final = ("nccl", "vllm", "sglang", "trtllm")
#: Those that reduce with kernels of their own.
CUSTOM: Final = (VLLM, SGLANG, TRTLLM)
#: Libraries whose own all-reduce a name states, by the start of the name (of an implementation or a stack).
_CUSTOM_NAMES: Final = {"vllm": VLLM, "sglang": SGLANG, "trtllm": TRTLLM, "tensorrt": TRTLLM}
#: Names of NCCL: its own, and what calls it.
_NCCL: Final = ("nccl", "torch", "pytorch")
#: SGLang's kernels up to this version are those of vLLM. [1] From its source: custom_all_reduce.py, before
#: custom_all_reduce_v2.py took its place.
_SGLANG_SAME: Final = 0.0511
#: TensorRT-LLM up to this version left messages of 2 MB to NCCL. [1] Measured on version 1.0.
_TRTLLM_EARLY: Final = 1.01


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
    version = _versions(stack)
    early = (library == SGLANG) & (version < _SGLANG_SAME) | (library == TRTLLM) & (version < _TRTLLM_EARLY)
    return Implementations(library, np.char.endswith(implementation, "eager"), stated, early)


def _lower(column: Texts) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.char.lower(column.astype(str))


def _starts(name: np.ndarray[tuple[int], np.dtype[np.str_]], starts: tuple[str, ...]) -> Bools:
    return np.asarray(np.any([np.char.startswith(name, start) for start in starts], axis=0))


def _versions(stack: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Floats:
    """Return major + minor / 100 + patch / 10000 of "library 1.2.3"; infinite without a version."""
    distinct, places = np.unique(stack, return_inverse=True)
    return np.array([_version(text) for text in distinct.tolist()])[places]


def _version(text: str) -> float:
    parts = text.rpartition(" ")[2].split(".") if " " in text else []
    digits = ["".join(c for c in part if c.isdigit()) for part in parts[:3]]
    if not digits or not all(digits[:2]):
        return float("inf")
    return sum(int(part or 0) / 100.0**place for place, part in enumerate(digits))
