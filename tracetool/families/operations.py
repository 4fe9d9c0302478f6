"""Operations of a kernel for each element, as instructions of a thread.

Loads, stores and addresses are the same for a copy and for a GELU; the formula between them is not: none for
a copy, some 26 instructions for a GELU. They cost power where memory sets the time.
Counts: ``operations.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns, distinct_texts
from tracetool.families.coefficients import read_coefficients, values_of
from tracetool.families.formats import dtype_of, element_bytes

#: Between operations that one kernel computes: ``gelu+mul``.
AND = "+"
#: Elements of this size are worked on as they are; smaller ones are changed to FP32 and back. [B] By
#: definition of PyTorch's ``opmath_t`` (pytorch/pytorch, ``aten/src/ATen/OpMathType.h``).
_WORKED_ON_BYTES = 4.0


@cache
def operations() -> Mapping[str, float]:
    """Return the instructions of a thread per element by operation. [1]"""
    return values_of(read_coefficients(__package__, "operations")["instructions"])


def instructions_of(text: str) -> float:
    """Return the instructions per element of an operation or several, NaN where one of them is not known.

    >>> instructions_of("GELU+mul")
    27.0
    """
    instructions = operations()
    each = [instructions.get(word.strip(), float("nan")) for word in text.lower().split(AND)]
    return float(sum(each)) if text else float("nan")


def is_known(text: str) -> bool:
    """Return whether each of the operations of a text is counted.

    >>> is_known("silu+mul"), is_known("silu+nothing")
    (True, False)
    """
    return bool(np.isfinite(instructions_of(text)))


def instructions_per_element(rows: OperatorColumns, tensors: Floats) -> Floats:
    """Return the instructions that compute an element, NaN where the computation is not stated. (n,) [1]

    Parameters
    ----------
    rows : OperatorColumns
        n rows; ``computes``, as a kernel's name states it, or a table's ``kind``.
    tensors : array, shape (n,)
        Tensors an element is loaded from and stored to: those of 16 bits and less change format.
    """
    if "computes" not in rows.columns and "kind" not in rows.columns:
        return np.full(len(rows), np.nan)
    stated = rows.text("computes")
    texts, place = distinct_texts(np.where(stated == "", rows.text("kind"), stated))
    each = np.array([instructions_of(str(text)) for text in texts], dtype=np.float64)[place]
    changes = np.where(element_bytes(dtype_of(rows)) < _WORKED_ON_BYTES, tensors, 0.0)
    as_they_are = np.array([str(text).lower() == "copy" for text in texts], dtype=np.bool_)[place]
    return np.asarray(each + np.where(as_they_are, 0.0, changes))
