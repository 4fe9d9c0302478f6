"""Which law times which family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.decode import DECODE
from tracetool.families.attention.prefill import PREFILL
from tracetool.families.conv.law import CONV_VECTOR, pipes
from tracetool.families.formats import on_tensor
from tracetool.families.gemm.law import (
    CONV,
    GEMM,
    GEMM_FP4,
    GEMM_FP8,
    GEMM_FP8_BLOCK,
    GEMM_OLDER,
)
from tracetool.families.gemm.vector_law import GEMM_VECTOR
from tracetool.families.law import Law
from tracetool.families.law_keys import LawKey
from tracetool.families.moe.law import MOE
from tracetool.families.registry import families
from tracetool.families.rowwise.law import NORM, SOFTMAX
from tracetool.families.streaming.law import STREAM
from tracetool.families.transfers.law import COLLECTIVE, COPY
from tracetool.families.vendors import older_kernels
from tracetool.hardware.gpu import Gpu


@dataclass(frozen=True)
class Laws:
    """The laws of a family and the rows each is for."""

    choices: tuple[Law, ...]
    choose: Callable[[OperatorColumns, Gpu], Ints] | None = None

    def split(self, rows: OperatorColumns, gpu: Gpu) -> list[tuple[Law, Ints]]:
        """Return each law with the places of its rows."""
        if self.choose is None:
            return [(self.choices[0], np.arange(len(rows)))]
        chosen = self.choose(rows, gpu)
        found = [(law, np.flatnonzero(chosen == i)) for i, law in enumerate(self.choices)]
        return [(law, places) for law, places in found if places.size]


def _phase(rows: OperatorColumns, gpu: Gpu) -> Ints:
    del gpu
    phase = rows.text("phase")
    decode = (phase == "decode") | ((phase == "") & (rows.number("q_len", 1.0) <= 1))
    return np.where(decode, 1, 0).astype(np.int64)


#: Place of the law of kernels made for an older architecture among those of products.
_OLDER = 5


def _format(rows: OperatorColumns, gpu: Gpu) -> Ints:
    words = rows.text("dtype", "fp32")
    chosen = np.where(on_tensor(words, gpu), 0, 1)
    for place, names in enumerate((("fp8", "int8"), ("fp8_block",), ("nvfp4", "mxfp4")), start=2):
        named = np.any([words == n for n in names], axis=0)
        chosen = np.where(named & (chosen == 0), place, chosen)
    chosen = np.where((chosen == 0) & older_kernels(rows, gpu), _OLDER, chosen)
    return chosen.astype(np.int64)


#: Every law, by its key.
_LAWS: Final[Mapping[LawKey, Law]] = {
    LawKey(law.name): law
    for law in (
        *(GEMM, GEMM_VECTOR, GEMM_FP8, GEMM_FP8_BLOCK, GEMM_FP4, GEMM_OLDER),
        *(CONV, CONV_VECTOR, MOE, PREFILL, DECODE, NORM, SOFTMAX, COLLECTIVE, COPY, STREAM),
    )
}
#: What chooses among the laws of a family, by the first of them.
_CHOICES: Final[Mapping[LawKey, Callable[[OperatorColumns, Gpu], Ints]]] = {
    LawKey.GEMM: _format,
    LawKey.CONV: pipes,
    LawKey.PREFILL: _phase,
}


@cache
def _table() -> dict[str, Laws]:
    return {
        name: Laws(tuple(_LAWS[key] for key in family.laws), _CHOICES.get(family.laws[0]))
        for name, family in families().items()
    }


def law_of(family: str) -> Laws:
    """Return the laws of a family; a name that is none streams."""
    return _table().get(family, Laws((STREAM,)))


def laws() -> dict[str, Law]:
    """Return every law by name."""
    return {law.name: law for law in _LAWS.values()}
